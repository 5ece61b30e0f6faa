"""What Kubernetes knows of a value when it compiles an expression."""

import pytest

from cel.checked_texts import ATTRIBUTE, checked
from gpusharing.cel.tree import Call

CONSTANT = [
    "1",
    "'a'",
    "[1, 2]",
    "[[1], []]",
    "{'a': [1]}",
    "int('1')",
    "string(1)",
    "duration('1s')",
    "dyn([1])",
    "type(1)",
    "string",
    "google.protobuf.NullValue.NULL_VALUE",
    "1 in []",
    f"{ATTRIBUTE} in []",
]
NOT_CONSTANT = [
    "1 + 1",
    "-(1)",
    "size('a')",
    "'a'.size()",
    "[1 + 1]",
    "{'a': device}",
    "int(size('a'))",
    "1 in [1]",
    "1 in dyn([])",
    "device",
    "device.driver",
    ATTRIBUTE,
    "[1].map(x, x)",
    "quantity('1')",
]


def is_constant(text: str) -> bool:
    found = checked(f"[{text}] == dyn(1)")
    assert isinstance(found.root, Call)
    return found.is_constant(found.root.arguments[0])


@pytest.mark.parametrize("text", CONSTANT)
def test_what_is_a_constant(text: str) -> None:
    assert is_constant(text)


@pytest.mark.parametrize("text", NOT_CONSTANT)
def test_what_is_no_constant(text: str) -> None:
    assert not is_constant(text)
