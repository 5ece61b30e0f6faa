"""What `gpusharing.cel` says of a selector, beside what kube-scheduler says."""

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Self

from cel.oracle_process import Device, Kubernetes, Oracle, Question, Verdict
from gpusharing import cel

# Of two entries in a map, Go begins with the same one in seven of eight walks.
_ASKED_AGAIN = 200
_GAVE_UP = frozenset({"timeout", "crash"})
_OVER_COST_LIMIT = "cost limit exceeded"
_PANIC = "internal error: "
_PATTERN_OVER_LIMIT = "pattern too large"

OVER_OUR_LIMIT = "over our limit"
"""The outcome if we refuse what would take too much time or memory, where Kubernetes has no such limit."""


def our_verdicts(expression: str, devices: Sequence[Device], minor: int, *, measured: bool) -> list[Verdict]:
    """`measured` asks what each evaluation costs: as much work again."""
    try:
        program = cel.compile(expression, minor=minor)
        verdict = _measured if measured else _matched
        return [verdict(program, bound(device)) for device in devices]
    except cel.CompileError as error:
        outcome = OVER_OUR_LIMIT if _PATTERN_OVER_LIMIT in error.message else "compile-error"
        return [Verdict(outcome, str(error))] * len(devices)
    except Exception as error:  # noqa: BLE001 (nothing else may be raised, so this is a finding)
        return [Verdict("bug", repr(error))] * len(devices)


def bound(device: Device) -> cel.Device:
    return cel.Device(
        device["driver"],
        device.get("attributes", {}),
        device.get("capacity", {}),
        allow_multiple_allocations=device.get("allowMultipleAllocations", False),
    )


def _matched(program: cel.Program, device: cel.Device) -> Verdict:
    try:
        return Verdict("match" if program.match(device) else "no-match", max_cost=program.max_cost)
    except cel.BudgetError:
        return _measured(program, device)  # whose limit is it?
    except cel.EvaluationError as error:
        return Verdict("runtime-error", str(error), program.max_cost)


def _measured(program: cel.Program, device: cel.Device) -> Verdict:
    answer, cost = program.measure(device)
    try:
        matched: bool | cel.EvaluationError = program.match(device)
    except cel.EvaluationError as error:
        matched = error
    if isinstance(answer, bool) != isinstance(matched, bool) or (isinstance(answer, bool) and answer != matched):
        return Verdict("bug", f"{matched!r}, but {answer!r} if measured")
    if isinstance(answer, bool):
        return Verdict("match" if answer else "no-match", "", program.max_cost, cost)
    within_limit = isinstance(answer, cel.BudgetError) and cost <= cel.COST_LIMIT
    return Verdict(OVER_OUR_LIMIT if within_limit else "runtime-error", str(answer), program.max_cost, cost)


def difference(ours: Verdict, theirs: Verdict) -> str:
    """What the two do not agree on, in a few words; nothing if they agree or if one has no answer."""
    if theirs.outcome in _GAVE_UP or ours.outcome == OVER_OUR_LIMIT:
        return ""
    # cel-go panics on `[?x, y]` if it does not know the type of x. The API server then refuses the object.
    expected = "compile-error" if theirs.outcome == "panic" else theirs.outcome
    if ours.outcome != expected:
        return f"{ours.outcome} instead of {expected}"
    if expected == "compile-error":
        return ""
    if ours.max_cost != theirs.max_cost:
        return "maximum cost"
    # What was counted before a limit or a panic stopped it says nothing.
    stopped = _OVER_COST_LIMIT in theirs.error or theirs.error.startswith(_PANIC)
    return "actual cost" if ours.actual_cost not in {None, theirs.actual_cost} and not stopped else ""


class Comparison:
    """Asks both."""

    def __init__(self, kubernetes: Kubernetes) -> None:
        self.kubernetes = kubernetes
        self.minor = cel.NEWEST_MINOR if kubernetes == "next" else kubernetes
        """Ours."""
        self.oracle = Oracle(kubernetes, seconds_per_question=20)
        self._knows_values = Oracle(37)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.oracle.close()
        self._knows_values.close()

    def verdicts(
        self, questions: Sequence[Question], *, measured: bool = True
    ) -> Iterator[list[tuple[Verdict, Verdict]]]:
        """Ours and theirs, for each device of each question."""
        for (expression, devices), theirs in zip(questions, self.oracle.evaluate_all(questions), strict=True):
            ours = our_verdicts(expression, devices, self.minor, measured=measured)
            yield list(zip(ours, theirs, strict=True))

    def values(self, questions: Sequence[Question]) -> Iterator[list[str | None]]:
        """The strings that the expressions evaluate to in 1.37."""
        return self._knows_values.values(questions)

    def price(self, expression: str, device: Device) -> int:
        """What Kubernetes counts for an evaluation, as far as it gets."""
        (verdict,) = self.oracle.evaluate(expression, [device])
        return verdict.actual_cost or 0

    def is_settled(self, expression: str, device: Device) -> bool:
        """Whether Kubernetes gives the same answer each time. It walks over maps in an order that is never the same."""
        asked = [(expression, [device])] * _ASKED_AGAIN
        answers = {(verdict.outcome, verdict.actual_cost) for (verdict,) in self.oracle.evaluate_all(asked)}
        return len(answers) == 1
