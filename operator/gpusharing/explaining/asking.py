"""Asks `core.allocate` about all nodes: once for each group of nodes that are alike."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from gpusharing import cel
from gpusharing.api.dra import AllocationResult, Node, ResourceSlice
from gpusharing.api.meta import Key, LabelledMeta, WholeMeta
from gpusharing.core.allocate.allocation import Cluster, OnNode, Stop, allocate
from gpusharing.core.allocate.inventory import Inventory
from gpusharing.core.allocate.published import Device
from gpusharing.core.allocate.reasons import Reasons, total
from gpusharing.core.allocate.requests import Claim, UnknownRequestError, expressions
from gpusharing.core.allocate.room import RequestError
from gpusharing.core.allocate.taken import Taken
from gpusharing.core.quantities import from_billionths
from gpusharing.explaining import alike, lean, unnarrowed
from gpusharing.explaining.scene import Scene


class Answered(NamedTuple):
    group: alike.Group
    found: OnNode


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    answered: Sequence[Answered]
    stop: Stop | None = None

    def fitting(self, allowed: Collection[str] | None = None) -> list[tuple[str, OnNode]]:
        """Nodes on which the pod fits and is not denied, each with what was found on one that is like it."""
        return [
            (name, one.found)
            for one in self.answered
            if one.found.chosen is not None and not one.found.denied_by
            for name in one.group.members
            if allowed is None or name in allowed
        ]

    def reasons(self, nodes: Collection[str]) -> list[Reasons]:
        """Of all these nodes together."""
        sums = []
        for one in self.answered:
            count = sum(name in nodes for name in one.group.members)
            if count and one.found.reasons:
                sums.append([_times(reasons, count) for reasons in one.found.reasons])
        return total(sums)


@dataclass(kw_only=True)
class Asking:
    """One pod, or claims without a pod; their amounts may change from one question to the next."""

    cluster: Cluster
    groups: Sequence[alike.Group]
    slices: Sequence[ResourceSlice] = ()
    """Of the groups' representatives, and those for many nodes."""
    denied: Collection[str] = ()
    holders: Mapping[Key, lean.Claim] = field(default_factory=dict)
    """Those of the groups' representatives, by the key under which reasons name them."""
    claims: Sequence[lean.Claim] = ()
    """All."""

    def ask(self, claims: Sequence[Claim], *, with_reasons: bool = True) -> Answer:
        nodes = [one.representative for one in self.groups]
        outcome = allocate(claims, nodes, self.cluster, with_reasons=with_reasons, denied=self.denied)
        answered = [
            Answered(one, outcome.nodes[one.representative.metadata.name])
            for one in self.groups
            if one.representative.metadata.name in outcome.nodes
        ]
        return Answer(answered=answered, stop=outcome.stop)

    def examples(self, keys: Iterable[Key], group: alike.Group, *, most: int) -> list[lean.Claim]:
        """Claims of the representative, and those that have the same devices of other nodes of the group."""
        found = [self.holders[key] for key in keys if key in self.holders]
        if len(found) >= most or len(group.members) == 1:
            return found
        first, *others = group.members
        devices = {(_relative(one.pool, first), one.device) for claim in found for one in claim.results}
        places = {(f"{node}{rest}", device) for rest, device in devices for node in others[:most]}
        for claim in self.claims:
            if any((one.pool, one.device) in places for one in claim.results):
                found.append(claim)
                if len(found) >= most:
                    break
        return found

    def without_narrowing(self, scene: Scene) -> "Asking":
        """As if nobody used our GPUs, but with what is taken of them: then it shows who keeps a mode from being
        offered. Where the NodeSharing may not be read, the node stays as it is."""
        known = [
            sharing
            for group in self.groups[:_MOST_UNNARROWED]
            if (sharing := scene.node_sharing(group.representative.metadata.name)) is not None
        ]
        nodes = {sharing.metadata.name for sharing in known}
        others = [
            one for one in self.slices if one.spec["driver"] != scene.driver or one.spec.get("nodeName") not in nodes
        ]
        slices = [*others, *(one for sharing in known for one in unnarrowed.slices(sharing, scene.driver))]
        inventory = Inventory(slices, minor=scene.world.minor, rules=scene.taint_rules)
        cluster = Cluster(inventory=inventory, classes=scene.classes, taken=self.cluster.taken)
        return replace(self, cluster=cluster, slices=slices)


def _relative(pool: str, node: str) -> str:
    """What stands behind the name of the node."""
    return pool.removeprefix(node)


_MOST_UNNARROWED: Final = 32
"""Groups of nodes: for each, one NodeSharing is read."""


