"""The value of a variable of `cel.bind`: computed when it is first read, if ever."""

from collections.abc import Callable
from typing import Any

from gpusharing.cel.errors import EvaluationError
from gpusharing.cel.runtime.faults import NEVER_ABSORBED


class Lazy:
    __slots__ = ("_compute", "_failure", "_value")

    def __init__(self, compute: Callable[[], Any]) -> None:
        self._compute: Callable[[], Any] | None = compute
        self._failure: str | None = None
        self._value: Any = None

    def get(self) -> Any:
        compute, self._compute = self._compute, None
        if compute is not None:
            try:
                self._value = compute()
            except NEVER_ABSORBED:
                raise
            except EvaluationError as error:
                self._failure = error.message
        if self._failure is not None:
            raise EvaluationError(self._failure)
        return self._value
