"""One agent in this process, and what the API server tells it of claims."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from agent.walls.preparing import NODE, Ground, ground
from building import DRIVER
from controller.api_server import Answer, ApiServer, Request, serving, status
from gpusharing import sim
from gpusharing.agent.claims.reading import ClaimRef
from harness.mounts import unmount_below
from nvidia.nodes import with_walls
from sim.mps_daemons import kill_programs_of

PATH = "/apis/resource.k8s.io/v1/namespaces/ml/resourceclaims/"


class Claims:
    """What the API server has, by name."""

    def __init__(self) -> None:
        self.devices: dict[str, list[dict[str, Any]]] = {}
        self.created: dict[str, str] = {}
        self.is_away = False
        self.reads = 0

    def answer(self, request: Request) -> Answer:
        name = request.path.removeprefix(PATH)
        self.reads += 1
        if self.is_away:
            return status(503, "ServiceUnavailable")
        if name not in self.devices:
            return status(404, "NotFound")
        results = [
            {"request": f"r{number}", "driver": DRIVER, "pool": NODE} | device
            for number, device in enumerate(self.devices[name])
        ]
        metadata = {"uid": f"uid-{name}", "namespace": "ml", "name": name, "resourceVersion": "1"}
        metadata["creationTimestamp"] = self.created.get(name, "2020-01-01T00:00:00Z")
        return 200, {"metadata": metadata, "status": {"allocation": {"devices": {"results": results}}}}

    def add(self, name: str, *devices: str, **more: Any) -> ClaimRef:
        """`more` is part of each allocation result."""
        self.devices[name] = [{"device": device} | more for device in devices]
        return ClaimRef(f"uid-{name}", "ml", name)


@pytest.fixture
def claims() -> Claims:
    return Claims()


@asynccontextmanager
async def site_with(gpus: str, directory: Path, claims: Claims) -> AsyncIterator[Ground]:
    node = with_walls(sim.create(directory / "node", gpus, driver="615"))
    packaged = directory / "packaged"
    packaged.write_text("#!/bin/true")
    try:
        async with serving(ApiServer(claims.answer)) as api, ground(node, api, packaged) as made:
            yield made
    finally:
        # Also those of a test that failed.
        kill_programs_of(node)
        unmount_below(directory)


@pytest_asyncio.fixture
async def site(tmp_path: Path, claims: Claims) -> AsyncIterator[Ground]:
    async with site_with("H100-80GB:4", tmp_path, claims) as made:
        yield made


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "agent"
