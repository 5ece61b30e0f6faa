"""All findings, by code. Each area has a module; areas are told apart by the first two digits."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from gpusharing.findings import (
    converting,
    exporting,
    gpus,
    installations,
    planning,
    policies,
    reading,
    running,
    validating,
    waiting,
)
from gpusharing.findings.finding import Entry


class Area(NamedTuple):
    number: int
    title: str
    entries: tuple[Entry, ...]


AREAS: Final = (
    Area(1, "Reading the cluster", reading.ENTRIES),
    Area(2, "Pods and claims that wait", waiting.ENTRIES),
    Area(3, "Pods and claims with devices", running.ENTRIES),
    Area(4, "GPUs and nodes", gpus.ENTRIES),
    Area(5, "SharingPolicies", policies.ENTRIES),
    Area(6, "Manifests", validating.ENTRIES),
    Area(7, "Plans", planning.ENTRIES),
    Area(8, "Conversion", converting.ENTRIES),
    Area(9, "Installations", installations.ENTRIES),
    Area(10, "Exports for queueing systems", exporting.ENTRIES),
)

TABLE: Final[Mapping[str, Entry]] = {entry.code: entry for area in AREAS for entry in area.entries}
