"""Functions by the ids of their overloads."""

from typing import Final

import pytest

from gpusharing.cel.declarations import declarations
from gpusharing.cel.runtime.overloads import BY_FUNCTION, implementations
from gpusharing.cel.tree import (
    AND,
    CONDITIONAL,
    EQUALS,
    INDEX,
    NOT_EQUALS,
    NOT_STRICTLY_FALSE,
    OPTIONAL_INDEX,
    OPTIONAL_SELECT,
    OR,
)

WRITTEN_OUT: Final = frozenset((
    AND, OR, CONDITIONAL, EQUALS, NOT_EQUALS, INDEX, OPTIONAL_INDEX, OPTIONAL_SELECT, NOT_STRICTLY_FALSE, "or",
    "orValue", "cel.@mapInsert",
))  # fmt: skip
"""Functions that the generator knows itself."""
OF_AUTHORIZATION: Final = frozenset((
    "path", "group", "serviceAccount", "resource", "subresource", "namespace", "name", "fieldSelector", "labelSelector",
    "check", "allowed", "reason", "error", "errored",
))  # fmt: skip
"""Declared by Kubernetes, but there is no variable to call them on."""


@pytest.mark.parametrize("minor", [34, 35, 36, 37])
def test_every_declared_overload_has_an_implementation(minor: int) -> None:
    missing = {
        overload.id
        for name, function in declarations(minor).functions.items()
        if name not in WRITTEN_OUT | OF_AUTHORIZATION | BY_FUNCTION.keys()
        for overload in (*function.members, *function.globals)
        if overload.id not in implementations(minor)
    }
    assert missing == set()


@pytest.mark.parametrize("minor", [36, 37])
def test_the_last_index_of_text_is_found_as_in_go(minor: int) -> None:
    last_index_of = implementations(minor)["string_last_index_of_string"]
    assert last_index_of("banana", "an") == 3
    assert last_index_of("banana", "") == 6
    assert last_index_of("", "a") == -1
    assert last_index_of("é", "é") == 0
