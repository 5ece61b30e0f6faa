"""What a policy's selectors answer for GPUs: evaluated once for all GPUs, on all nodes, that a selector cannot tell
apart. Most read a model or an amount of memory, and no uuid.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from gpusharing import cel

_MOST_REMEMBERED: Final = 512
"""Answers of one policy. An answer has at most `cel.EvaluationError.LONGEST` characters, and its key a fixed size."""


class GpuDevice:
    """The whole GPU, as the device that selectors see."""

    def __init__(
        self, driver: str, attributes: Mapping[str, Mapping[str, Any]], capacity: Mapping[str, Mapping[str, Any]]
    ) -> None:
        self.device = cel.Device(driver, attributes, capacity)
        self._values: dict[tuple[str, str], list[object]] = {}
        for position, values in enumerate((attributes, capacity)):
            for qualified_name, value in values.items():
                domain, slash, name = qualified_name.partition("/")
                key = (domain, name) if slash else (driver, qualified_name)
                self._values.setdefault(key, [None, None])[position] = value

    def digest(self, names: Sequence[tuple[str, str]]) -> bytes:
        """The same for devices that agree on these attributes and capacities, and otherwise never the same."""
        device = self.device
        beside = (device.driver, device.allow_multiple_allocations, device.defect, device.is_within_limits)
        seen = repr((beside, [self._values.get(name) for name in names]))
        return blake2b(seen.encode("utf-8", "backslashreplace"), digest_size=32).digest()


class Answer(NamedTuple):
    matches: bool
    failure: str | None
    """Why a selector has no answer; then the GPU counts as one that does not match."""


class Answers:
    """Of the selectors of one policy, as it is: an edit begins with new ones."""

    def __init__(self, selectors: Sequence[cel.Program]) -> None:
        self._selectors = [
            (selector, None if selector.reads is None else sorted(selector.reads)) for selector in selectors
        ]
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
