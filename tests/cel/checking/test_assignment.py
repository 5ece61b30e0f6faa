"""Which types fit each other, and what that tells about unknown ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusharing.cel.checking.assignment import Bindings, equivalent, is_unknown, most_general, same
from gpusharing.cel.declarations.types import (
    ANY,
    BOOL,
    DURATION,
    DYN,
    INT,
    NULL,
    QUANTITY,
    STRING,
    Type,
    list_of,
    map_of,
    nullable,
    optional_of,
    type_of,
)

FITS = [
    (INT, INT, True),
    (INT, STRING, False),
    (DYN, STRING, True),
    (STRING, ANY, True),
    (list_of(INT), list_of(INT), True),
    (list_of(INT), list_of(STRING), False),
    (list_of(DYN), list_of(STRING), True),
    (list_of(INT), optional_of(INT), False),
    (map_of(STRING, INT), map_of(STRING, DYN), True),
    (NULL, QUANTITY, True),
    (NULL, DURATION, True),
    (NULL, INT, False),
    (NULL, nullable(INT), True),
    (nullable(INT), INT, True),
    (type_of(INT), type_of(STRING), True),
]

SCALARS = st.sampled_from([INT, STRING, BOOL, DYN, QUANTITY, NULL, nullable(INT)])
TYPES = st.recursive(
    SCALARS,
    lambda inside: st.one_of(
        st.builds(list_of, inside), st.builds(optional_of, inside), st.builds(map_of, inside, inside)
    ),
    max_leaves=6,
)


@pytest.mark.parametrize(("given_", "wanted", "fits"), FITS)
def test_what_fits(given_: Type, wanted: Type, fits: bool) -> None:
    assert Bindings().fits(given_, wanted) is fits
    assert Bindings().fits(wanted, given_) is fits


@given(TYPES)
def test_an_unknown_type_becomes_whatever_it_meets(type_: Type) -> None:
    bindings = Bindings()
    unknown = bindings.new()
    assert is_unknown(unknown)
    assert bindings.fits(list_of(unknown), list_of(type_))
    assert bindings.resolved(unknown) == type_
    assert bindings.final([optional_of(unknown)]) == [optional_of(type_)]


@given(TYPES, TYPES)
def test_of_what_does_not_fit_nothing_is_kept(one: Type, other: Type) -> None:
    bindings = Bindings()
    unknown = bindings.new()
    if not bindings.fit((unknown, one), (INT, other)):
        assert bindings.final([unknown]) == [DYN]
    else:
        assert bindings.final([unknown]) == [INT]


def test_a_type_is_no_part_of_itself() -> None:
    bindings = Bindings()
    unknown = bindings.new()
    assert not bindings.fits(unknown, list_of(unknown))
    other = bindings.new()
    assert bindings.fits(unknown, list_of(other))
    assert not bindings.fits(other, list_of(unknown))


def test_names_of_overloads_are_apart_in_each_call() -> None:
    bindings = Bindings()
    first, again = (bindings.renamed((Type("@A"), list_of(Type("@A")), Type("@B"))) for _ in range(2))
    assert first[1] == list_of(first[0])
    assert len({*first, *again}) == 6


@given(TYPES, TYPES)
def test_the_more_general_of_two_is_one_of_them(one: Type, other: Type) -> None:
    assert most_general(one, other) in (one, other)
    assert most_general(DYN, one) == DYN
    assert most_general(one, one) == one


@given(TYPES)
def test_null_makes_no_other_type(type_: Type) -> None:
    assert same(type_, type_)
    assert equivalent(type_, type_)
    assert same(nullable(INT), INT)
    assert equivalent(list_of(nullable(INT)), list_of(INT))
    assert not same(list_of(nullable(INT)), list_of(INT))
