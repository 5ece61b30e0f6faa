"""Where a pod fits, and which devices it gets there: as kube-scheduler decides, with its reasons as data.

    cluster = Cluster(inventory=Inventory(slices, minor=37), classes=classes, taken=Taken(claims))
    outcome = allocate([read_claim(claim)], nodes, cluster)
    outcome.nodes["n1"].chosen

Kubernetes' default feature gates are assumed. What other plugins of the scheduler say of a node is the caller's: only
nodes that pass them are given.
"""

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

from gpusharing.api.dra import AllocationResult, DeviceClass, Node
from gpusharing.core.allocate.inventory import Inventory
from gpusharing.core.allocate.node_selectors import matches
from gpusharing.core.allocate.reasons import Reasons, reasons
from gpusharing.core.allocate.requests import Claim, UnknownRequestError, expressions
from gpusharing.core.allocate.search import AskedClaim, Budget, Chosen, GaveUpError, Question, Search, StopError
from gpusharing.core.allocate.selecting import SelectorError, Selectors
from gpusharing.core.allocate.taken import Taken
from gpusharing.core.quantities import from_billionths

_SHARES: Final = uuid.UUID("6ba7b812-9dad-11d1-80b4-00c04fd430c8")


class Cluster:
    """What the scheduler sees of devices. `taken` may change from one question to the next."""

    def __init__(self, *, inventory: Inventory, classes: Mapping[str, DeviceClass], taken: Taken) -> None:
        self.inventory = inventory
        self.classes = classes
        self.taken = taken
        self.selectors = Selectors(inventory.minor, inventory.individual)


class Problem(StrEnum):
    """Why a pod does not fit on a node."""

    NO_DEVICES = "NoDevices"
    """`reasons` say more."""
    CLAIM_ELSEWHERE = "ClaimElsewhere"
    """A claim of the pod has devices already that cannot be used there."""
    GAVE_UP = "GaveUp"
    """There are too many combinations to try. The scheduler may run out of time, too."""


class Stop(NamedTuple):
    """Kubernetes does not schedule the pod at all, whatever nodes have."""

    message: str
    claim: str = ""
    request: str = ""
    node: str = ""
    """On which this came up; none: it needs no node."""
    selector: SelectorError | None = None


class OnNode(NamedTuple):
    chosen: tuple[tuple[Chosen, ...], ...] | None = None
    """The devices of each claim that is not allocated yet, in the order of the claims; None: the pod does not fit."""
    problem: Problem | None = None
    claim: str = ""
    """Which claim is elsewhere."""
    denied_by: tuple[str, ...] = ()
    """Policies for whose tenants devices are reserved that were chosen: the allocation guard refuses them, and the pod
    waits."""
    reasons: tuple[Reasons, ...] = ()
    incomplete: tuple[str, ...] = ()
    invalid: Mapping[str, str] = {}
    """Pools that cannot be used, by driver/pool; invalid ones with the reason."""


class Outcome(NamedTuple):
    nodes: Mapping[str, OnNode]
    stop: Stop | None = None

    @property
    def fitting(self) -> list[str]:
        """The nodes that the scheduler may choose from."""
        return [] if self.stop else [name for name, found in self.nodes.items() if found.chosen is not None]


def allocate(
    claims: Sequence[Claim],
    nodes: Iterable[Node],
    cluster: Cluster,
    *,
    with_reasons: bool = False,
    denied: Collection[str] = (),
    first: bool = False,
) -> Outcome:
    """`claims` of one pod, in its order. `denied`: policies of whose tenants its namespace is none. With reasons it
    goes on to all nodes also after what stops the scheduler. `first`: it ends with the first node on which the pod fits
    and is not denied."""
    full = next((claim for claim in claims if claim.is_allocated and claim.is_full), None)
    if full is not None:
        return Outcome({}, Stop("the claim is reserved for as many pods as it can be", claim=full.display_name))
    try:
        asked = [_asked(claim, cluster) for claim in claims if not claim.is_allocated]
    except StopError as error:
        return Outcome({}, _stop(error, ""))
    found: dict[str, OnNode] = {}
    budget = Budget()
    stop: Stop | None = None
    for node in nodes:
        name = node.metadata.name
        try:
            found[name] = _on_node(claims, asked, node, cluster, budget)
        except StopError as error:
            stop = stop or _stop(error, name)
            if not with_reasons:
                break
            found[name] = OnNode(problem=Problem.NO_DEVICES)
        found[name] = _explained(found[name], asked, node, cluster, with_reasons=with_reasons, denied=denied)
        if first and found[name].chosen is not None and not found[name].denied_by:
            break
    return Outcome(found, stop)


