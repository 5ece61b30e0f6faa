"""What a policy's selectors answer for GPUs. A costly one is evaluated once for all GPUs, on all nodes, that it cannot
tell apart: most read a model or an amount of memory, and no uuid.
"""

from collections.abc import Container, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from gpusharing import cel
from gpusharing.api.sharing.gpu_status import GpuStatus

_CHEAP: Final = 100
"""Units: what usual selectors may cost. To evaluate one takes less time than to look its answer up."""
_MOST_REMEMBERED: Final = 512
"""Answers of one policy. Each has at most `cel.EvaluationError.LONGEST` characters, and its key a fixed size."""


class GpuDevice:
    """The whole GPU as selectors see it. How it is shared is left out: that is what the policy decides."""

    __slots__ = ("_status", "device")

    def __init__(self, driver: str, status: GpuStatus) -> None:
        attributes = {"type": {"string": "gpu"}, **status.attributes}
        self.device = cel.Device(driver, attributes, {"memory": {"value": status.memory}})
        self._status = status

    def looks_like(self, status: GpuStatus) -> bool:
        return status.attributes == self._status.attributes and status.memory == self._status.memory

    def digest(self, names: Container[tuple[str, str]]) -> bytes:
        """The same only for GPUs that agree on these attributes and capacities."""
        driver = self.device.driver
        read = [
            each for each in self._status.attributes.items() if _qualified(each[0], driver) in names
        ]  # in their order, since of two for one name the last one counts
        memory = self._status.memory if (driver, "memory") in names else None
        beside = (driver, self.device.defect, self.device.is_within_limits)
        return blake2b(repr((read, memory, beside)).encode("utf-8", "backslashreplace"), digest_size=32).digest()


def _qualified(name: str, driver: str) -> tuple[str, str]:
    domain, slash, rest = name.partition("/")
    return (domain, rest) if slash else (driver, name)


class Answer(NamedTuple):
    matches: bool
    failure: str | None
    """Why a selector has no answer; then the GPU counts as one that does not match."""


class Answers:
    """Of the selectors of one policy, as it is: an edit begins with new ones."""

    def __init__(self, selectors: Sequence[cel.Program]) -> None:
        self._selectors = [(selector, selector.reads if selector.max_cost > _CHEAP else None) for selector in selectors]
        """With what GPUs must agree on to share its answer; None if they do not share it."""
        self._known: dict[tuple[int, bytes], bool | str] = {}

    def answer(self, gpu: GpuDevice) -> Answer:
        """All selectors must match; the first that does not, or fails, decides."""
        for index, (selector, names) in enumerate(self._selectors):
            if names is None:
                told = _evaluate(selector, gpu.device)
            else:
                key = (index, gpu.digest(names))
                told = self._known.pop(key) if key in self._known else _evaluate(selector, gpu.device)
                self._remember(key, told)
            if told is not True:
                return Answer(matches=False, failure=told or None)
        return Answer(matches=True, failure=None)

    def _remember(self, key: tuple[int, bytes], told: bool | str) -> None:
        """As the one that was asked for last. The one that nobody has asked for longest makes room."""
        if len(self._known) >= _MOST_REMEMBERED:
            del self._known[next(iter(self._known))]
        self._known[key] = told


def _evaluate(selector: cel.Program, device: cel.Device) -> bool | str:
    """Whether it matches, or why there is no answer."""
    try:
        return selector.match(device)
    except cel.EvaluationError as error:
        return error.message
