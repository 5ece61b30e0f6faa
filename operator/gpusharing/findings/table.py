"""All findings, by code. Each area has a module; areas are told apart by the first two digits."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from gpusharing.findings import converting, reading
from gpusharing.findings.finding import Entry


class Area(NamedTuple):
    number: int
    title: str
    entries: tuple[Entry, ...]


AREAS: Final = (
    Area(1, "Reading the cluster", reading.ENTRIES),
    Area(8, "Conversion", converting.ENTRIES),
)

TABLE: Final[Mapping[str, Entry]] = {entry.code: entry for area in AREAS for entry in area.entries}