def prepare(scene: Scene, claims: Sequence[Claim], *, denied: Collection[str] = (), group: bool = True) -> Asking:
    """`group`: whether nodes that are alike are asked once; otherwise each is."""
    nodes = [Node(metadata=LabelledMeta(name=one.metadata.name, labels=dict(one.labels))) for one in scene.nodes]
    published = alike.sort(scene.slices)
    # Alone each node has what it has, and nothing of another's.
    contents = alike.Contents(_reads(scene, claims) if group else None)
    groups = [alike.Group(node, (node.metadata.name,)) for node in nodes]
    if group:
        groups = alike.group(
            nodes,
            published,
            alike.taken_of_pools(scene.claims),
            contents=contents,
            rules=scene.taint_rules,
            claims=claims,
        )
    asked = published.concerning({each.representative.metadata.name for each in groups})
    heads = published.heads
    slices = [
        ResourceSlice(metadata=WholeMeta(name=one.metadata.name), spec=contents.spec(one, heads[one.metadata.name]))
        for one in asked
    ]
    inventory = Inventory(slices, minor=scene.world.minor, rules=scene.taint_rules)
    pools = {published.heads[one.metadata.name].pool.name for one in asked}
    taken, holders = _taken(scene.claims, pools, _devices(groups, inventory), scene.world.minor)
    cluster = Cluster(inventory=inventory, classes=scene.classes, taken=taken)
    return Asking(cluster=cluster, groups=groups, slices=slices, denied=denied, holders=holders, claims=scene.claims)


def _reads(scene: Scene, claims: Iterable[Claim]) -> alike.Reads:
    """All that selectors and constraints of these claims look at."""
    found: set[tuple[str, str]] = set()
    for claim in claims:
        for constraint in claim.constraints:
            domain, _, name = constraint.attribute.partition("/")
            found.add((domain, name))
        for wanted in (one for request in claim.requests for one in request.alternatives):
            device_class = scene.classes.get(wanted.device_class)
            for expression in (*_expressions(device_class), *wanted.selectors):
                try:
                    reads = cel.compile(expression, scene.world.minor).reads
                except cel.CompileError:
                    continue  # it has no answer for any device
                if reads is None:
                    return None
                found |= set(reads)
    return found


def _expressions(device_class: object) -> Sequence[str]:
    try:
        return () if device_class is None else expressions(device_class.spec.selectors, of="")  # type: ignore[attr-defined]
    except UnknownRequestError:
        return ()


def _devices(groups: Sequence[alike.Group], inventory: Inventory) -> Mapping[tuple[str, str, str], Device]:
    return {
        device.id: device
        for group in groups
        for pool in inventory.node(group.representative).pools.values()
        for device in (*pool.devices, *pool.others)
    }


def _taken(
    claims: Iterable[lean.Claim], pools: Collection[str], devices: Mapping[tuple[str, str, str], Device], minor: int
) -> tuple[Taken, Mapping[Key, lean.Claim]]:
    taken = Taken()
    holders: dict[Key, lean.Claim] = {}
    for claim in claims:
        results = [result for result in claim.results if result.pool in pools]
        if not results:
            continue
        # Hidden claims have no name: their uid tells them apart.
        key = claim.key if claim.metadata.name else ("", claim.metadata.uid)
        holders[key] = claim
        taken.add(
            key,
            [_result(result, devices.get((result.driver, result.pool, result.device)), minor) for result in results],
        )
    return taken, holders


def _result(result: lean.Result, device: Device | None, minor: int) -> AllocationResult:
    consumed = result.consumed_capacity
    if consumed is None and result.share_id is not None and device is not None:
        try:
            consumed = {name: from_billionths(amount) for name, amount in device.room.demand({}, minor).amounts.items()}
        except RequestError:
            consumed = {}
    return AllocationResult(
        request=result.request,
        driver=result.driver,
        pool=result.pool,
        device=result.device,
        admin_access=result.admin_access,
        share_id=result.share_id,
        consumed_capacity=consumed or {},
    )


def _times(reasons: Reasons, count: int) -> Reasons:
    """The same on so many nodes. Holders stay those of one node: their names are examples."""
    return Reasons(
        claim=reasons.claim,
        request=reasons.request,
        needed=reasons.needed,
        looked_at=reasons.looked_at * count,
        fell_out=type(reasons.fell_out)({step: number * count for step, number in reasons.fell_out.items()}),
        left=reasons.left * count,
        holders=type(reasons.holders)({key: number * count for key, number in reasons.holders.items()}),
        reserved=type(reasons.reserved)({policy: number * count for policy, number in reasons.reserved.items()}),
        taints=type(reasons.taints)({key: number * count for key, number in reasons.taints.items()}),
        most=dict(reasons.most),
        errors=reasons.errors,
    )
