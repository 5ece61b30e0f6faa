"""Objects that were stored under the definitions of the first release, under those of today."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio

from gpusharing.api.crd import DEFINITIONS
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.api.sharing.policy import SharingPolicy
from harness.controlplane import ControlPlane
from harness.eventually import eventually
from manifests.rendering import ROOT, as_list
from manifests.stored import FIRST_RELEASE, STORED, has_all_of

pytestmark = pytest.mark.cluster

PLURALS: Final = {definition.kind: definition.name for definition in DEFINITIONS}
MODELS: Final = {"NodeSharing": NodeSharing, "SharingPolicy": SharingPolicy}


def address(item: Any) -> tuple[str, str]:
    return PLURALS[item["kind"]], item["metadata"]["name"]


async def read(server: ControlPlane, item: Any) -> Any:
    return json.loads(await server.kubectl("get", *address(item), "--output=json"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(toolchain: Path) -> AsyncIterator[ControlPlane]:
    async with ControlPlane() as server:
        for definition in FIRST_RELEASE.glob("*.yaml"):
            await server.kubectl("apply", f"--filename={definition}")
        await server.kubectl("wait", "--for=condition=Established", "crd", "--all")
        yield server


async def test_nothing_is_lost_and_all_of_it_can_be_written_again(server: ControlPlane) -> None:
    await server.kubectl("create", "--validate=strict", "--filename=-", stdin=as_list(STORED))
    for item in STORED:
        patch = json.dumps({"status": item["status"]})
        await server.kubectl("patch", *address(item), "--subresource=status", "--type=merge", f"--patch={patch}")
    before = [await read(server, item) for item in STORED]
    for stored, item in zip(before, STORED, strict=True):
        assert has_all_of(stored["spec"], item["spec"])
        assert has_all_of(stored["status"], item["status"])

    await server.kubectl("apply", "--kustomize", ROOT / "crds")
    await eventually(lambda: accepts_what_is_new(server))
    for stored in before:
        found = await read(server, stored)
        # Beside that, only defaults of fields that are new.
        assert has_all_of(found, stored)
        MODELS[found["kind"]].model_validate(found)
        # As both programs do: a condition or a field more, and the rest as it is.
        await server.kubectl("replace", "--validate=strict", "--filename=-", stdin=json.dumps(found))
        status = {"status": found["status"] | {"conditions": found["status"].get("conditions", [])[:1]}}
        await server.kubectl(
            "patch", *address(found), "--subresource=status", "--type=merge", f"--patch={json.dumps(status)}"
        )


async def accepts_what_is_new(server: ControlPlane) -> None:
    """Today's definitions are served a moment after they were applied."""
    known = await server.kubectl("explain", "nodesharings.status.gpus.usableMemory")
    assert "usableMemory" in known
