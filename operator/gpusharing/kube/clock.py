"""What time it is."""

import time
from datetime import UTC, datetime
from typing import Final


def now() -> str:
    """As Kubernetes writes times."""
    return _written(time.time())


def now_precisely() -> str:
    """As Kubernetes writes a MicroTime."""
    return _written_precisely(time.time())


def seconds_since_boot() -> float:
    """Of a clock that nobody sets, and that goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


# Once for the whole process, so that the same moment is always written in the same way.
_BOOT: Final = round(time.time() - seconds_since_boot())


def as_moment(since_boot: float) -> str:
    return _written(_BOOT + since_boot)


def as_precise_moment(since_boot: float) -> str:
    """Two moments that differ are written differently, as far as a microsecond can be told."""
    return _written_precisely(_BOOT + since_boot)


def _written_precisely(since_1970: float) -> str:
    return datetime.fromtimestamp(since_1970, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _written(since_1970: float) -> str:
    return datetime.fromtimestamp(since_1970, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
