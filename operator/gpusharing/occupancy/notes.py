"""What the caller may not read, and what is therefore missing."""

from collections.abc import Iterator
from typing import Final

from gpusharing.findings import reading
from gpusharing.findings.finding import Entry, Finding, Reference
from gpusharing.snapshots.world import CLAIMS, NODE_SHARINGS, NOT_SERVED, PODS, World

_CLUSTER: Final = Reference("Cluster", "")


def notes(world: World) -> Iterator[Finding]:
    if NODE_SHARINGS.field in world.unread:
        entry = reading.NOT_INSTALLED if world.unread[NODE_SHARINGS.field].startswith(NOT_SERVED) else reading.NOT_READ
        yield _note(entry, NODE_SHARINGS.plural, "GPUs are known only by the claims that you may read")
    if CLAIMS.field in world.unread:
        yield _note(
            reading.NOT_READ, CLAIMS.plural, "all claims are counted without their names (-n says whose you may read)"
        )
    elif CLAIMS.field in world.only_namespace:
        missing = "claims of other namespaces are counted without their names"
        yield _note(reading.NOT_READ, f"{CLAIMS.plural} of all namespaces", missing)
    if PODS.field in world.unread:
        yield _note(reading.NOT_READ, PODS.plural, "pods that wait are not shown")
    elif namespace := world.only_namespace.get(PODS.field):
        missing = f"only pods of namespace {namespace} are shown that wait"
        yield _note(reading.NOT_READ, f"{PODS.plural} of all namespaces", missing)


def not_measured(why: str, remedy: str) -> Finding:
    return reading.NOT_MEASURED.found(_CLUSTER, why=why, remedy=remedy)


def _note(entry: Entry, resource: str, missing: str) -> Finding:
    return entry.found(_CLUSTER, resource=resource, missing=missing)
