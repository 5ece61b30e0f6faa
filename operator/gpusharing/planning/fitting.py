"""What would find a place when the change is done: pods that wait now, and what runs now if it came again."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gpusharing.api.dra import DeviceClass, Node, ResourceSlice
from gpusharing.api.meta import Key, LabelledMeta, WholeMeta
from gpusharing.core.allocate.allocation import Cluster, Outcome, allocate, results
from gpusharing.core.allocate.extended_resources import ExtendedResources, NotProvidedError
from gpusharing.core.allocate.inventory import Inventory, TaintRule, read_taint_rule
from gpusharing.core.allocate.pod_claims import PodClaimError, claims_of_pod
from gpusharing.core.allocate.requests import Claim, UnknownRequestError
from gpusharing.core.allocate.search import Chosen
from gpusharing.core.allocate.taken import Taken
from gpusharing.explaining import lean
from gpusharing.explaining.where import exclusions
from gpusharing.planning.changes import Workload
from gpusharing.planning.state import KindOfClaim, State
from gpusharing.snapshots.world import Json, World

Denied = Mapping[str, Collection[str]]
"""By namespace, the policies of whose tenants it is none."""

_MOST_PODS: Final = 2_000
"""Of those that wait: more of them say nothing new."""


@dataclass(slots=True, kw_only=True)
class Fleet:
    """All nodes with what they publish at one time."""

    nodes: Sequence[lean.Node]
    slices: Iterable[ResourceSlice]
    classes: Mapping[str, DeviceClass]
    minor: int
    rules: Sequence[TaintRule]
    _inventory: Inventory = field(init=False)
    _nodes: Mapping[str, Node] = field(init=False)

    def __post_init__(self) -> None:
        self._inventory = Inventory(self.slices, minor=self.minor, rules=self.rules)
        self.slices = ()
        self._nodes = {
            one.metadata.name: Node(metadata=LabelledMeta(name=one.metadata.name, labels=dict(one.labels)))
            for one in self.nodes
        }

    def node(self, name: str) -> Node:
        return self._nodes[name]

    def cluster(self, taken: Taken) -> Cluster:
        return Cluster(inventory=self._inventory, classes=self.classes, taken=taken)

    def place(
        self, claims: Sequence[Claim], nodes: Iterable[str], cluster: Cluster, denied: Collection[str]
    ) -> tuple[str, Sequence[Sequence[Chosen]]] | None:
        """The first of these nodes on which the claims fit, and what they would get."""
        outcome = self.ask(claims, nodes, cluster, denied)
        return None if outcome.stop else first_fitting(outcome)

    def ask(self, claims: Sequence[Claim], nodes: Iterable[str], cluster: Cluster, denied: Collection[str]) -> Outcome:
        """Up to the first of these nodes on which they fit."""
        return allocate(claims, (self._nodes[name] for name in nodes), cluster, denied=denied, first=True)


def first_fitting(outcome: Outcome) -> tuple[str, Sequence[Sequence[Chosen]]] | None:
    """With that node, `ask` has ended."""
    for name, found in list(outcome.nodes.items())[-1:]:
        if found.chosen is not None and not found.denied_by:
            return name, found.chosen
    return None


def starting(world: World, fleet: Fleet, taken: Taken, denied: Denied) -> Iterator[tuple[Json, Workload]]:
    """Pods that wait, and would get their devices, one after the other: with them, all that are like it. `taken` has
    afterwards what they got."""
    pending = _pending(world)
    if not pending:
        return
    claims = {
        (one["metadata"].get("namespace", ""), one["metadata"]["name"]): one for one in _claims_of(world, pending)
    }
    extended = ExtendedResources(fleet.classes)
    cluster = fleet.cluster(taken)
    passed: dict[str, list[str]] = {}
    for pod in pending[:_MOST_PODS]:
        namespace = pod["metadata"].get("namespace", "")
        asked = asked_by(pod, claims, extended)
        wanted = [claim for claim in asked if not claim.is_allocated]
        if not wanted:
            continue
        kind = repr((namespace, [(one.requests, one.constraints) for one in wanted], _placing(pod)))
        # What had no room for one has none for the next that is like it.
        left = passed.get(kind)
        if left is None:
            excluded = exclusions(pod, fleet.nodes)
            left = [one.metadata.name for one in fleet.nodes if one.metadata.name not in excluded]
        found = fleet.place(asked, left, cluster, denied.get(namespace, ()))
        passed[kind] = left[left.index(found[0]) :] if found else []
        if found:
            for claim, chosen in zip(wanted, found[1], strict=True):
                taken.add((claim.namespace, claim.name), results(claim, chosen))
            yield pod, Workload(namespace=namespace, name=pod["metadata"]["name"], count=1, asks_for=in_words(wanted))


def asked_by(pod: Json, claims: Mapping[Key, Json], extended: ExtendedResources) -> list[Claim]:
    """Its claims, with the one for extended resources. None of a pod that Kubernetes does not try to schedule."""
    try:
        asked = claims_of_pod(pod, claims)
        implicit = extended.claim(pod, {})
    except (PodClaimError, UnknownRequestError, NotProvidedError):
        return []
    return [*asked, *([implicit] if implicit else [])]


def without_place(kinds: Iterable[KindOfClaim], fleet: Fleet, denied: Denied) -> list[KindOfClaim]:
    """Those that no node would have, if all were idle."""
    known: dict[tuple[bytes, frozenset[str]], bool] = {}
    names = [one.metadata.name for one in fleet.nodes]
    idle = fleet.cluster(Taken())
    found: list[KindOfClaim] = []
    for kind in kinds:
        # Namespaces differ in nothing but the policies of whose tenants they are none.
        key = kind.text, frozenset(denied.get(kind.namespace, ()))
        if key not in known:
            known[key] = fleet.place([kind.claim], names, idle, key[1]) is not None if kind.claim else True
        if not known[key]:
            found.append(kind)
    return found


def kinds_in_use(state: State) -> list[KindOfClaim]:
    return [kind for kind in state.kinds.values() if kind.allocated]


def rules_of(world: World) -> list[TaintRule]:
    return [rule for one in world.taint_rules for rule in read_taint_rule(one["spec"])]


def slice_of(name: str, spec: Mapping[str, Any]) -> ResourceSlice:
    return ResourceSlice(metadata=WholeMeta(name=name), spec=dict(spec))


def in_words(claims: Sequence[Claim]) -> str:
    """2 x thirds-mps (memory 8Gi)."""
    found: list[str] = []
    for request in (request for claim in claims for request in claim.requests):
        names = " or ".join(dict.fromkeys(one.device_class for one in request.alternatives))
        first = request.alternatives[0] if request.alternatives else None
        count = "all of " if first and first.everything else f"{first.count} x " if first and first.count > 1 else ""
        found.append(f"{count}{names}")
    return ", ".join(found) or "nothing"


def _pending(world: World) -> list[Json]:
    """In the order in which the scheduler tries them: the most important first, then the oldest."""
    found = [
        pod
        for pod in world.pods
        if not pod["spec"].get("nodeName")
        and (pod.get("status") or {}).get("phase", "Pending") == "Pending"
        and not pod["metadata"].get("deletionTimestamp")
        and not pod["spec"].get("schedulingGates")
    ]
    return sorted(
        found, key=lambda pod: (-(pod["spec"].get("priority") or 0), pod["metadata"].get("creationTimestamp") or "")
    )


def _claims_of(world: World, pods: Sequence[Json]) -> Iterator[Json]:
    wanted: set[Key] = set()
    for pod in pods:
        namespace = pod["metadata"].get("namespace", "")
        made = (pod.get("status") or {}).get("resourceClaimStatuses") or ()
        for one in (*(pod["spec"].get("resourceClaims") or ()), *made):
            if one.get("resourceClaimName"):
                wanted.add((namespace, one["resourceClaimName"]))
    if wanted:
        for claim in world.claims:
            if (claim["metadata"].get("namespace", ""), claim["metadata"]["name"]) in wanted:
                yield claim


def _placing(pod: Json) -> str:
    """What of the pod says on which nodes it may run."""
    spec = pod["spec"]
    return repr([spec.get(name) for name in ("nodeSelector", "affinity", "tolerations")])
