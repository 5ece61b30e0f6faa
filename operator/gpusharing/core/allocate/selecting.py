"""Which devices the selectors of classes and requests match. Devices that a selector cannot tell apart share an
answer."""

from collections.abc import Container, Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from gpusharing import cel
from gpusharing.api import names
from gpusharing.core.allocate.published import Device, DeviceId, seen_by_cel
from gpusharing.core.allocate.requests import Wanted


class Origin(StrEnum):
    CLASS = "class"
    REQUEST = "request"


class SelectorError(NamedTuple):
    """A selector that Kubernetes cannot compile, or has no answer for a device: it stops the pod."""

    origin: Origin
    expression: str
    message: str
    device: DeviceId | None = None
    """None: it cannot be compiled."""


class Answer(NamedTuple):
    matches: bool
    origin: Origin = Origin.CLASS
    """Where the first selector is from that does not match."""
    error: SelectorError | None = None


_MATCHES = Answer(matches=True)
_CLOSING: Final = frozenset({names.CLOSING, names.DRAINING})
_WHOLE_RESERVED: Final = {"string": "restricted"}
"""The type of a whole GPU that is reserved, so that classes which know no reservations exclude it, too."""
_WHOLE: Final = {"string": "gpu"}
_RESERVED: Final = _CLOSING | {names.RESTRICTED_ATTRIBUTE}


class Selector:
    def __init__(self, expression: str, minor: int, individual: Container[tuple[str, str]]) -> None:
        self.expression = expression
        self.is_shared = True
        """Whether devices of one shape share its answer."""
        self._by_shape: dict[int, bool | str] = {}
        self._error: str | None = None
        self._program: cel.Program | None = None
        try:
            self._program = cel.compile(expression, minor)
        except cel.CompileError as error:
            self._error = str(error)
            return
        reads = self._program.reads
        self.is_shared = reads is not None and not any(name in individual for name in reads)

    @property
    def compile_error(self) -> str | None:
        return self._error

    def answer(self, device: Device) -> bool | str:
        """Whether it matches, or why there is no answer."""
        if not self.is_shared:
            return self.evaluate(device.as_cel)
        known = self._by_shape.get(device.shape)
        if known is None:
            known = self._by_shape[device.shape] = self.evaluate(device.as_cel)
        return known

    def evaluate(self, device: cel.Device) -> bool | str:
        if self._program is None:
            return self._error or ""
        try:
            return self._program.match(device)
        except cel.EvaluationError as error:
            return error.message


class Selectors:
    """As one version of Kubernetes understands them. `individual`: attributes by which nearly all devices differ."""

    def __init__(self, minor: int, individual: Container[tuple[str, str]]) -> None:
        self._minor = minor
        self._individual = individual
        self._known: dict[str, Selector] = {}

    def get(self, expression: str) -> Selector:
        known = self._known.get(expression)
        if known is None:
            known = self._known[expression] = Selector(expression, self._minor, self._individual)
        return known


class Selection:
    """Which devices one request may have, by its class and its own selectors."""

    def __init__(self, wanted: Wanted, of_class: Sequence[str], selectors: Selectors) -> None:
        self._selectors = [(Origin.CLASS, selectors.get(one)) for one in of_class]
        self._selectors += [(Origin.REQUEST, selectors.get(one)) for one in wanted.selectors]
        self._by_shape: dict[int, Answer] = {}
        self._unmarked: dict[tuple[int, frozenset[str]], Answer] = {}

    def answer(self, device: Device) -> Answer:
        known = self._by_shape.get(device.shape)
        return known if known is not None else self._ask(device)

    def is_kept_by_closing(self, device: Device) -> bool:
        """Whether its class would match if the device were not marked as closing or draining."""
        unmarked = self._without(device, _CLOSING)
        return unmarked.matches or unmarked.origin is Origin.REQUEST

    def unreserved(self, device: Device) -> Answer:
        """As if it were for everybody."""
        return self._without(device, _RESERVED)

    def _without(self, device: Device, marks: frozenset[str]) -> Answer:
        """Of a device whose class does not match: as if it did not have these marks of ours."""
        attributes: Mapping[str, Mapping[str, object]] = device.value.get("attributes") or {}
        if marks.isdisjoint(attributes):
            return Answer(matches=False)
        known = self._unmarked.get((device.shape, marks))
        if known is None:
            others = {
                name: _WHOLE if name == "type" and entry == _WHOLE_RESERVED else entry
                for name, entry in attributes.items()
                if name not in marks
            }
            unmarked = seen_by_cel(device, others)
            failed = (origin for origin, selector in self._selectors if selector.evaluate(unmarked) is not True)
            origin = next(failed, None)
            known = _MATCHES if origin is None else Answer(matches=False, origin=origin)
            self._unmarked[device.shape, marks] = known
        return known

    def _ask(self, device: Device) -> Answer:
        found, is_shared = _MATCHES, True
        for origin, selector in self._selectors:
            is_shared = is_shared and selector.is_shared
            answer = selector.answer(device)
            if answer is True:
                continue
            error = None
            if isinstance(answer, str):
                where = None if selector.compile_error else device.id
                error = SelectorError(origin, selector.expression, answer, where)
                is_shared = is_shared and where is None
            found = Answer(matches=False, origin=origin, error=error)
            break
        if is_shared:
            self._by_shape[device.shape] = found
        return found
