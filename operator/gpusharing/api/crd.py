"""CustomResourceDefinitions from our pydantic types: structural, with defaults, CEL rules and printer columns."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpusharing.api import names
from gpusharing.api.base import ApiModel
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.api.sharing.policy import SharingPolicy

Schema = dict[str, Any]


@dataclass(frozen=True)
class Column:
    name: str
    type: str
    json_path: str
    description: str
    priority: int = 0

    def to_json(self) -> dict[str, Any]:
        column = {"name": self.name, "type": self.type, "jsonPath": self.json_path, "description": self.description}
        return column | ({"priority": self.priority} if self.priority else {})


@dataclass(frozen=True)
class Definition:
    model: type[ApiModel]
    plural: str
    short_name: str
    columns: tuple[Column, ...]
    rules: tuple[dict[str, str], ...] = ()

    @property
    def kind(self) -> str:
        return self.model.__name__

    @property
    def name(self) -> str:
        return f"{self.plural}.{names.GROUP}"


_AGE = Column("Age", "date", ".metadata.creationTimestamp", "Time since creation")

SHARING_POLICY = Definition(
    model=SharingPolicy,
    plural="sharingpolicies",
    short_name="gsp",
    columns=(
        Column(
            "Ready",
            "string",
            ".status.conditions[?(@.type=='Ready')].status",
            "Is the policy in force on every node that it selects?",
        ),
        Column("Reason", "string", ".status.conditions[?(@.type=='Ready')].reason", "Why the policy is ready or not"),
        Column(
            "Progressing", "string", ".status.conditions[?(@.type=='Progressing')].reason", "The state of a rollout"
        ),
        Column("Nodes", "integer", ".status.nodes.ready", "Nodes on which the policy is in force"),
        Column("GPUs", "integer", ".status.gpus.won", "GPUs that the policy won"),
        Column("Selected", "integer", ".status.nodes.selected", "Nodes with GPUs that the policy selects", priority=1),
        Column("Lost", "integer", ".status.gpus.lost", "GPUs that another policy won", priority=1),
        Column("Clients", "integer", ".status.clients.current", "Claims on the GPUs of the policy"),
        Column("Max", "integer", ".status.clients.max", "The most claims on the GPUs of the policy"),
        Column("Priority", "integer", ".spec.priority", "The highest priority wins a GPU", priority=1),
        Column(
            "Message",
            "string",
            ".status.conditions[?(@.type=='Ready')].message",
            "Why the policy is ready or not, as a sentence",
            priority=1,
        ),
        _AGE,
    ),
    rules=(
        {
            "rule": f"self.metadata.name.size() <= {names.MAX_POLICY_NAME}",
            "message": f"metadata.name must have at most {names.MAX_POLICY_NAME} characters, "
            "because it becomes part of device class names",
            "reason": "FieldValueInvalid",
        },
    ),
)

NODE_SHARING = Definition(
    model=NodeSharing,
    plural="nodesharings",
    short_name="gns",
    columns=(
        Column("Ready", "string", ".status.conditions[?(@.type=='Ready')].status", "Has the agent applied the spec?"),
        Column("Reason", "string", ".status.conditions[?(@.type=='Ready')].reason", "Why the node is ready or not"),
        Column("Models", "string", ".status.gpus[*].model", "GPU models of the node"),
        Column("Policies", "string", ".status.gpus[*].policy.name", "Policies in force"),
        _AGE,
    ),
)

DEFINITIONS = (SHARING_POLICY, NODE_SHARING)


def to_crd(definition: Definition) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": definition.name},
        "spec": {
            "group": names.GROUP,
            "scope": "Cluster",
            "names": {
                "kind": definition.kind,
                "listKind": f"{definition.kind}List",
                "plural": definition.plural,
                "singular": definition.kind.lower(),
                "shortNames": [definition.short_name],
                "categories": ["gpusharing"],
            },
            "versions": [
                {
                    "name": names.VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [column.to_json() for column in definition.columns],
                    "schema": {"openAPIV3Schema": _root_schema(definition)},
                }
            ],
        },
    }


def _root_schema(definition: Definition) -> Schema:
    generated = definition.model.model_json_schema(by_alias=True, mode="validation")
    definitions: Mapping[str, Schema] = generated.get("$defs", {})
    properties = {
        # The API server owns the metadata's schema and refuses any other.
        name: {"type": "object"} if name == "metadata" else _structural(schema, definitions)
        for name, schema in generated["properties"].items()
    }
    schema: Schema = {
        "type": "object",
        "description": " ".join(generated["description"].split()),
        "required": ["spec"] if "spec" in generated["required"] else [],
        "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"}} | properties,
    }
    if not schema["required"]:
        del schema["required"]
    if definition.rules:
        schema["x-kubernetes-validations"] = list(definition.rules)
    return schema


# JSON Schema keywords that mean the same in a structural schema.
_KEPT = (
    "type",
    "format",
    "description",
    "default",
    "enum",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "required",
)


def _structural(schema: Schema, definitions: Mapping[str, Schema]) -> Schema:
    """One schema without references and alternatives, as CRDs require."""
    if "$ref" in schema:
        target = definitions[schema["$ref"].removeprefix("#/$defs/")]
        return _structural(target | {key: value for key, value in schema.items() if key != "$ref"}, definitions)
    if "anyOf" in schema:
        return _structural_choice(schema, definitions)
    result = {key: schema[key] for key in _KEPT if key in schema}
    if "description" in result:
        # Docstrings are wrapped for our lines, not for those of `kubectl explain`.
        result["description"] = " ".join(result["description"].split())
    # Empty lists and objects are absent ones: written into every object they would only be noise in a diff.
    if "default" in result and not isinstance(result["default"], str | int):
        del result["default"]
    result |= {key: value for key, value in schema.items() if key.startswith("x-kubernetes-")}
    if "const" in schema:
        result["enum"] = [schema["const"]]
    if "properties" in schema:
        result["properties"] = {
            name: _structural(property_, definitions) for name, property_ in schema["properties"].items()
        }
    if isinstance(schema.get("additionalProperties"), dict):
        result["additionalProperties"] = _structural(schema["additionalProperties"], definitions)
    if "items" in schema:
        result["items"] = _structural(schema["items"], definitions)
    return result


def _structural_choice(schema: Schema, definitions: Mapping[str, Schema]) -> Schema:
    choices = [choice for choice in schema["anyOf"] if choice.get("type") != "null"]
    outer = {key: value for key, value in schema.items() if key not in {"anyOf", "default"}}
    if {choice.get("type") for choice in choices} == {"integer", "string"}:
        return _structural(outer, definitions) | {"x-kubernetes-int-or-string": True}
    if len(choices) != 1:
        raise TypeError(f"a structural schema cannot say: {schema['anyOf']}")
    return _structural(choices[0] | outer, definitions)
