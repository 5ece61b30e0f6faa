"""What docs/examples shows is what the API server takes."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.controlplane import ControlPlane

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="package")]

EXAMPLES = sorted((Path(__file__).parents[2] / "docs/examples").glob("*.yaml"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
async def test_example_is_accepted(installed: ControlPlane, example: Path) -> None:
    # Only what is in them can be tried dry.
    for namespace in _namespaces(example):
        await installed.kubectl("apply", "--filename=-", stdin=json.dumps(namespace))
        account = ("serviceaccount/default", f"--namespace={namespace['metadata']['name']}")
        await installed.kubectl("wait", "--for=create", *account)
    said = await installed.kubectl("apply", "--dry-run=server", "--validate=strict", f"--filename={example}")
    assert "sharingpolicy.gpusharing.dev/" in said


def _namespaces(example: Path) -> list[Any]:
    return [item for item in yaml.safe_load_all(example.read_text()) if item["kind"] == "Namespace"]
