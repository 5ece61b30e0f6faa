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


def moment(since_1970: float) -> str:
    """Of whole seconds."""
    days, second = divmod(int(since_1970), 86_400)
    # Years that begin in March; eras of 400 years have 146,097 days each.
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month_from_march = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month_from_march + 2) // 5 + 1
    month = month_from_march + 3 if month_from_march < 10 else month_from_march - 9
    year = era * 400 + year_of_era + (month < 3)
    hour, minute = divmod(second // 60, 60)
    return f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second % 60:02}Z"


def _days(year: int, month: int, day: int) -> int:
    # Years that begin in March have the leap day at their end, and months whose lengths follow a line.
    year, month = (year - 1, month + 9) if month < 3 else (year, month - 3)
    return 365 * year + year // 4 - year // 100 + year // 400 + (153 * month + 2) // 5 + day - 719469
