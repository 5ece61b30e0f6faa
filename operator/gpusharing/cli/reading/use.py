"""Memory used and utilization: from Prometheus, or from the agents where they are few."""

from dataclasses import replace
from typing import TYPE_CHECKING

from gpusharing.cli.reading.client import Client

if TYPE_CHECKING:
    from gpusharing.occupancy.usage import Usage


def read_usage(client: Client, prometheus: str | None) -> "Usage":
    """Raises CommandError for a Prometheus that does not answer: it was asked for."""
    # Loaded while the API server works.
    from gpusharing.cli.reading import agents  # noqa: PLC0415
    from gpusharing.cli.reading import prometheus as asking  # noqa: PLC0415
    from gpusharing.occupancy.notes import not_measured  # noqa: PLC0415
    from gpusharing.occupancy.usage import usage_of  # noqa: PLC0415

    if prometheus is not None:
        samples = asking.read(prometheus)
        missing = not_measured(
            "this Prometheus has no metrics of agents", "Let it scrape them: docs/metrics.md says how."
        )
        return replace(usage_of(samples), missing=None if samples else missing)
    found = agents.read(client)
    missing = not_measured(found.problem, "Ask a Prometheus that scrapes the agents: --prometheus URL.")
    return replace(usage_of(found.samples), missing=missing if found.problem else None)
