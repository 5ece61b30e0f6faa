"""From a text to a program, with a memory for both programs and refusals."""

from functools import lru_cache
from typing import Final

from gpusharing.cel.checking.check import check
from gpusharing.cel.checking.checked import Checked
from gpusharing.cel.cost.bound import bound
from gpusharing.cel.declarations import NEWEST_MINOR, OLDEST_MINOR
from gpusharing.cel.errors import CompileError
from gpusharing.cel.program import Program

_REMEMBERED: Final = 512


def compile(expression: str, minor: int) -> Program:  # noqa: A001 (as `re.compile`)
    """The program as Kubernetes 1.<minor> understands the expression, or the newest one that is known here if that is
    newer. Raises CompileError, whatever the text.
    """
    if minor < OLDEST_MINOR:
        raise ValueError(f"Kubernetes 1.{minor} is not known here: 1.{OLDEST_MINOR} is the oldest")
    outcome = _outcome(expression, min(minor, NEWEST_MINOR))
    if isinstance(outcome, CompileError):
        # Not the remembered object itself: it would gather the tracebacks of all who raise it.
        raise CompileError(outcome.message, outcome.expression, outcome.offset)
    return outcome


@lru_cache(_REMEMBERED)
def _outcome(expression: str, minor: int) -> Program | CompileError:
    try:
        checked = _checked(expression, minor)
        return Program(checked, most=bound(checked), check_again=_checked)
    except CompileError as error:
        return CompileError(error.message, expression, error.offset)


def _checked(expression: str, minor: int) -> Checked:
    # Most programs that import this package never compile anything: the parser alone is 200 ms.
    from gpusharing.cel.syntax.parse import parse  # noqa: PLC0415

    return check(parse(expression, minor), expression, minor)
