"""Expressions, checked."""

from typing import Final

import pytest

from gpusharing.cel.checking.check import check
from gpusharing.cel.checking.checked import Checked
from gpusharing.cel.errors import CompileError
from gpusharing.cel.syntax.parse import parse

NEWEST: Final = 37
ATTRIBUTE: Final = 'device.attributes["d"].a'


def checked(text: str, minor: int = NEWEST) -> Checked:
    return check(parse(text, minor), text, minor)


def refusal(text: str, minor: int = NEWEST) -> CompileError:
    with pytest.raises(CompileError) as refused:
        checked(text, minor)
    return refused.value
