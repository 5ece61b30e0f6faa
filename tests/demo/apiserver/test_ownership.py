"""Server-side apply and the managers of fields, on a small schema."""

import json
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusharing.demo.apiserver import ownership
from gpusharing.demo.apiserver.errors import StatusError
from gpusharing.demo.apiserver.fields import as_fields_v1, from_fields_v1, merged, paths_of
from gpusharing.demo.apiserver.ownership import APPLY, UPDATE, Manager

SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "metadata": {"type": "object", "properties": {"labels": {"additionalProperties": {"type": "string"}}}},
        "spec": {
            "type": "object",
            "properties": {
                "a": {"type": "integer"},
                "b": {"type": "integer"},
                "whole": {"type": "array", "items": {"type": "integer"}},
                "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                "one": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"x": {}, "y": {}}},
                "map": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {"type": "object", "properties": {"name": {"type": "string"}, "n": {"type": "integer"}}},
                },
            },
        },
    },
}


class World:
    """One object, and those who write it."""

    def __init__(self) -> None:
        self.value: Any = None

    def apply(self, manager: str, spec: Any, *, force: bool = False, labels: Any = None) -> Any:
        metadata = {"name": "x", **({"labels": labels} if labels else {})}
        config = {"apiVersion": "v1", "kind": "X", "metadata": metadata, "spec": spec}
        by = Manager(manager, APPLY, "v1")
        self.value = ownership.applied(SCHEMA, self.value, config, by, "now", force=force)
        return self.value.get("spec")

    def update(self, manager: str, spec: Any) -> None:
        after = {**self.value, "spec": spec}
        self.value = ownership.updated(SCHEMA, self.value, after, Manager(manager, UPDATE, "v1"), "now")

    def owners(self) -> dict[str, Any]:
        found = self.value["metadata"].get("managedFields", ())
        return {entry["manager"]: entry["fieldsV1"].get("f:spec", {}) for entry in found}


@pytest.fixture
def world() -> World:
    return World()


def test_each_owns_what_it_applies(world: World) -> None:
    world.apply("one", {"a": 1, "set": ["x"]})
    world.apply("two", {"b": 2, "set": ["y"], "a": 1})
    assert world.value["spec"] == {"a": 1, "b": 2, "set": ["x", "y"]}
    assert world.owners() == {
        "one": {"f:a": {}, "f:set": {'v:"x"': {}}},
        "two": {"f:a": {}, "f:b": {}, "f:set": {'v:"y"': {}}},
    }


def test_what_is_not_applied_any_more_goes_unless_another_has_it(world: World) -> None:
    world.apply("one", {"a": 1, "b": 2, "whole": [1], "map": [{"name": "p", "n": 1}, {"name": "q"}]})
    world.apply("two", {"b": 2, "map": [{"name": "p"}]})
    assert world.apply("one", {"a": 1}) == {"a": 1, "b": 2, "map": [{"name": "p"}]}
    assert world.apply("two", {}) == {"a": 1}


def test_labels_go_and_other_metadata_stay(world: World) -> None:
    world.apply("one", {}, labels={"a": "b"})
    world.apply("one", {})
    assert world.value["metadata"].keys() <= {"name", "managedFields"}


@pytest.mark.parametrize(
    ("theirs", "mine", "fields"),
    [
        ({"a": 1}, {"a": 2}, [".spec.a"]),
        ({"whole": [1]}, {"whole": [1, 2]}, [".spec.whole"]),
        ({"one": {"x": 1}}, {"one": {"y": 1}}, [".spec.one"]),
        ({"map": [{"name": "p", "n": 1}]}, {"map": [{"name": "p", "n": 2}]}, ['.spec.map[name="p"].n']),
        ({"a": 1, "b": 1}, {"a": 2, "b": 2}, [".spec.a", ".spec.b"]),
    ],
)
def test_conflicts_name_fields_and_managers(world: World, theirs: Any, mine: Any, fields: list[str]) -> None:
    world.apply("one", theirs)
    with pytest.raises(StatusError) as refused:
        world.apply("two", mine)
    assert refused.value.code == 409
    assert refused.value.details is not None
    assert [cause["field"] for cause in refused.value.details["causes"]] == fields
    assert f"Apply failed with {len(fields)} conflict" in refused.value.message
    assert world.apply("two", mine, force=True) == mine
    assert world.owners().get("one", {}) == (
        {"f:map": {'k:{"name":"p"}': {".": {}, "f:name": {}}}} if "map" in mine else {}
    )


