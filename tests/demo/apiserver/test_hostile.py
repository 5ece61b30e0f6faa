"""Whatever a client sends is written or refused: nothing is a defect of the server."""

import json
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from gpusharing.demo.apiserver.admission import User
from gpusharing.demo.apiserver.errors import StatusError
from gpusharing.demo.apiserver.kinds import Kind, Kinds, Schema, followed, items_of, part_of
from gpusharing.demo.apiserver.objects import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    Objects,
    Place,
    Request,
)
from gpusharing.demo.apiserver.store import Store

CRD = Path(__file__).parents[3] / "crds/sharingpolicies.gpusharing.dev.yaml"
ME = Request(user=User("me"), manager="test")

SCALARS = st.none() | st.booleans() | st.integers(-3, 300) | st.floats(allow_nan=False, width=16) | st.text(max_size=5)
# Names that mean something somewhere, so that what is below them is looked at.
WORDS = """
    metadata name namespace labels annotations finalizers ownerReferences managedFields spec status containers
    image ports devices requests exactly firstAvailable offers classes timeSlicing tenants matchConstraints
    resourceRules validations expression names versions schema openAPIV3Schema properties
    x-kubernetes-validations group data stringData conditions fieldsV1 f:spec $patch $setElementOrder/containers
    op path value template resources limits tolerations regarding involvedObject conversion taint uid kind
    apiVersion
"""
NAMES = st.sampled_from(WORDS.split())
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=12
)


class Shaped:
    """Draws nearly what a schema asks for."""

    def __init__(self, data: st.DataObject) -> None:
        self.draw = data.draw

    def value(self, schema: Schema, depth: int = 7) -> Any:
        schema = followed(schema)
        kind = schema.get("type")
        if not depth or self.draw(st.integers(0, 15)) == 0:
            return self.draw(SCALARS)
        if kind == "array":
            return [self.value(items_of(schema), depth - 1) for _ in range(self.draw(st.integers(0, 2)))]
        if known := sorted(schema.get("properties", ())):
            chosen = {*self.draw(st.lists(st.sampled_from(known), max_size=4)), *schema.get("required", ())}
            return {name: self.value(part_of(schema, name) or {}, depth - 1) for name in sorted(chosen)}
        if isinstance(others := schema.get("additionalProperties"), dict):
            return {name: self.value(others, depth - 1) for name in self.draw(st.sets(NAMES, max_size=2))}
        return self.draw(PLAIN.get(kind, VALUES))


PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    "integer": st.integers(-3, 300),
    "boolean": st.booleans(),
    "string": st.sampled_from(
        ["a", "", "true", "v1", "Pod", "Always", "8Gi", "object.metadata", "100%", "A b", "a.b/c"]
    ),
}


@cache
def definition() -> Any:
    return yaml.safe_load(CRD.read_text())


def server() -> tuple[Objects, list[Kind]]:
    later: list[Any] = []
    objects = Objects(Store(), Kinds(), later=later.append)
    by_name = {kind.resource: kind for kind in objects.kinds}
    objects.create(by_name["namespaces"], "", {"metadata": {"name": "n"}}, ME)
    objects.create(by_name["customresourcedefinitions.apiextensions.k8s.io"], "", definition(), ME)
    return objects, [kind for kind in objects.kinds if "list" in kind.verbs]


@given(st.data())
def test_bodies_and_patches(data: st.DataObject) -> None:
    objects, kinds = server()
    by_name = {kind.resource: kind for kind in kinds}
    kind = by_name[data.draw(st.sampled_from(sorted(by_name)), label="kind")]
    shaped = Shaped(data)

    def value() -> Any:
        return shaped.value(kind.schema) if data.draw(st.booleans()) else data.draw(VALUES)

    body = value()
    if isinstance(body, dict) and data.draw(st.booleans()):
        about = body.get("metadata")
        body["metadata"] = {**(about if isinstance(about, dict) else {}), "name": "a"}
    namespace = "n" if kind.namespaced else ""
    with suppress(StatusError):
        objects.create(kind, namespace, body, ME)
    place = Place(kind, namespace, "a", data.draw(st.sampled_from(["", *kind.subresources])))
    for content_type in (MERGE_PATCH, STRATEGIC_PATCH, JSON_PATCH, APPLY_PATCH):
        patch = data.draw(VALUES) if content_type == JSON_PATCH else value()
        with suppress(StatusError):
            objects.patch(place, content_type, patch, ME)
    with suppress(StatusError):
        objects.replace(place, value(), ME)
    # What is stored is JSON.
    json.dumps([objects.store.all(kind.stored_as) for kind in kinds])
