"""metav1.LabelSelector, as Kubernetes matches it."""

from collections.abc import Mapping

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusharing.api.meta import LabelSelector, LabelSelectorRequirement


def expression(key: str, operator: str, *values: str) -> LabelSelector:
    return LabelSelector.model_validate({"matchExpressions": [{"key": key, "operator": operator, "values": values}]})


def labels(**values: str) -> LabelSelector:
    return LabelSelector(match_labels=values)


@pytest.mark.parametrize(
    ("selector", "matching", "other"),
    [
        pytest.param(LabelSelector(), [{}, {"a": "x"}], [], id="empty matches everything"),
        pytest.param(labels(a="x"), [{"a": "x"}, {"a": "x", "b": "y"}], [{}, {"a": "y"}, {"b": "x"}], id="one label"),
        pytest.param(labels(a="x", b="y"), [{"a": "x", "b": "y"}], [{"a": "x"}, {"b": "y"}], id="two labels"),
        pytest.param(labels(a=""), [{"a": ""}], [{}, {"a": "x"}], id="an empty value is a value"),
        pytest.param(expression("a", "In", "x", "y"), [{"a": "x"}, {"a": "y"}], [{}, {"a": "z"}, {"b": "x"}], id="In"),
        pytest.param(
            expression("a", "NotIn", "x", "y"),
            [{"a": "z"}, {}, {"b": "x"}],
            [{"a": "x"}, {"a": "y"}],
            id="NotIn matches an absent label",
        ),
        pytest.param(expression("a", "Exists"), [{"a": "x"}, {"a": ""}], [{}, {"b": "x"}], id="Exists"),
        pytest.param(expression("a", "DoesNotExist"), [{}, {"b": "x"}], [{"a": "x"}, {"a": ""}], id="DoesNotExist"),
        pytest.param(
            LabelSelector(
                match_labels={"a": "x"},
                match_expressions=(
                    LabelSelectorRequirement(key="b", operator="Exists"),
                    LabelSelectorRequirement(key="c", operator="NotIn", values=("y",)),
                ),
            ),
            [{"a": "x", "b": ""}, {"a": "x", "b": "1", "c": "z"}],
            [{"a": "x"}, {"b": ""}, {"a": "x", "b": "", "c": "y"}],
            id="all of it must hold",
        ),
    ],
)
def test_matches(selector: LabelSelector, matching: list[dict[str, str]], other: list[dict[str, str]]) -> None:
    assert [selector.matches(item) for item in matching] == [True] * len(matching)
    assert [selector.matches(item) for item in other] == [False] * len(other)


@pytest.mark.parametrize("operator", ["in", "Gt", "", "Equals"])
def test_unknown_operators_are_refused(operator: str) -> None:
    with pytest.raises(pydantic.ValidationError):
        expression("a", operator, "x")


words = st.sampled_from(["a", "b", "c"])
label_maps = st.dictionaries(words, words)
requirements = st.builds(
    LabelSelectorRequirement,
    key=words,
    operator=st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
    values=st.lists(words, max_size=2).map(tuple),
)


@given(label_maps, label_maps, st.lists(requirements, max_size=3))
def test_matches_as_a_set_of_allowed_states(
    present: Mapping[str, str], wanted: dict[str, str], expressions: list[LabelSelectorRequirement]
) -> None:
    """Said again as sets: per key, the values (None: absent) that each part of the selector leaves over."""
    states: set[str | None] = {"a", "b", "c", None}
    left = {key: set(states) for key in ("a", "b", "c")}
    for key, value in wanted.items():
        left[key] &= {value}
    for requirement in expressions:
        values: set[str | None] = set(requirement.values)
        allowed_by: dict[str, set[str | None]] = {
            "In": values,
            "NotIn": states - values,
            "Exists": states - {None},
            "DoesNotExist": {None},
        }
        left[requirement.key] &= allowed_by[requirement.operator]
    selector = LabelSelector(match_labels=wanted, match_expressions=tuple(expressions))
    assert selector.matches(present) == all(present.get(key) in allowed for key, allowed in left.items())
