"""What docs/examples shows is what the API server takes."""

from pathlib import Path

import pytest

from harness.controlplane import ControlPlane

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="package")]

EXAMPLES = sorted((Path(__file__).parents[2] / "docs/examples").glob("*.yaml"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
async def test_example_is_accepted(installed: ControlPlane, example: Path) -> None:
    said = await installed.kubectl("apply", "--dry-run=server", "--validate=strict", f"--filename={example}")
    assert "sharingpolicy.gpusharing.dev/" in said
