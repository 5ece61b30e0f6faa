"""Moments as Kubernetes writes them (2026-11-18T12:00:00Z), as numbers to calculate with."""

import re
from functools import lru_cache
from typing import Final

_MOMENT: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.\d+)?Z", re.ASCII)


@lru_cache(1024)  # Each moment is asked for by many nodes.
def seconds(moment: str) -> int:
    """Since 1970; fractions are left out."""
    match = _MOMENT.fullmatch(moment)
    if match is None:
        raise ValueError(f"{moment!r} is not a moment such as 2026-11-18T12:00:00Z")
    year, month, day, hour, minute, second = (int(part) for part in match.groups())
    return ((_days(year, month, day) * 24 + hour) * 60 + minute) * 60 + second


def _days(year: int, month: int, day: int) -> int:
    # Years that begin in March have the leap day at their end, and months whose lengths follow a line.
    year, month = (year - 1, month + 9) if month < 3 else (year, month - 3)
    return 365 * year + year // 4 - year // 100 + year // 400 + (153 * month + 2) // 5 + day - 719469
