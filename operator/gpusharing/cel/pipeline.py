"""All steps from a text to a program."""

from gpusharing.cel.check import check
from gpusharing.cel.checked import Checked
from gpusharing.cel.cost.bound import bound
from gpusharing.cel.cost.estimate import estimate
from gpusharing.cel.parse import parse
from gpusharing.cel.program import Program


def build(expression: str, minor: int) -> Program:
    def checked() -> Checked:
        return check(parse(expression, minor), expression, minor)

    first = checked()
    return Program(first, max_cost=estimate(first).max, most=bound(first), check_again=checked)
