"""Patches of three types, case by case."""

from copy import deepcopy
from typing import Any

import pytest

from gpusharing.demo.apiserver.errors import StatusError
from gpusharing.demo.apiserver.kinds import Kinds
from gpusharing.demo.apiserver.patches import json_patch, merge_patch, strategic_merge_patch

POD = next(kind for kind in Kinds() if kind.plural == "pods").schema


@pytest.mark.parametrize(
    ("value", "operations", "expected"),
    [
        ({}, [{"op": "add", "path": "/a", "value": 1}], {"a": 1}),
        ({"a": {"b~/c": 1}}, [{"op": "remove", "path": "/a/b~0~1c"}], {"a": {}}),
        ({"a": [1, 3]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2, 3]}),
        ({"a": [1]}, [{"op": "add", "path": "/a/-", "value": 2}], {"a": [1, 2]}),
        ({"a": [1, 2]}, [{"op": "remove", "path": "/a/0"}], {"a": [2]}),
        ({"a": [1, 2]}, [{"op": "replace", "path": "/a/0", "value": 7}], {"a": [7, 2]}),
        ({"a": 1}, [{"op": "move", "from": "/a", "path": "/b"}], {"b": 1}),
        ({"a": {"x": 1}}, [{"op": "copy", "from": "/a", "path": "/b"}], {"a": {"x": 1}, "b": {"x": 1}}),
        ({"a": 1}, [{"op": "test", "path": "/a", "value": 1}], {"a": 1}),
        ({"a": 1}, [{"op": "replace", "path": "", "value": {"b": 2}}], {"b": 2}),
    ],
)
def test_json_patch(value: Any, operations: Any, expected: Any) -> None:
    assert json_patch(value, operations) == expected


@pytest.mark.parametrize(
    ("operations", "code"),
    [
        ([{"op": "test", "path": "/a", "value": 2}], 422),
        ([{"op": "remove", "path": "/none"}], 422),
        ([{"op": "replace", "path": "/none", "value": 1}], 422),
        ([{"op": "add", "path": "/none/b", "value": 1}], 422),
        ([{"op": "add", "path": "/l/5", "value": 1}], 422),
        ([{"op": "add", "path": "/l/x", "value": 1}], 422),
        ([{"op": "frob", "path": "/a"}], 422),
        ([{"path": "/a"}], 400),
        ([{"op": "add", "path": "/a"}], 400),
        ({"op": "remove"}, 400),
        (["x"], 400),
        (7, 400),
    ],
)
def test_json_patch_refuses(operations: Any, code: int) -> None:
    with pytest.raises(StatusError) as refused:
        json_patch({"a": 1, "l": []}, operations)
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("value", "patch", "expected"),
    [
        ({"a": 1, "b": 2}, {"a": None, "c": 3}, {"b": 2, "c": 3}),
        ({"a": {"b": 1}}, {"a": {"c": None}}, {"a": {"b": 1}}),
        ({"a": [1]}, {"a": [2]}, {"a": [2]}),
        ({"a": "b"}, {"a": {"b": {"c": None}}}, {"a": {"b": {}}}),
    ],
)
def test_merge_patch(value: Any, patch: Any, expected: Any) -> None:
    assert merge_patch(value, patch) == expected


def containers(*values: Any) -> Any:
    return {"spec": {"containers": list(values)}}


A, B = {"name": "a", "image": "1"}, {"name": "b", "image": "1"}


@pytest.mark.parametrize(
    ("value", "patch", "expected"),
    [
        (containers(A, B), containers({"name": "b", "image": "2"}), containers(A, {"name": "b", "image": "2"})),
        (containers(A), containers(B), containers(B, A)),
        (containers(A, B), containers({"name": "a", "$patch": "delete"}), containers(B)),
        (containers(A, B), containers({"$patch": "replace"}, B), containers(B)),
        (
            containers(A, B),
            {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}},
            containers(B, A),
        ),
        ({"metadata": {"labels": {"a": "b"}}}, {"metadata": {"labels": {"a": None}}}, {"metadata": {"labels": {}}}),
        (
            {"metadata": {"finalizers": ["a", "b"]}},
            {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}},
            {"metadata": {"finalizers": ["b"]}},
        ),
        (
            {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}},
            {"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "secret"], "secret": {"secretName": "s"}}]}},
            {"spec": {"volumes": [{"name": "v", "secret": {"secretName": "s"}}]}},
        ),
        # Lists without a key are one whole.
        (
            {"spec": {"tolerations": [{"key": "a"}]}},
            {"spec": {"tolerations": [{"key": "b"}]}},
            {"spec": {"tolerations": [{"key": "b"}]}},
        ),
    ],
)
def test_strategic_merge_patch(value: Any, patch: Any, expected: Any) -> None:
    before = deepcopy(value)
    assert strategic_merge_patch(POD, value, patch) == expected
    assert value == before


def test_a_strategic_merge_patch_names_the_key() -> None:
    with pytest.raises(StatusError, match="merge key: name"):
        strategic_merge_patch(POD, containers(A), containers({"image": "2"}))
