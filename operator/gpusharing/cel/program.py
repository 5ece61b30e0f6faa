"""A compiled expression."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from gpusharing.cel.checking.checked import Checked
from gpusharing.cel.cost.bound import Bound
from gpusharing.cel.cost.estimate import estimate
from gpusharing.cel.cost.meter import Meter
from gpusharing.cel.cost.prices import COST_LIMIT
from gpusharing.cel.device import Device
from gpusharing.cel.errors import EvaluationError
from gpusharing.cel.generate import generate
from gpusharing.cel.runtime.faults import Breakdown, NoSuchKeyError
from gpusharing.cel.uses.advice import capacity_instead
from gpusharing.cel.uses.reads import reads
from gpusharing.cel.values.optional import NONE, Optional

_MOST_WORK: Final = 1_000_000
_FIRST_WITH_LISTS: Final = 36
"""The first minor version of Kubernetes whose attributes may be lists."""


class Program:
    """Immutable, and safe to use from several threads at once."""

    __slots__ = ("_check_again", "_evaluate", "_evaluate_metered", "_max_cost", "expression", "minor", "reads")

    def __init__(
        self,
        checked: Checked,
        *,
        most: Bound,
        check_again: Callable[[str, int], Checked],
    ) -> None:
        """`most` is what no evaluation exceeds on a device within the limits of the API. Few ask for the estimate, and
        code that counts costs is only written for programs and devices that need it. The tree is not kept for either:
        `check_again` makes it anew. Raises CompileError for what Kubernetes refuses to plan.
        """
        self.expression = checked.expression
        self.minor = checked.minor
        self.reads = reads(checked)
        """Domain and name of all attributes and capacities that its answers, and its errors, can depend on; None if
        that is not known beforehand. Beside them all fields of the device but its attributes and capacity count.
        """
        self._max_cost: int | None = None
        self._check_again = check_again
        function, is_as_expected = generate(checked)
        is_cheap = is_as_expected and most.cost <= COST_LIMIT and most.work <= _MOST_WORK
        self._evaluate: Callable[[Device], Any] | None = function if is_cheap else None
        self._evaluate_metered: Callable[[Device, Meter], Any] | None = None

    @property
    def max_cost(self) -> int:
        """Kubernetes' estimate."""
        if self._max_cost is None:
            self._max_cost = estimate(self._check_again(self.expression, self.minor)).max
        return self._max_cost

    def match(self, device: Device) -> bool:
        """Raises EvaluationError if Kubernetes has no answer for this device."""
        if device.defect is not None:
            raise EvaluationError(device.defect)
        if device.has_lists and self.minor < _FIRST_WITH_LISTS:
            device = device.without_lists()
        try:
            if self._evaluate is not None and device.is_within_limits:
                answer = self._evaluate(device)
            else:
                answer = self._measured(device, Meter())
        except RecursionError:
            raise Breakdown("values nested too deeply") from None
        except NoSuchKeyError as error:
            raise self._advised(error, device) from None
        return answer if answer is True or answer is False else _as_bool(answer)

    def measure(self, device: Device) -> tuple[bool | EvaluationError, int]:
        """The answer or the error, and what the evaluation cost."""
        meter = Meter()
        if device.defect is not None:
            return EvaluationError(device.defect), 0
        if device.has_lists and self.minor < _FIRST_WITH_LISTS:
            device = device.without_lists()
        try:
            answer = self._measured(device, meter)
            return _as_bool(answer), meter.cost
        except EvaluationError as error:
            return error, meter.cost

    def _advised(self, error: NoSuchKeyError, device: Device) -> EvaluationError:
        """Who asks the attributes for memory is told where it is."""
        if self.reads is None:
            is_capacity = any(error.key in of_domain for of_domain in device.capacity.values())
        else:
            is_capacity = any(name == error.key and name in device.capacity[domain] for domain, name in self.reads)
        if not is_capacity:
            return error
        instead = _capacity_instead(self._check_again, self.expression, self.minor, str(error.key))
        return EvaluationError(f"{error.message}; it is a capacity: {instead}") if instead else error

    def _measured(self, device: Device, meter: Meter) -> Any:
        if self._evaluate_metered is None:
            self._evaluate_metered = generate(self._check_again(self.expression, self.minor), metered=True).function
        try:
            return self._evaluate_metered(device, meter)
        finally:
            # Whatever the outcome: Kubernetes would not have come so far.
            meter.check()


@lru_cache(64)
def _capacity_instead(check: Callable[[str, int], Checked], expression: str, minor: int, name: str) -> str:
    return capacity_instead(check(expression, minor).root, name)


def _as_bool(answer: Any) -> bool:
    """A bool in an optional value is one, too."""
    while type(answer) is Optional and answer is not NONE:
        answer = answer.value
    if type(answer) is bool:
        return answer
    raise EvaluationError(f"CEL result could not be converted to bool: {type(answer).__name__}")
