"""One object as the API server would look at it."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from gpusharing.api import crd
from gpusharing.core.policies.policy import examine
from gpusharing.findings import validating
from gpusharing.validating import formats, resource_rules, resource_schemas, rules, structure
from gpusharing.validating.kinds import OURS
from gpusharing.validating.policies import read_policy
from gpusharing.validating.problems import Path, Problem
from gpusharing.validating.structure import Schema

Value = Mapping[str, Any]

_ANNOTATIONS_AT_MOST: Final = 256 * 1024


def problems(value: Value, *, minor: int) -> Iterator[Problem]:
    """Of an object of a kind that is checked."""
    yield from _of_metadata(value)
    found = list(_of_ours(value, minor) if value["apiVersion"] == OURS else _of_kubernetes(value, minor))
    yield from found


def _of_ours(value: Value, minor: int) -> Iterator[Problem]:
    schema = _schema(value["kind"])
    complete = structure.complete(schema, value)
    found = list(structure.problems(schema, complete))
    yield from found
    if found:
        # As the API server: rules are for what has the structure.
        return
    yield from rules.problems(schema, complete)
    if value["kind"] != "SharingPolicy":
        return
    path: Path = ("spec", "gpus", "selectors")
    in_selectors = list(
        resource_rules.selectors((complete["spec"].get("gpus") or {}).get("selectors") or (), path, minor)
    )
    yield from in_selectors
    policy = read_policy(value)
    objection = examine(policy, minor=minor).objection if policy else None
    if objection and not in_selectors:
        # The operator takes less of all together than Kubernetes of each.
        yield Problem(validating.COSTLY_SELECTOR, path, f"is not accepted: {objection.message}")


def _of_kubernetes(value: Value, minor: int) -> Iterator[Problem]:
    schema = resource_schemas.SCHEMAS[value["kind"]]
    # To its own kinds, Kubernetes takes null for absent.
    given = _without_nulls({name: item for name, item in value.items() if name != "metadata"})
    found = list(structure.problems(schema, given))
    yield from found
    if any(one.entry is validating.WRONG_TYPE for one in found):
        # As the API server, which cannot decode it.
        return
    spec = given.get("spec") or {}
    match value["kind"]:
        case "ResourceClaim":
            yield from resource_rules.of_claim(spec.get("devices") or {}, ("spec", "devices"), minor)
        case "ResourceClaimTemplate":
            devices = (spec.get("spec") or {}).get("devices") or {}
            yield from resource_rules.of_claim(devices, ("spec", "spec", "devices"), minor)
        case "DeviceClass":
            yield from resource_rules.of_class(spec, ("spec",), minor)


def _of_metadata(value: Value) -> Iterator[Problem]:
    metadata = value.get("metadata")
    if not isinstance(metadata, dict):
        yield Problem(validating.MISSING_FIELD, ("metadata", "name"), "is missing", "Add a name.", at_key=True)
        return
    given = _without_nulls(metadata)
    yield from structure.problems(resource_schemas.METADATA, given, ("metadata",))
    if not given.get("name") and not given.get("generateName"):
        yield Problem(validating.MISSING_FIELD, ("metadata", "name"), "is missing", "Add a name.", at_key=True)
    for field in ("labels", "annotations"):
        for key in given.get(field) or () if isinstance(given.get(field), dict) else ():
            # Upper case is no mistake in the key of an annotation, also before the slash.
            if wrong := formats.label_key(key.lower() if field == "annotations" else key):
                yield Problem(validating.INVALID_VALUE, ("metadata", field, key), wrong, at_key=True)
    annotations = given.get("annotations")
    if isinstance(annotations, dict):
        size = sum(len(key.encode()) + len(str(item).encode()) for key, item in annotations.items())
        if size > _ANNOTATIONS_AT_MOST:
            too_large = f"is larger than {_ANNOTATIONS_AT_MOST:,} bytes"
            yield Problem(validating.INVALID_VALUE, ("metadata", "annotations"), too_large)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        # A config belongs to its driver, whose decoder may tell null from absent.
        return {
            key: item if key == "parameters" else _without_nulls(item)
            for key, item in value.items()
            if item is not None
        }
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


@cache
def _schema(kind: str) -> Schema:
    definition = next(one for one in crd.DEFINITIONS if one.kind == kind)
    schema: Schema = crd.to_crd(definition)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema
