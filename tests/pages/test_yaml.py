"""Each YAML block of a page is what it says: an object that is valid, or a part of one."""

import posixpath
from typing import Any

import pytest
import yaml

from gpusharing.validating import kinds
from gpusharing.validating.validation import Source, validate
from pages.blocks import BLOCKS, ROOT, Block
from pages.objects import faults, faults_of_part, model_of

PARTS = [block for block in BLOCKS if block.language == "yaml" and block.of]


def objects(block: Block) -> list[Any]:
    """Empty: it has others than objects."""
    values = list(yaml.safe_load_all(block.text))
    return values if all(isinstance(one, dict) and {"apiVersion", "kind"} <= one.keys() for one in values) else []


def is_known(value: Any) -> bool:
    return (
        kinds.is_checked(value["apiVersion"], value["kind"])
        or value["kind"] == "Kustomization"
        or model_of(value) is not None
    )


WHOLE = [
    block
    for block in BLOCKS
    if block.language == "yaml" and not block.of and (o := objects(block)) and all(map(is_known, o))
]


@pytest.mark.parametrize("block", WHOLE, ids=str)
def test_object_is_valid(block: Block) -> None:
    found = [one.finding.sentence for one in validate([Source(str(block), block.text.encode())]).findings]
    for value in objects(block):
        if value["kind"] == "Kustomization":
            named = [*value.get("resources", ()), *value.get("components", ())]
            found += [f"{name}: not there" for name in named if not (ROOT / posixpath.normpath(name)).exists()]
        elif model := model_of(value):
            found += faults(model, value)
    assert found == []


@pytest.mark.parametrize("block", PARTS, ids=str)
def test_part_is_valid(block: Block) -> None:
    assert faults_of_part(block.of, yaml.safe_load(block.text)) == []


@pytest.mark.parametrize(
    ("of", "text"),
    [
        ("SharingPolicy.spec", "tenant: {}"),
        ("SharingPolicy.spec.offers", "mps: {maxClients: two}"),
        ("SharingPolicy", "spec: {offers: {timeSlicing: {maxClients: 1}}}"),
        ("ResourceClaim.spec.devices", "requests: [{name: gpu, exactly: {deviceClass: x}}]"),
        ("NodeSharing.spec.claims[]", "verdict: Perhaps"),
        ("Pod.spec", "resourceClaim: []"),
        ("Pod.spec", "containers: {name: main}"),
        ("Pod.spec.containers[]", "resources: {claim: []}"),
    ],
)
def test_it_would_find(of: str, text: str) -> None:
    assert faults_of_part(of, yaml.safe_load(text))
