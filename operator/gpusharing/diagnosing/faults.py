"""Faults of Kubernetes that hit shared GPUs, by the releases that have them.

Read in the sources of the releases: of kube-scheduler up to 1.36.6 and 1.37.2, of the kubelet up to 1.36.4 and 1.37.1.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

SCHEDULER: Final = "kube-scheduler"
KUBELET: Final = "kubelet"

_VERSION: Final = re.compile(r"v?1\.(\d{1,4})\.(\d{1,4})(-(?:alpha|beta|rc)\b)?")


class Version(NamedTuple):
    minor: int
    patch: int

    def __str__(self) -> str:
        return f"1.{self.minor}.{self.patch}"


class Fault(NamedTuple):
    program: str
    issue: str
    last: Mapping[int, int]
    """The last patch release that has it, by the minor one."""
    fixed: str
    effect: str
    is_serious: bool = False
    """It gives away GPUs twice."""

    def is_in(self, version: Version) -> bool:
        return version.patch <= self.last.get(version.minor, -1)


FAULTS: Final = (
    Fault(
        SCHEDULER,
        "kubernetes#139034",
        {36: 1},
        "1.36.2",
        "it can allocate a GPU in two modes at once, because it forgets shares that were allocated before",
        is_serious=True,
    ),
    Fault(
        SCHEDULER,
        "kubernetes#138882",
        {36: 1},
        "1.36.2",
        "a claim with allocationMode All ends it, and whoever may create claims can write one",
    ),
    Fault(
        SCHEDULER,
        "kubernetes#141323",
        {36: 4, 37: 0},
        "1.36.5 or 1.37.1",
        "a claim with huge counts ends it, and whoever may create claims can write one",
    ),
    Fault(
        SCHEDULER, "kubernetes#140436", {36: 2}, "1.36.3", "pods can wait although devices are free on a node for them"
    ),
    Fault(
        SCHEDULER,
        "kubernetes#140435",
        {36: 3},
        "1.36.4",
        "it mixes up the counters of two drivers whose pools have the same name",
    ),
    Fault(
        SCHEDULER,
        "kubernetes#140769",
        {36: 6},
        "1.37.0",
        "a claim with allocationMode All can get some of the shared devices instead of all",
    ),
    Fault(
        SCHEDULER,
        "kubernetes#140600",
        {36: 6},
        "1.37.0",
        "distinctAttribute does not keep devices of the same request apart",
    ),
    Fault(
        KUBELET,
        "kubernetes#140274",
        {36: 3},
        "1.36.4",
        "a pod with devices of two drivers may not start after its first attempt failed",
    ),
    Fault(
        KUBELET,
        "kubernetes#140212",
        {36: 4},
        "1.37.0",
        "the end of a pod that never started can take the devices from another pod of the same claim",
    ),
    Fault(
        KUBELET,
        "kubernetes#140527",
        {36: 4},
        "1.37.0",
        "a pod can run without its devices if another pod of the same claim ends as it starts",
    ),
)


def read_version(text: str) -> Version | None:
    """Of a program, such as v1.36.3-gke.120; None: nobody knows, or it is before its release."""
    match = _VERSION.match(text)
    return None if match is None or match[3] else Version(int(match[1]), int(match[2]))


def faults_of(program: str, version: Version) -> Iterator[Fault]:
    """The most serious first."""
    found = [fault for fault in FAULTS if fault.program == program and fault.is_in(version)]
    yield from sorted(found, key=lambda fault: not fault.is_serious)
