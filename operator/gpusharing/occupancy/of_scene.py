"""From claims and NodeSharings: who is on which GPU. Claims that may not be read are counted."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from gpusharing.api import names
from gpusharing.explaining.lean import Claim
from gpusharing.explaining.scene import Scene
from gpusharing.findings.finding import Finding
from gpusharing.occupancy.fleet import Fleet, NodeUse, Waiting
from gpusharing.occupancy.gpus import Part, gpu_use
from gpusharing.occupancy.sharing import NONE, GpuReport, NodeSharing
from gpusharing.occupancy.sums import summed
from gpusharing.occupancy.usage import Usage

_UNKNOWN: Final = Usage()


def fleet_of(
    scene: Scene,
    sharings: Sequence[NodeSharing],
    usage: Usage = _UNKNOWN,
    *,
    waiting: Sequence[Waiting] = (),
    notes: Sequence[Finding] = (),
) -> Fleet:
    """`sharings`: those of the scene, decoded as far as they are needed here."""
    parts = parts_by_node(scene)
    by_name = {one.metadata.name: one for one in sharings}
    nodes = tuple(
        node_use(name, by_name.get(name, NONE), parts.get(name, ()), scene, usage)
        for name in sorted({*by_name, *parts})
    )
    return summed(Fleet(taken_at=scene.now, nodes=nodes, waiting=tuple(waiting), notes=tuple(notes)))


def parts_by_node(scene: Scene) -> Mapping[str, Sequence[Part]]:
    """What claims hold that the caller may read."""
    found: defaultdict[str, list[Part]] = defaultdict(list)
    for claim in scene.visible_claims:
        for node, part in _parts(claim, scene.driver):
            found[node].append(part)
    return found


def node_use(node: str, sharing: NodeSharing, parts: Sequence[Part], scene: Scene, usage: Usage) -> NodeUse:
    """`parts`: of claims that the caller may read."""
    decided = {gpu.uuid: gpu for gpu in sharing.spec.gpus}
    models = {one.model: one for one in sharing.status.models}
    by_slot: defaultdict[int, list[Part]] = defaultdict(list)
    for part in (*parts, *_hidden(sharing, parts, scene)):
        by_slot[part.name.slot].append(part)
    # A GPU that its agent does not report, or whose NodeSharing may not be read, is known by its claims alone.
    reported = {gpu.slot: gpu for gpu in sharing.status.gpus}
    gpus = []
    for slot in sorted({*reported, *by_slot}):
        gpu = reported.get(slot) or GpuReport(uuid="", slot=slot)
        model = models.get(gpu.model)
        mig = model.mig if model else None
        found = by_slot.get(slot, ())
        gpus.append(gpu_use(node, gpu, found, decided=decided.get(gpu.uuid), mig=mig, usage=usage))
    ready = next((one for one in sharing.status.conditions if one.type == "Ready"), None)
    problem = ready.reason if ready is not None and ready.status != "True" else ""
    return NodeUse(name=node, gpus=tuple(gpus), problem=problem)


def _parts(claim: Claim, driver: str) -> Iterator[tuple[str, Part]]:
    """With the nodes. Admin access takes nothing."""
    pods = tuple(one.name for one in claim.status.reserved_for or () if one.resource == "pods")
    for result in claim.results:
        device = names.read_device(result.device)
        if result.driver != driver or result.admin_access or device is None:
            continue
        part = Part(
            device=result.device,
            name=device,
            consumed=result.consumed_capacity or {},
            uid=claim.metadata.uid,
            namespace=claim.metadata.namespace,
            claim=claim.metadata.name,
            pods=pods,
        )
        yield names.node_of_pool(result.pool), part


def _hidden(sharing: NodeSharing, visible: Iterable[Part], scene: Scene) -> Iterator[Part]:
    """What the NodeSharing says of claims that the caller may not read: of their amounts, only limits are known."""
    if scene.sees_all_claims:
        return
    known = {one.uid for one in visible}
    own = f"{scene.world.only_namespace.get('claims', '')}/"
    # A claim of one's own that was just deleted is not another's.
    known |= {one.uid for one in sharing.spec.claims if one.claim.startswith(own)}
    limits = {(one.uid, each.device): each.memory_limit for one in sharing.spec.claims for each in one.settings}
    for gpu in sharing.spec.gpus:
        for one in gpu.allocated:
            device = names.read_device(one.device)
            if one.claim in known or device is None:
                continue
            limit = limits.get((one.claim, one.device))
            consumed = {"shares": "1"} | ({"memory": f"{limit}Mi"} if limit else {})
            yield Part(device=one.device, name=device, consumed=consumed, uid=one.claim)