def _asked(claim: Claim, cluster: Cluster) -> AskedClaim:
    return AskedClaim(
        claim,
        tuple(
            tuple(
                Question(
                    wanted,
                    _of_class(claim, wanted.name, wanted.device_class, cluster),
                    cluster.selectors,
                    cluster.inventory.minor,
                )
                for wanted in request.alternatives
            )
            for request in claim.requests
        ),
    )


def _of_class(claim: Claim, request: str, name: str, cluster: Cluster) -> tuple[str, ...]:
    device_class = cluster.classes.get(name)
    if device_class is None:
        raise StopError(claim, request, f"device class {name} does not exist")
    try:
        return expressions(device_class.spec.selectors, of=f"class {name}")
    except UnknownRequestError as error:
        raise StopError(claim, request, str(error)) from None


def _stop(error: StopError, node: str) -> Stop:
    why = error.why
    message, selector = (why.message, why) if isinstance(why, SelectorError) else (why, None)
    return Stop(message, error.claim.display_name, error.request, node, selector)


def _on_node(
    claims: Sequence[Claim], asked: Sequence[AskedClaim], node: Node, cluster: Cluster, budget: Budget
) -> OnNode:
    # Also on a node where a claim is not: what stops the scheduler stops it there, too.
    chosen: list[list[Chosen]] | None = []
    if asked:
        pools = cluster.inventory.node(node)
        try:
            chosen = Search(pools, asked, cluster.taken, minor=cluster.inventory.minor, budget=budget).run()
        except (GaveUpError, RecursionError):
            return OnNode(problem=Problem.GAVE_UP)
    if chosen is None:
        return OnNode(problem=Problem.NO_DEVICES)
    for claim in claims:
        if claim.is_allocated and claim.node_selector is not None and not matches(claim.node_selector, node):
            return OnNode(problem=Problem.CLAIM_ELSEWHERE, claim=claim.display_name)
    return OnNode(chosen=tuple(map(tuple, chosen)))


def _explained(
    found: OnNode,
    asked: Sequence[AskedClaim],
    node: Node,
    cluster: Cluster,
    *,
    with_reasons: bool,
    denied: Collection[str],
) -> OnNode:
    if denied and found.chosen is not None:
        policies = {one.device.reserved_by for some in found.chosen for one in some}
        found = found._replace(denied_by=tuple(policy for policy in sorted(denied) if policy in policies))
    if not with_reasons or (found.chosen is not None and not found.denied_by):
        return found
    pools = cluster.inventory.node(node)
    return found._replace(
        reasons=reasons(pools, asked, cluster.taken, denied=denied),
        incomplete=tuple("/".join(pool) for pool in pools.incomplete),
        invalid={"/".join(pool): reason for pool, reason in pools.invalid.items()},
    )


def results(claim: Claim, chosen: Sequence[Chosen]) -> tuple[AllocationResult, ...]:
    """As the scheduler writes them into the claim; only the ids of shares, which it makes at random, are others."""
    return tuple(
        AllocationResult(
            request=one.wanted.name,
            driver=one.device.id[0],
            pool=one.device.id[1],
            device=one.device.id[2],
            admin_access=True if one.wanted.admin else None,
            share_id=str(uuid.uuid5(_SHARES, f"{claim.uid}/{number}")) if one.amounts is not None else None,
            consumed_capacity={name: from_billionths(amount) for name, amount in (one.amounts or {}).items()},
            tolerations=one.wanted.tolerations,
        )
        for number, one in enumerate(chosen)
    )


def node_selector(chosen: Sequence[Chosen], node: Node) -> Mapping[str, Any] | None:
    """Where a claim with these devices can be used; None: everywhere."""
    terms: dict[str, list[Mapping[str, Any]]] = {"matchFields": [], "matchExpressions": []}
    for one in chosen:
        device = one.device
        where = device.value if device.slice.get("perDeviceNodeSelection") else device.slice
        if where.get("nodeName") or device.value.get("bindsToNode"):
            field_ = {"key": "metadata.name", "operator": "In", "values": [node.metadata.name]}
            return {"nodeSelectorTerms": [{"matchFields": [field_]}]}
        for term in ((where.get("nodeSelector") or {}).get("nodeSelectorTerms") or ())[:1]:
            for kind, some in terms.items():
                some += [each for each in term.get(kind) or () if not any(_is_same(each, other) for other in some)]
    found = {kind: some for kind, some in terms.items() if some}
    return {"nodeSelectorTerms": [found]} if found else None


def _is_same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return (one["key"], one["operator"], set(one.get("values") or ())) == (
        other["key"],
        other["operator"],
        set(other.get("values") or ()),
    )
