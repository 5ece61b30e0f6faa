"""Which GPUs of a node a policy wants: those that all of its selectors match, as in a DeviceClass."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpusharing import cel
from gpusharing.api.sharing import GpuStatus
from gpusharing.core.acceptance import Candidate
from gpusharing.core.world import NodeView


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    wanted: tuple[str, ...] = ()
    """Uuids, in the order in which the node has them."""
    failed: Mapping[str, str]
    """By uuid: why a selector has no answer for this GPU."""


def selections_by_policy(candidates: Sequence[Candidate], view: NodeView, driver: str) -> Mapping[str, Selection]:
    """By the names of the accepted policies that want this node."""
    wanting = [
        candidate
        for candidate in candidates
        if candidate.objection is None and candidate.policy.spec.nodes.matches(view.labels)
    ]
    if not any(candidate.selectors for candidate in wanting):
        everything = Selection(wanted=tuple(gpu.uuid for gpu in view.gpus), failed={})
        return {candidate.name: everything for candidate in wanting}
    devices = {gpu.uuid: _as_device(gpu, driver) for gpu in view.gpus}
    return {candidate.name: _select(candidate.selectors, devices) for candidate in wanting}


def _select(selectors: Sequence[cel.Program], devices: Mapping[str, cel.Device]) -> Selection:
    wanted: list[str] = []
    failed: dict[str, str] = {}
    for uuid, device in devices.items():
        try:
            if all(program.match(device) for program in selectors):
                wanted.append(uuid)
        except cel.EvaluationError as error:
            failed[uuid] = error.message
    return Selection(wanted=tuple(wanted), failed=failed)


def _as_device(gpu: GpuStatus, driver: str) -> cel.Device:
    """The whole GPU as a selector sees it. How it is shared is left out: that is what the policy decides."""
    attributes = {"type": {"string": "gpu"}, **gpu.attributes}
    return cel.Device(driver, attributes, {"memory": {"value": gpu.memory}})
