"""What a key or an index leads to."""

from typing import Any

import pytest

from cel.values_at_random import NAN
from gpusharing.cel.errors import EvaluationError
from gpusharing.cel.runtime import indexing, maps, membership
from gpusharing.cel.runtime.maps import AttributeMap, DomainMap
from gpusharing.cel.values.numbers import Uint
from gpusharing.cel.values.optional import Optional


def test_unknown_domains_are_empty_but_not_there() -> None:
    domains = DomainMap(some=AttributeMap(a=1))
    assert indexing.index(domains, "nope") == {}
    assert indexing.index(domains, 5) == {}
    assert indexing.has(domains, "nope")
    assert not membership.is_in("nope", domains)
    assert list(maps.keys(domains)) == ["some"]
    with pytest.raises(EvaluationError, match="no such key: a"):
        indexing.index(domains["nope"], "a")


@pytest.mark.parametrize(
    ("value", "key", "expected"),
    [
        ([1, 2], 1, 2), ([1, 2], Uint(1), 2), ([1, 2], 1.0, 2), ([1, 2], 2, maps.MISSING), ([1, 2], -1, maps.MISSING),
        ([1, 2], 0.5, EvaluationError), ([1, 2], "a", EvaluationError), ([1, 2], True, EvaluationError),
        ([1, 2], 1e300, EvaluationError), ([1, 2], NAN, EvaluationError), ({"a": 1}, "a", 1),
        ({"a": 1}, "b", maps.MISSING), ({"a": 1}, None, EvaluationError), ({"a": 1}, [1], EvaluationError),
        ("abc", 0, maps.MISSING), (5, "a", maps.MISSING), (None, "a", maps.MISSING),
        (Optional({"a": 1}), "a", maps.MISSING), (maps.MISSING, None, maps.MISSING),
    ],
)  # fmt: skip
def test_what_a_key_leads_to(value: Any, key: Any, expected: Any) -> None:
    if expected is EvaluationError:
        with pytest.raises(EvaluationError):
            indexing.find(value, key)
        return
    assert indexing.find(value, key) is expected or indexing.find(value, key) == expected
    if expected is maps.MISSING:
        with pytest.raises(EvaluationError):
            indexing.index(value, key)
