"""The API server accepts every example of docs/examples, README.md and the pages."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.controlplane import ControlPlane

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="package")]

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted([*(ROOT / "docs/examples").glob("*.yaml"), *(ROOT / "docs/examples/claims").glob("*.yaml")])
# Whole objects only: other blocks show a part of one. A SharingTest is none.
BLOCKS = [
    pytest.param(block, id=f"{page.name} {number}")
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    for number, block in enumerate(
        re.findall(r"^```yaml\n(apiVersion: .*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)
    )
    if "kind: SharingTest" not in block
]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
async def test_example_is_accepted(installed: ControlPlane, example: Path) -> None:
    # Only what is in them can be tried dry.
    for namespace in _namespaces(example):
        await installed.kubectl("apply", "--filename=-", stdin=json.dumps(namespace))
        account = ("serviceaccount/default", f"--namespace={namespace['metadata']['name']}")
        await installed.kubectl("wait", "--for=create", *account)
    said = await installed.kubectl("apply", "--dry-run=server", "--validate=strict", f"--filename={example}")
    assert said.count("(server dry run)") == len(_objects(example))


@pytest.mark.parametrize("block", BLOCKS)
async def test_block_of_a_page_is_accepted(installed: ControlPlane, block: str) -> None:
    said = await installed.kubectl("apply", "--dry-run=server", "--validate=strict", "--filename=-", stdin=block)
    assert "(server dry run)" in said


def _namespaces(example: Path) -> list[Any]:
    return [item for item in _objects(example) if item["kind"] == "Namespace"]


def _objects(example: Path) -> list[Any]:
    return list(yaml.safe_load_all(example.read_text()))
