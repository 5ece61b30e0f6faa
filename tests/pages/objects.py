"""What is wrong with an object or a part of one, by our schemas and those of Kubernetes' client."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from kubernetes_asyncio.client import models

from gpusharing.api import crd
from gpusharing.findings import validating
from gpusharing.validating import resource_schemas, structure
from gpusharing.validating.problems import in_words
from gpusharing.validating.structure import Schema

_ITEMS: Final = re.compile(r"list\[(.+)\]|dict[(\[]str, (.+)[)\]]")
_VERSIONS: Final[Mapping[str, str]] = {
    "v1": "V1",
    "apps/v1": "V1",
    "batch/v1": "V1",
    "rbac.authorization.k8s.io/v1": "V1",
}
_KINDS: Final = {"Pod": "V1Pod", "ClusterRole": "V1ClusterRole"}
"""Of which pages show parts."""


def model_of(value: Mapping[str, Any]) -> str | None:
    """Kubernetes' type of an object; None: it is not of those that its client has."""
    name = f"{_VERSIONS.get(value['apiVersion'], '')}{value['kind']}"
    return name if value["apiVersion"] in _VERSIONS and hasattr(models, name) else None


def faults_of_part(of: str, value: Any) -> list[str]:
    """`of`: SharingPolicy.spec.offers, for example. Required fields may be missing, since it is a part."""
    kind, *path = of.replace("[]", ".[]").split(".")
    if kind in _KINDS:
        return list(faults(_type_at(_KINDS[kind], path), value))
    schema = _schema(kind)
    for name in path:
        schema = schema["items"] if name == "[]" else schema["properties"][name]
    found = structure.problems(schema, structure.complete(schema, value))
    return [f"{in_words(one.path)}: {one.message}" for one in found if one.entry is not validating.MISSING_FIELD]


def _schema(kind: str) -> Schema:
    if kind in resource_schemas.SCHEMAS:
        return resource_schemas.SCHEMAS[kind]
    [definition] = [one for one in crd.DEFINITIONS if one.kind == kind]
    [version] = crd.to_crd(definition)["spec"]["versions"]
    schema: Schema = version["schema"]["openAPIV3Schema"]
    return schema


def _type_at(type_: str, path: list[str]) -> str:
    for name in path:
        if name == "[]":
            found = _ITEMS.fullmatch(type_)
            assert found
            type_ = found[1]
        else:
            type_ = _fields(type_)[name]
    return type_


def faults(type_: str, value: Any, at: str = "") -> Iterator[str]:
    """Fields that Kubernetes does not know, and lists where there are none."""
    if items := _ITEMS.fullmatch(type_):
        inner = value.values() if isinstance(value, dict) else value
        if not isinstance(value, list if items[1] else dict):
            yield f"{at}: is no {'list' if items[1] else 'mapping'}"
            return
        for one in inner:
            yield from faults(items[1] or items[2], one, f"{at}[]")
    elif hasattr(models, type_):
        if not isinstance(value, dict):
            yield f"{at}: is no mapping"
            return
        fields = _fields(type_)
        for name, one in value.items():
            if name not in fields:
                yield f"{at}.{name}: no such field"
            else:
                yield from faults(fields[name], one, f"{at}.{name}")


def _fields(type_: str) -> dict[str, str]:
    model = getattr(models, type_)
    return {model.attribute_map[name]: of for name, of in model.openapi_types.items()}
