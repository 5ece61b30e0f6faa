"""From a text to a program, with a memory for both programs and refusals."""

from functools import lru_cache
from typing import Final

from gpusharing.cel.errors import CompileError
from gpusharing.cel.program import Program

OLDEST: Final = 34
NEWEST: Final = 37
"""Minor versions of Kubernetes from the first to the last that reads expressions differently from the one before."""

_REMEMBERED: Final = 512


def compile(expression: str, minor: int) -> Program:  # noqa: A001 (as `re.compile`)
    """The program as Kubernetes 1.<minor> understands the expression. Raises CompileError, whatever the text."""
    if minor < OLDEST:
        raise ValueError(f"Kubernetes 1.{minor} is not known here: 1.{OLDEST} is the oldest")
    outcome = _outcome(expression, min(minor, NEWEST))
    if isinstance(outcome, CompileError):
        # Not the remembered object itself: it would gather the tracebacks of all who raise it.
        raise CompileError(outcome.message, outcome.expression, outcome.offset)
    return outcome


@lru_cache(_REMEMBERED)
def _outcome(expression: str, minor: int) -> Program | CompileError:
    # Most programs that import this package never compile anything: the parser alone is 200 ms.
    from gpusharing.cel.pipeline import build  # noqa: PLC0415

    try:
        return build(expression, minor)
    except CompileError as error:
        return CompileError(error.message, expression, error.offset)
