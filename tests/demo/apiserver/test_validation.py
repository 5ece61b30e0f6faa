"""CRDs' schemas and rules, in the words of kube-apiserver."""

from typing import Any, Final

import pytest

from gpusharing.demo.apiserver.schemas import pruned, with_defaults
from gpusharing.demo.apiserver.validation import causes

SPEC: Final[dict[str, Any]] = {
    "size": {"type": "integer", "minimum": 1, "maximum": 9, "multipleOf": 3},
    "color": {"type": "string", "enum": ["red", "green"]},
    "name": {"type": "string", "minLength": 2, "maxLength": 3, "pattern": "^[a-z]+$"},
    "when": {"type": "string", "format": "date-time"},
    "either": {"x-kubernetes-int-or-string": True},
    "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set", "maxItems": 2},
    "map": {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 1},
    "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "maybe": {"type": "string", "nullable": True},
    "filled": {"type": "object", "default": {}, "properties": {"n": {"type": "integer", "default": 7}}},
    "fixed": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "it is fixed"}]},
    "grows": {
        "type": "integer",
        "x-kubernetes-validations": [
            {"rule": "!oldSelf.hasValue() || self > oldSelf.value()", "optionalOldSelf": True, "message": "it grows"},
        ],
    },
    "parts": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {
            "type": "object",
            "required": ["name"],
            "properties": {"name": {"type": "string"}, "n": {"type": "integer"}},
            "x-kubernetes-validations": [
                {"rule": "!has(self.n) || self.n >= oldSelf.?n.orValue(0)", "fieldPath": ".n", "message": "n shrinks"}
            ],
        },
    },
}
SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"spec": {"type": "object", "properties": SPEC}, "metadata": {"type": "object"}},
}


def messages(spec: Any, before: Any = None) -> list[str]:
    return [str(cause) for cause in causes(SCHEMA, {"spec": spec}, before and {"spec": before})]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"size": 0}, "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1"),
        ({"size": 12}, "spec.size: Invalid value: 12: spec.size in body should be less than or equal to 9"),
        ({"size": 4}, "spec.size: Invalid value: 4: spec.size in body should be a multiple of 3"),
        ({"name": "a"}, 'spec.name: Invalid value: "a": spec.name in body should be at least 2 chars long'),
        ({"name": "A1"}, "spec.name: Invalid value: \"A1\": spec.name in body should match '^[a-z]+$'"),
        ({"tags": ["a", "a"]}, 'spec.tags[1]: Duplicate value: "a"'),
        ({"parts": [{"name": "a"}, {"name": "a"}]}, 'spec.parts[1]: Duplicate value: {"name":"a"}'),
    ],
)
def test_what_is_wrong(spec: Any, expected: str) -> None:
    assert messages(spec) == [expected]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"size": "3"}, 'spec.size: Invalid value: "string": spec.size in body must be of type integer: "string"'),
        ({"size": True}, 'spec.size: Invalid value: "boolean": spec.size in body must be of type integer: "boolean"'),
        ({"tags": {}}, 'spec.tags: Invalid value: "object": spec.tags in body must be of type array: "object"'),
        ({"size": None}, 'spec.size: Invalid value: "null": spec.size in body must be of type integer: "null"'),
        (
            {"either": 1.5},
            'spec.either: Invalid value: "number": spec.either in body must be of type integer,string: "number"',
        ),
        ({"color": "blue"}, 'spec.color: Unsupported value: "blue": supported values: "red", "green"'),
        ({"when": "x"}, 'spec.when: Invalid value: "x": spec.when in body must be of type date-time: "x"'),
        ({"name": "abcd"}, "spec.name: Too long: may not be more than 3 bytes"),
        ({"tags": ["a", "b", "c"]}, "spec.tags: Too many: 3: must have at most 2 items"),
        ({"map": {"a": 1, "b": 2}}, "spec.map: Too many: 2: must have at most 1 item"),
        ({"parts": [{}]}, "spec.parts[0].name: Required value"),
    ],
)
def test_what_keeps_rules_from_being_looked_at(spec: Any, expected: str) -> None:
    first, last = messages(spec)
    assert first == expected
    assert last.startswith("<nil>: Invalid value: null: some validation rules were not checked")


@pytest.mark.parametrize(
    "spec",
    [
        {}, {"size": 3, "color": "red", "name": "ab", "when": "2026-01-01T00:00:00Z"}, {"either": 1}, {"either": "5%"},
        {"size": 3.0}, {"maybe": None}, {"map": {"a": 1}}, {"open": {"x": [None]}}, {"fixed": "new"}, {"grows": 1},
    ],
)  # fmt: skip
def test_what_is_right(spec: Any) -> None:
    assert messages(spec) == []


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"fixed": "a"}, {"fixed": "b"}, ['spec.fixed: Invalid value: "b": it is fixed']),
        ({"fixed": "a"}, {"fixed": "a"}, []),
        ({"grows": 2}, {"grows": 1}, ["spec.grows: Invalid value: 1: it grows"]),
        ({"grows": 2}, {"grows": 3}, []),
        # Items are compared with those of the same key.
        ({"parts": [{"name": "a", "n": 5}, {"name": "b", "n": 1}]}, {"parts": [{"name": "b", "n": 1}]}, []),
        (
            {"parts": [{"name": "a", "n": 5}]},
            {"parts": [{"name": "a", "n": 4}]},
            ["spec.parts[0].n: Invalid value: n shrinks"],
        ),
    ],
)
def test_rules_about_what_was_before(before: Any, after: Any, expected: list[str]) -> None:
    assert messages(after, before) == expected


def test_unknown_fields_go_and_defaults_come() -> None:
    value = {"spec": {"x": 1, "open": {"y": 2}, "maybe": None, "size": None, "parts": [{"name": "a", "z": 1}]}}
    kept, unknown = pruned(SCHEMA, value)
    assert unknown == ["spec.x", "spec.parts[0].z"]
    assert kept == {"spec": {"open": {"y": 2}, "maybe": None, "parts": [{"name": "a"}]}}
    assert with_defaults(SCHEMA, kept)["spec"]["filled"] == {"n": 7}
    assert with_defaults(SCHEMA, {"spec": {"filled": {}}})["spec"]["filled"] == {"n": 7}
