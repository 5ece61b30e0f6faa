"""Errors as generated code sees them: most may be absorbed by `||`, `&&` or a macro, some never."""

import sys
from typing import Final, NoReturn, cast

from gpusharing.cel.errors import BudgetError, EvaluationError


class Breakdown(EvaluationError):  # noqa: N818 (the name says it)
    """Kubernetes' evaluator itself breaks down here, and the whole evaluation with it."""


NEVER_ABSORBED: Final = (BudgetError, Breakdown)


def absorbed() -> str:
    """The message of the error that is being handled, if it may be absorbed."""
    error = cast("EvaluationError", sys.exception())
    if isinstance(error, NEVER_ABSORBED):
        raise error
    return error.message


def fail(message: str) -> NoReturn:
    raise EvaluationError(message)


def raise_error(value: object) -> None:
    """If it is one that was caught before, in place of a value."""
    if isinstance(value, EvaluationError):
        raise value


def no_such_overload(*_values: object) -> NoReturn:
    raise EvaluationError("no such overload")


class NoSuchKeyError(EvaluationError):
    def __init__(self, key: object) -> None:
        super().__init__(f"no such key: {key}")
        self.key = key


def no_such_key(key: object) -> NoSuchKeyError:
    return NoSuchKeyError(key)


def unhashable(kind: str) -> Breakdown:
    return Breakdown(f"internal error: runtime error: hash of unhashable type {kind}")