def test_kubectl_takes_over_what_it_has_applied_the_other_way(world: World) -> None:
    world.apply("other", {"b": 1})
    last = json.dumps({"metadata": {"name": "x"}, "spec": {"a": 1}})
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": last}
    world.value = {**world.value, "metadata": {**world.value["metadata"], "annotations": annotations}}
    world.update("kubectl-client-side-apply", {"a": 1, "b": 1})
    with pytest.raises(StatusError):
        world.apply("someone", {"a": 2})
    with pytest.raises(StatusError, match=r"\.spec\.b$"):
        world.apply("kubectl", {"a": 2, "b": 2})
    assert world.apply("kubectl", {"a": 2}) == {"a": 2, "b": 1}


@pytest.mark.parametrize(
    ("theirs", "mine"),
    [({"a": 1}, {"a": 1}), ({"set": ["x"]}, {"set": ["y"]}), ({"map": [{"name": "p"}]}, {"map": [{"name": "q"}]})],
)
def test_no_conflict_where_nothing_of_others_changes(world: World, theirs: Any, mine: Any) -> None:
    world.apply("one", theirs)
    world.apply("two", mine)


def test_an_update_takes_what_it_changes(world: World) -> None:
    world.apply("one", {"a": 1, "b": 1})
    world.update("two", {"a": 2})
    assert world.owners() == {"two": {"f:a": {}}}
    with pytest.raises(StatusError, match=r'conflict with "two" using v1: \.spec\.a'):
        world.apply("one", {"a": 1})


@pytest.mark.parametrize(
    ("before", "applied", "expected"),
    [
        ("pq", "rq", "prq"), ("pqs", "qp", "qsp"), ("", "ba", "ba"), ("ab", "", "ab"), ("ab", "xab", "xab"),
        ("abc", "cb", "acb"), ("abc", "xc", "abxc"),
    ],
)  # fmt: skip
def test_items_of_lists_keep_their_order(before: str, applied: str, expected: str) -> None:
    schema = SCHEMA["properties"]["spec"]["properties"]["set"]
    assert "".join(merged(schema, list(before), list(applied))) == expected


SPECS: Final = st.fixed_dictionaries(
    {},
    optional={
        "a": st.integers(0, 2),
        "b": st.integers(0, 2),
        "whole": st.lists(st.integers(0, 2), max_size=2),
        "set": st.lists(st.sampled_from("xyz"), max_size=3, unique=True),
        "one": st.fixed_dictionaries({}, optional={"x": st.integers(0, 2), "y": st.integers(0, 2)}),
        "map": st.lists(
            st.fixed_dictionaries({"name": st.sampled_from("pqr")}, optional={"n": st.integers(0, 2)}),
            max_size=3,
            unique_by=lambda item: item["name"],
        ),
    },
)


@given(st.lists(st.tuples(st.sampled_from(["one", "two", "three"]), SPECS), min_size=1, max_size=6))
def test_whoever_applies_gets_what_they_want_and_nothing_is_left_behind(steps: list[tuple[str, Any]]) -> None:
    world = World()
    for manager, spec in steps:
        world.apply(manager, spec, force=True)
        assert merged(SCHEMA["properties"]["spec"], world.value["spec"], spec) == world.value["spec"]
        before = world.value
        world.apply(manager, spec)
        assert world.value == before
    for manager, _ in steps:
        world.apply(manager, {}, force=True)
    assert not any(world.value["spec"].values())


def test_fields_are_read_as_they_are_written() -> None:
    value = {"metadata": {"labels": {"a": "b", ".": "c"}}, "spec": {"map": [{"name": "p", "n": 1}], "whole": []}}
    paths = paths_of(SCHEMA, value)
    assert frozenset(from_fields_v1(as_fields_v1(paths))) == paths
