"""Which GPUs of a node a policy wants: those that all of its selectors match, as in a DeviceClass."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from gpusharing.api.sharing.gpu_status import GpuStatus
from gpusharing.core.policies.answers import Answer, GpuDevice
from gpusharing.core.policies.policy import ExaminedPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    wanted: tuple[str, ...] = ()
    """Uuids, in the order in which the node has them."""
    failed: Mapping[str, str]
    """By uuid: why a selector has no answer for this GPU."""


class _Gpu:
    def __init__(self, device: GpuDevice) -> None:
        self.device = device
        self._answers: dict[str, tuple[ExaminedPolicy, Answer]] = {}
        """By policy."""

    def answer(self, examined: ExaminedPolicy) -> Answer:
        last, answer = self._answers.get(examined.name, (None, None))
        if last is not examined or answer is None:
            answer = examined.answers.answer(self.device)
            self._answers[examined.name] = examined, answer
        return answer

    def forget_others(self, names: Container[str]) -> None:
        """What was answered for all policies but these."""
        self._answers = {name: known for name, known in self._answers.items() if name in names}


class Selector:
    """The selections on one node. What was answered is kept for as long as GPU and policy stay what they are."""

    def __init__(self, driver: str) -> None:
        self._driver = driver
        self._gpus: dict[str, _Gpu] = {}

    def selections(
        self, policies: Sequence[ExaminedPolicy], *, labels: Mapping[str, str], gpus: Sequence[GpuStatus]
    ) -> Mapping[str, Selection]:
        """By the names of the accepted policies that want the node with these labels and GPUs."""
        wanting = [
            examined
            for examined in policies
            if examined.objection is None and examined.policy.spec.nodes.matches(labels)
        ]
        everything = Selection(wanted=tuple(gpu.uuid for gpu in gpus), failed={})
        if any(examined.selectors for examined in wanting):
            self._gpus = {status.uuid: self._gpu(status) for status in gpus}
        names = {examined.name for examined in wanting}
        for gpu in self._gpus.values():
            gpu.forget_others(names)
        return {examined.name: self._select(examined) if examined.selectors else everything for examined in wanting}

    def _gpu(self, status: GpuStatus) -> _Gpu:
        known = self._gpus.get(status.uuid)
        if known is not None and known.device.looks_like(status):
            return known
        return _Gpu(GpuDevice(self._driver, status))

    def _select(self, examined: ExaminedPolicy) -> Selection:
        answers = {uuid: gpu.answer(examined) for uuid, gpu in self._gpus.items()}
        return Selection(
            wanted=tuple(uuid for uuid, answer in answers.items() if answer.matches),
            failed={uuid: answer.failure for uuid, answer in answers.items() if answer.failure is not None},
        )
