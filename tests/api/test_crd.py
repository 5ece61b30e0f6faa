"""The generated CustomResourceDefinitions."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpusharing.api import crd

CRDS = Path(__file__).parents[2] / "crds"

# Of structural schemas: https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions
FORBIDDEN = {
    "$ref",
    "$defs",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "const",
    "definitions",
    "dependencies",
    "deprecated",
    "discriminator",
    "id",
    "patternProperties",
    "prefixItems",
    "readOnly",
    "title",
    "uniqueItems",
    "writeOnly",
    "xml",
}


def root(definition: crd.Definition) -> dict[str, Any]:
    schema: dict[str, Any] = crd.to_crd(definition)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def schemas(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema in a schema, with where it stands."""
    yield path, schema
    for name, property_ in schema.get("properties", {}).items():
        yield from schemas(property_, f"{path}.{name}")
    for keyword in ("items", "additionalProperties"):
        if keyword in schema:
            yield from schemas(schema[keyword], f"{path}[{keyword}]")


def at(definition: crd.Definition, path: str) -> dict[str, Any]:
    return dict(schemas(root(definition)))[path]


@pytest.fixture(params=crd.DEFINITIONS, ids=lambda definition: definition.kind)
def definition(request: pytest.FixtureRequest) -> crd.Definition:
    found: crd.Definition = request.param
    return found


def test_what_is_checked_in_is_what_the_types_say(definition: crd.Definition) -> None:
    assert yaml.safe_load((CRDS / f"{definition.name}.yaml").read_text()) == crd.to_crd(definition)


def test_no_other_definition_is_checked_in() -> None:
    assert {path.stem for path in CRDS.glob("*.gpusharing.dev.yaml")} == {
        definition.name for definition in crd.DEFINITIONS
    }


def test_schemas_are_structural(definition: crd.Definition) -> None:
    for path, schema in schemas(root(definition)):
        assert not FORBIDDEN & set(schema), path
        assert ("type" in schema) != schema.get("x-kubernetes-int-or-string", False), path
        assert (schema.get("type") == "array") == ("items" in schema), path
        # The API server does not take both.
        assert not {"properties", "additionalProperties"} <= set(schema), path
        assert set(schema.get("required", ())) <= set(schema.get("properties", {})), path


def test_people_can_read_what_every_field_is_for(definition: crd.Definition) -> None:
    silent = [
        path
        for path, schema in schemas(root(definition))
        if path.startswith((".spec", ".status"))
        and not path.endswith("]")
        and not schema.get("description", "").strip()
    ]
    assert silent == []


def test_descriptions_have_no_line_breaks(definition: crd.Definition) -> None:
    """`kubectl explain` wraps lines itself; ours would break them in the middle."""
    descriptions = [schema["description"] for _, schema in schemas(root(definition)) if "description" in schema]
    assert [text for text in descriptions if "\n" in text] == []


def test_keys_of_map_lists_are_required(definition: crd.Definition) -> None:
    maps = [(path, schema) for path, schema in schemas(root(definition)) if "x-kubernetes-list-map-keys" in schema]
    assert maps
    for path, schema in maps:
        assert schema["x-kubernetes-list-type"] == "map", path
        assert set(schema["x-kubernetes-list-map-keys"]) <= set(schema["items"]["required"]), path


def test_columns_show_fields_that_exist(definition: crd.Definition) -> None:
    paths = {path for path, _ in schemas(root(definition))}
    for column in definition.columns:
        plain = column.json_path.split("[?")[0].replace("[*]", "[items]")
        assert plain in paths or plain == ".metadata.creationTimestamp", column


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".spec.priority", {"type": "integer", "default": 0, "minimum": -1_000_000, "maximum": 1_000_000}),
        (".spec.offers.timeSlicing.maxClients", {"type": "integer", "minimum": 2, "maximum": 256}),
        (
            ".spec.offers.timeSlicing.interval",
            {"type": "string", "enum": ["Default", "Short", "Medium", "Long"], "default": "Default"},
        ),
        (".spec.offers.exclusive", {"type": "object", "properties": {}}),
        (
            ".spec.gpus.maxPerNode",
            {
                "x-kubernetes-int-or-string": True,
                "x-kubernetes-validations": [
                    {
                        "rule": "type(self) == int ? self >= 1 : self.matches('^([1-9][0-9]?|100)%$')",
                        "message": 'must be a number of at least 1, or a percentage from "1%" to "100%"',
                        "reason": "FieldValueInvalid",
                    }
                ],
            },
        ),
        (".status.conditions[items].lastTransitionTime", {"type": "string", "format": "date-time"}),
        (
            ".spec.nodes.matchLabels",
            {
                "type": "object",
                "maxProperties": 64,
                "additionalProperties": {"type": "string", "maxLength": 63},
                "x-kubernetes-validations": [
                    {"rule": "self.all(key, size(key) <= 317)", "message": "keys have at most 317 characters"}
                ],
            },
        ),
        (".spec.gpus.selectors[items].cel.expression", {"type": "string", "minLength": 1, "maxLength": 10240}),
    ],
)
def test_single_fields(path: str, expected: dict[str, Any]) -> None:
    schema = at(crd.SHARING_POLICY, path)
    assert {key: value for key, value in schema.items() if key != "description"} == expected


def test_defaults_written_into_objects_are_scalars(definition: crd.Definition) -> None:
    for path, schema in schemas(root(definition)):
        assert isinstance(schema.get("default", ""), str | int), path


def test_what_a_structural_schema_cannot_say_is_refused() -> None:
    with pytest.raises(TypeError, match="cannot say"):
        crd._structural({"anyOf": [{"type": "string"}, {"type": "object"}]}, {})
