"""Text to tree."""

from typing import Final

from gpusharing.cel.errors import CompileError
from gpusharing.cel.syntax.building import build
from gpusharing.cel.syntax.nesting import check_nesting
from gpusharing.cel.syntax.phrases import read
from gpusharing.cel.tree import Node

_LONGEST: Final = 10 * 1024


def parse(expression: str, minor: int) -> Node:
    try:
        size = len(expression.encode())
    except UnicodeEncodeError as error:
        raise CompileError("this is no Unicode character", expression, error.start) from None
    if size > _LONGEST:
        raise CompileError(f"the expression is {size:,} bytes long; Kubernetes takes {_LONGEST:,}", expression)
    phrase = read(expression)
    check_nesting(expression, phrase)
    return build(phrase, expression, minor)
