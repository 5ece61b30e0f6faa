"""What the API server is, and what it can."""

import re
from collections.abc import Iterator
from typing import Final

from gpusharing import cel
from gpusharing.diagnosing.check import Check, Section, State, not_checked, of_cluster
from gpusharing.diagnosing.facts import ClusterFacts
from gpusharing.diagnosing.faults import SCHEDULER, Version, faults_of, read_version
from gpusharing.findings import installations
from gpusharing.findings.finding import Finding

OLDEST: Final = 36
API: Final = "resource.k8s.io/v1"
BETA: Final = "resource.k8s.io/v1beta2"

_KINDS: Final = frozenset({"deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices"})
_TAINT_RULES: Final = "devicetaintrules"

GATES: Final = {
    "DRAConsumableCapacity": "no device can be shared by several claims",
    "DRAPartitionableDevices": "a GPU cannot be offered in several modes, nor as MIG instances",
    "DRADeviceTaints": "GPUs that are unhealthy or closing are allocated all the same",
    "DRAResourceClaimDeviceStatus": "claims do not say which GPU they got",
}
"""Without which promises do not hold. By default they are on."""


def check_kubernetes(facts: ClusterFacts) -> Iterator[Check]:
    yield (version := _version(facts))
    if version.state is State.ERROR:
        # What else is missing in an old one comes with the upgrade.
        return
    yield _faults(facts)
    yield _api(facts)
    yield _taint_rules(facts)
    yield _gates(facts)


def minor_of(version: str) -> int:
    # Some vendors write "36+".
    return int(re.sub(r"[^0-9].*", "", version) or 0)


def _version(facts: ClusterFacts) -> Check:
    # During an upgrade a new server may behave as its predecessor.
    program = facts.version.get("gitVersion", "")
    minor = minor_of(str(facts.version.get("emulationMinor") or facts.version.get("minor", "")))
    shown = program if read_version(program) and minor_of(program.split(".")[1]) == minor else f"1.{minor} ({program})"
    found: list[Finding] = []
    if minor < OLDEST:
        found.append(
            of_cluster(installations.TOO_OLD, program="The API server", version=f"Kubernetes {shown}", oldest=OLDEST)
        )
    if minor > cel.NEWEST_MINOR:
        found.append(of_cluster(installations.TOO_NEW, version=shown, newest=cel.NEWEST_MINOR))
    return Check(Section.KUBERNETES, "version", f"The API server is Kubernetes {shown}.", found)


def _faults(facts: ClusterFacts) -> Check:
    """The scheduler's version is nowhere to be read: it is mostly that of the API server."""
    version = read_version(facts.version.get("gitVersion", ""))
    if version is None:
        return not_checked(
            Section.KUBERNETES, "scheduler", "Known faults of kube-scheduler", "the version is not that of a release"
        )
    return Check(
        Section.KUBERNETES,
        "scheduler",
        f"kube-scheduler {version} has no fault that is known to hit shared GPUs.",
        list(known_faults(SCHEDULER, version)),
    )


def known_faults(program: str, version: Version, where: str = "") -> Iterator[Finding]:
    for fault in faults_of(program, version):
        entry = installations.SERIOUS_FAULT if fault.is_serious else installations.FAULT
        yield of_cluster(
            entry,
            program=program,
            version=f"{version}{where}",
            issue=fault.issue,
            effect=fault.effect,
            fixed=fault.fixed,
        )


def _api(facts: ClusterFacts) -> Check:
    missing = sorted(_KINDS - facts.served.get(API, frozenset()))
    found = [of_cluster(installations.API_MISSING, resources=", ".join(missing))] if missing else []
    return Check(Section.KUBERNETES, "api", f"The API server serves {API}.", found)


def _taint_rules(facts: ClusterFacts) -> Check:
    served = next((api for api in (API, BETA) if _TAINT_RULES in facts.served.get(api, frozenset())), "")
    found = [] if served else [of_cluster(installations.NO_TAINT_RULES)]
    return Check(Section.KUBERNETES, "taint-rules", f"The API server serves DeviceTaintRules of {served}.", found)


def _gates(facts: ClusterFacts) -> Check:
    if facts.gates.unread:
        return not_checked(Section.KUBERNETES, "feature-gates", "Feature gates of the API server", facts.gates.unread)
    # One that is not listed is locked, or was removed when it became a matter of course.
    found = [
        of_cluster(installations.GATE_OFF, gate=gate, effect=effect)
        for gate, effect in GATES.items()
        if not facts.gates.on.get(gate, True)
    ]
    return Check(
        Section.KUBERNETES, "feature-gates", "All feature gates that are needed are on in the API server.", found
    )
