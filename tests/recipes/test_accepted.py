"""The real API server accepts what recipes say, by the tools' own definitions."""

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from harness.commands import CommandError
from harness.controlplane import ControlPlane
from harness.foreign_modules import Module
from harness.gpu_cluster import MANIFESTS
from recipes.definitions import TOOLS, definitions
from recipes.pages import NAMESPACE, PAGES, manifests

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="module")]

WITHOUT_DEFINITION = {"nim", "jupyterhub"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(toolchain: Path, foreign_modules: Mapping[Module, Path]) -> AsyncIterator[ControlPlane]:
    async with ControlPlane() as plane:
        listed = {"apiVersion": "v1", "kind": "List", "items": definitions(foreign_modules)}
        # Server-side: they are too large for the annotation of the last applied configuration.
        await plane.kubectl("apply", "--server-side", "--filename=-", stdin=json.dumps(listed))
        await plane.kubectl("apply", "--kustomize", MANIFESTS)
        await plane.kubectl("wait", "--for=condition=Established", "crd", "--all")
        await plane.kubectl("create", "namespace", NAMESPACE)
        await plane.kubectl("wait", "--for=create", "serviceaccount/default", f"--namespace={NAMESPACE}")
        yield plane


async def tried(plane: ControlPlane, manifest: Any) -> str:
    arguments = ("apply", "--dry-run=server", "--validate=strict", "--filename=-")
    return await plane.kubectl(*arguments, stdin=json.dumps(manifest))


@pytest.mark.parametrize("page", [page for page in PAGES if page not in WITHOUT_DEFINITION])
async def test_manifest_is_accepted(plane: ControlPlane, page: str) -> None:
    assert page in TOOLS or page == "vllm"
    for manifest in manifests(page):
        assert "server dry run" in await tried(plane, manifest)


async def test_what_a_tool_does_not_know_is_refused(plane: ControlPlane) -> None:
    """Otherwise the test before shows nothing."""
    for page in TOOLS:
        manifest = json.loads(json.dumps(manifests(page)[0]))
        manifest["spec"]["claimsOfMine"] = 1
        with pytest.raises(CommandError, match="claimsOfMine"):
            await tried(plane, manifest)
