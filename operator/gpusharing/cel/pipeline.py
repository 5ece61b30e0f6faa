"""All steps from a text to a program."""

from gpusharing.cel.check import check
from gpusharing.cel.checked import Checked
from gpusharing.cel.cost.bound import bound
from gpusharing.cel.parse import parse
from gpusharing.cel.program import Program


def build(expression: str, minor: int) -> Program:
    checked = _checked(expression, minor)
    return Program(checked, most=bound(checked), check_again=_checked)


def _checked(expression: str, minor: int) -> Checked:
    return check(parse(expression, minor), expression, minor)
