"""How hypothesis runs here: no deadline, because the machines are busy, and no database beside the sources."""

import os

from hypothesis import HealthCheck, settings


def load_profile() -> None:
    # The same cases on every run, so that a red build is somebody's change; GPUSHARING_EXAMPLES=5000 searches anew.
    examples = int(os.environ.get("GPUSHARING_EXAMPLES", "0"))
    settings.register_profile(
        "gpusharing",
        deadline=None,
        database=None,
        derandomize=not examples,
        max_examples=examples or 30,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("gpusharing")
