"""Claims of jobs that queueing systems cannot count."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from gpusharing.exporting.queues import QueuedClass
from gpusharing.findings.exporting import NOT_CHARGEABLE, NOT_COUNTED
from gpusharing.findings.finding import Entry, Finding, Reference

Json = Mapping[str, Any]

_EXACT: Final = "Ask for an exact number of devices of one class (exactly, count)."
_BY_CLASS: Final = "deviceclass.resource.kubernetes.io/"


class Job(NamedTuple):
    """What makes pods, with their spec."""

    about: Reference
    pod: Json


def not_admitted_by_kueue(
    templates: Sequence[Json], jobs: Sequence[Job], classes: Collection[QueuedClass]
) -> Iterator[Finding]:
    known = {one.name for one in classes}
    extended = {one.extended_resource for one in classes}
    for template in templates:
        for request in _requests(template):
            if _classes(request) & known and (limitation := _limitation(request)):
                yield _found(NOT_CHARGEABLE, _about(template), limitation, _EXACT)
    for job in jobs:
        for claim in _list(job.pod, "resourceClaims"):
            if claim.get("resourceClaimName"):
                limitation = f"pod claim {claim.get('name')} names a ResourceClaim (use of resource claims)"
                yield _found(NOT_CHARGEABLE, job.about, limitation, "Name a ResourceClaimTemplate.")
        limits, requests = _resources(job.pod, "limits"), _resources(job.pod, "requests")
        for resource in sorted(limits | requests):
            if resource.removeprefix(_BY_CLASS) in known and resource.startswith(_BY_CLASS):
                limitation = f"it asks for {resource}, which no ClusterQueue covers"
                remedy = "Use a ResourceClaimTemplate, or a name of classes.extendedResources."
                yield _found(NOT_CHARGEABLE, job.about, limitation, remedy)
            elif resource in extended - requests:
                limitation = f"{resource} stands in limits only, and Kueue looks for extended resources in requests"
                yield _found(NOT_CHARGEABLE, job.about, limitation, "Set it in requests, too.")


def not_counted_by_volcano(templates: Sequence[Json], classes: Collection[QueuedClass]) -> Iterator[Finding]:
    known = {one.name for one in classes}
    for template in templates:
        for request in _requests(template):
            if _classes(request) & known and (limitation := _without_a_number(request)):
                yield _found(NOT_COUNTED, _about(template), limitation, _EXACT)


def _limitation(request: Json) -> str:
    """In the words of Kueue."""
    if _map(request, "exactly").get("adminAccess"):
        return f"request {request.get('name')} has adminAccess (AdminAccess)"
    return _without_a_number(request)


def _without_a_number(request: Json) -> str:
    """Why nobody can say how many devices of which class it takes."""
    if request.get("firstAvailable"):
        return f"request {request.get('name')} has alternatives (FirstAvailable device selection)"
    if _map(request, "exactly").get("allocationMode") == "All":
        return f"request {request.get('name')} asks for all devices (AllocationMode 'All')"
    return ""


def _classes(request: Json) -> set[str]:
    parts = [_map(request, "exactly"), *_list(request, "firstAvailable")]
    return {str(part.get("deviceClassName")) for part in parts}


def _requests(template: Json) -> Sequence[Json]:
    return _list(_map(_map(_map(template, "spec"), "spec"), "devices"), "requests")


def _resources(pod: Json, field: str) -> set[str]:
    containers = [*_list(pod, "initContainers"), *_list(pod, "containers")]
    return {str(name) for container in containers for name in _map(_map(container, "resources"), field)}


def _found(entry: Entry, about: Reference, limitation: str, remedy: str) -> Finding:
    return entry.found(about, object=about, limitation=limitation, remedy=remedy)


def _about(template: Json) -> Reference:
    metadata = _map(template, "metadata")
    return Reference("ResourceClaimTemplate", str(metadata.get("name")), str(metadata.get("namespace") or ""))


def _map(value: Json, field: str) -> Json:
    found = value.get(field)
    return found if isinstance(found, Mapping) else {}


def _list(value: Json, field: str) -> Sequence[Json]:
    found = value.get(field)
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, Sequence) else []
