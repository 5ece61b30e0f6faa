"""An API server for tests that need neither scheduler nor kubelet: the embedded one, in a moment, or the real one."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
import yaml

from gpusharing.demo.apiserver import EmbeddedApiServer
from gpusharing.kube import client_credentials
from gpusharing.kube.transport import open_session
from harness.controlplane import ControlPlane
from harness.eventually import eventually
from harness.scratch import scratch_directory

CRDS: Final = Path(__file__).parents[2] / "crds"

EMBEDDED: Final = "embedded"
REAL: Final = "real"
EITHER: Final = (EMBEDDED, pytest.param(REAL, marks=pytest.mark.cluster))
"""Parameters of a fixture: its tests run on both, and on the first without a build of Kubernetes."""


@dataclass(frozen=True)
class EmbeddedControlPlane:
    """What tests ask of a control plane, as far as the embedded server has it. Each of its users may do everything."""

    server: EmbeddedApiServer
    directory: Path
    address: str = "127.0.0.1"

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def kubeconfig(self) -> Path:
        return self.server.kubeconfig

    async def service_account_kubeconfig(self, namespace: str, name: str, *, node: str | None = None) -> Path:
        return self.server.add_user(
            f"system:serviceaccount:{namespace}:{name}",
            "system:serviceaccounts",
            f"system:serviceaccounts:{namespace}",
            "system:authenticated",
            extra={"authentication.kubernetes.io/node-name": (node,)} if node else None,
        )


AnyControlPlane = ControlPlane | EmbeddedControlPlane


@asynccontextmanager
async def api_server(which: str) -> AsyncIterator[AnyControlPlane]:
    if which == REAL:
        async with ControlPlane() as control_plane:
            yield control_plane
        return
    with scratch_directory() as directory, _loop_of_its_own() as loop:
        server = EmbeddedApiServer(directory)
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(server.__aenter__(), loop))
        try:
            yield EmbeddedControlPlane(server, directory)
        finally:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(server.__aexit__(None, None, None), loop))


@contextmanager
def _loop_of_its_own() -> Iterator[asyncio.AbstractEventLoop]:
    """Each test has a loop of its own, and while it runs, that of its module stands still."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="embedded API server")
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def apply_manifests(control_plane: AnyControlPlane, directory: Path) -> None:
    """A kustomization, and its definitions are served."""
    if isinstance(control_plane, ControlPlane):
        await control_plane.kubectl("apply", "--kustomize", directory)
        await control_plane.kubectl("wait", "--for=condition=Established", "crd", "--all")
    else:
        await apply_kustomization(control_plane.kubeconfig, directory)


async def apply_kustomization(kubeconfig: Path, directory: Path) -> None:
    """As `kubectl apply --server-side --kustomize`, of one that only lists files."""
    await apply(kubeconfig, *_listed(directory))


async def apply(kubeconfig: Path, *items: Any) -> None:
    """Returns when all definitions among them are served."""
    credentials = await client_credentials.load(kubeconfig)
    async with open_session(credentials) as session:
        client = _Applier(session, credentials.server.rstrip("/"))
        for item in items:
            await client.apply(item)


@dataclass(frozen=True)
class _Applier:
    session: aiohttp.ClientSession
    url: str

    async def apply(self, item: Any) -> None:
        path = await self._path(item)
        headers = {"Content-Type": "application/apply-patch+yaml"}
        query = "?fieldManager=tests&force=true"
        async with self.session.patch(f"{self.url}{path}{query}", data=json.dumps(item), headers=headers) as response:
            assert response.ok, await response.text()
        if item["kind"] == "CustomResourceDefinition":
            await eventually(lambda: self._is_served(path))

    async def _is_served(self, path: str) -> None:
        async with self.session.get(f"{self.url}{path}") as response:
            conditions = (await response.json())["status"].get("conditions") or ()
        assert {one["type"]: one["status"] for one in conditions}.get("Established") == "True"

    async def _path(self, item: Any) -> str:
        version = item["apiVersion"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        async with self.session.get(f"{self.url}{root}") as response:
            served = (await response.json())["resources"]
        resource = next(one for one in served if one["kind"] == item["kind"] and "/" not in one["name"])
        metadata = item["metadata"]
        place = f"/namespaces/{metadata['namespace']}" if resource["namespaced"] else ""
        return f"{root}{place}/{resource['name']}/{metadata['name']}"


def _listed(directory: Path) -> Iterator[Any]:
    kustomization = yaml.safe_load((directory / "kustomization.yaml").read_text())
    for name in kustomization["resources"]:
        path = directory / name
        if path.is_dir():
            yield from _listed(path)
        else:
            yield from (item for item in yaml.safe_load_all(path.read_text()) if item)
