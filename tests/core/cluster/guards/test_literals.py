"""What the guards look up, whole; and that it can be told apart again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import policy
from gpusharing.api.meta import LabelSelector, LabelSelectorRequirement
from gpusharing.api.sharing.offers import Interval
from gpusharing.api.sharing.tenants import Allowance, Strategy, Tenants
from gpusharing.core.cluster.guards import literals

EVERYTHING = Tenants(
    namespaces=LabelSelector(
        match_labels={"team": "search"},
        match_expressions=(
            LabelSelectorRequirement(key="stage", operator="NotIn", values=("test", 'a "quoted" one')),
            LabelSelectorRequirement(key="gpus", operator="Exists"),
        ),
    ),
    allow=Allowance(
        gpu_config=(Strategy.TIME_SLICING,),
        intervals=(Interval.DEFAULT, Interval.SHORT),
        max_threads=50,
        max_memory="20Gi",
        max_shares=1,
    ),
)


def test_everything_that_a_policy_says() -> None:
    said = policy("search", tenants=EVERYTHING)
    assert literals.tenants(said) == (
        '[["In", "team=search"], ["NotIn", "stage=test", "stage=a \\"quoted\\" one"], ["Exists", "gpus"]]'
    )
    assert literals.limits(said) == (
        '{"gpuConfig": ["TimeSlicing"], "intervals": ["Default", "Short"], "maxThreads": ["50"], '
        '"maxMemory": ["20Gi"], "maxShares": ["1"]}'
    )


label_keys, label_values = st.sampled_from("abc"), st.sampled_from(["", "x", "y=z"])
requirements = st.one_of(
    st.builds(
        LabelSelectorRequirement,
        key=label_keys,
        operator=st.sampled_from(["In", "NotIn"]),
        values=st.lists(label_values, min_size=1, max_size=3).map(tuple),
    ),
    st.builds(LabelSelectorRequirement, key=label_keys, operator=st.sampled_from(["Exists", "DoesNotExist"])),
)
selectors = st.builds(
    LabelSelector,
    match_labels=st.dictionaries(label_keys, label_values),
    match_expressions=st.lists(requirements, max_size=4).map(tuple),
).filter(lambda selector: selector != LabelSelector())


@given(selectors, st.lists(st.dictionaries(label_keys, label_values), min_size=1, max_size=8))
def test_tenants_are_read_as_they_were_written(selector: LabelSelector, namespaces: list[dict[str, str]]) -> None:
    found = literals.read_tenants(literals.tenants(policy("p", tenants=Tenants(namespaces=selector))))
    assert found is not None
    for labels in namespaces:
        assert found.matches(labels) == selector.matches(labels)


def test_as_many_requirements_are_read_as_a_policy_may_have() -> None:
    full = LabelSelector(
        match_labels={f"l{number}": "x" for number in range(64)},
        match_expressions=tuple(LabelSelectorRequirement(key=f"e{n}", operator="Exists") for n in range(32)),
    )
    found = literals.read_tenants(literals.tenants(policy("p", tenants=Tenants(namespaces=full))))
    assert found is not None
    assert len(found.match_expressions) == 96


@pytest.mark.parametrize(
    "literal",
    ["", "x", "{}", "[]", "[[]]", '[["In"]]', '[["In", "a=b"], 7]', '[["Is", "a=b"]]', '[["In", "=b"]]', "[" * 9999],
)
def test_tenants_that_nobody_of_ours_wrote_are_not_known(literal: str) -> None:
    assert literals.read_tenants(literal) is None


def test_nothing_and_what_is_empty_are_told_apart() -> None:
    assert literals.limits(policy("open", tenants=Tenants(allow=Allowance(gpu_config=())))) == '{"gpuConfig": []}'


def test_an_entry_a_line() -> None:
    entries = {"b": literals.of("x"), "a": literals.of("y")}
    assert literals.render(entries) == '{\n"a": "y",\n"b": "x"\n}'
    assert literals.render({}) == "{}"


@given(st.dictionaries(st.text(), st.dictionaries(st.text(), st.text(), max_size=3), max_size=5))
def test_what_was_rendered_is_read_as_it_was(values: dict[str, dict[str, str]]) -> None:
    entries = {key: literals.of(value) for key, value in values.items()}
    assert literals.read(literals.render(entries)) == entries


@given(st.text())
def test_what_somebody_else_wrote_is_read_as_far_as_it_goes(text: str) -> None:
    assert all(isinstance(entry, str) for entry in literals.read(text).values())
