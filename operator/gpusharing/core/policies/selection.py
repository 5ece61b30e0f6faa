"""Which GPUs of a node a policy wants: those that all of its selectors match, as in a DeviceClass."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gpusharing import cel
from gpusharing.api.sharing.gpu_status import GpuStatus
from gpusharing.core.policies.policy import Candidate
from gpusharing.core.state.node_view import NodeView


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    wanted: tuple[str, ...] = ()
    """Uuids, in the order in which the node has them."""
    failed: Mapping[str, str]
    """By uuid: why a selector has no answer for this GPU."""


class _Answer(NamedTuple):
    candidate: Candidate
    matches: bool
    failure: str | None


@dataclass(slots=True, kw_only=True)
class _Gpu:
    """The whole GPU as a selector sees it. How it is shared is left out: that is what the policy decides."""

    status: GpuStatus
    device: cel.Device
    answers: dict[str, _Answer] = field(default_factory=dict)
    """By policy."""

    def looks_like(self, status: GpuStatus) -> bool:
        return status.attributes == self.status.attributes and status.memory == self.status.memory

    def answer(self, candidate: Candidate) -> _Answer:
        known = self.answers.get(candidate.name)
        if known is None or known.candidate is not candidate:
            known = self.answers[candidate.name] = _ask(candidate, self.device)
        return known


class Selector:
    """The selections on one node. What was answered is kept for as long as GPU and policy stay what they are."""

    def __init__(self, driver: str) -> None:
        self._driver = driver
        self._gpus: dict[str, _Gpu] = {}

    def selections(self, candidates: Sequence[Candidate], view: NodeView) -> Mapping[str, Selection]:
        """By the names of the accepted policies that want this node."""
        wanting = [
            candidate
            for candidate in candidates
            if candidate.objection is None and candidate.policy.spec.nodes.matches(view.labels)
        ]
        everything = Selection(wanted=tuple(gpu.uuid for gpu in view.gpus), failed={})
        if any(candidate.selectors for candidate in wanting):
            self._gpus = {status.uuid: self._gpu(status) for status in view.gpus}
        return {candidate.name: self._select(candidate) if candidate.selectors else everything for candidate in wanting}

    def _gpu(self, status: GpuStatus) -> _Gpu:
        known = self._gpus.get(status.uuid)
        if known is not None and known.looks_like(status):
            return known
        attributes = {"type": {"string": "gpu"}, **status.attributes}
        return _Gpu(status=status, device=cel.Device(self._driver, attributes, {"memory": {"value": status.memory}}))

    def _select(self, candidate: Candidate) -> Selection:
        answers = {uuid: gpu.answer(candidate) for uuid, gpu in self._gpus.items()}
        return Selection(
            wanted=tuple(uuid for uuid, answer in answers.items() if answer.matches),
            failed={uuid: answer.failure for uuid, answer in answers.items() if answer.failure is not None},
        )


def _ask(candidate: Candidate, device: cel.Device) -> _Answer:
    try:
        return _Answer(candidate, all(program.match(device) for program in candidate.selectors), None)
    except cel.EvaluationError as error:
        return _Answer(candidate, False, error.message)
