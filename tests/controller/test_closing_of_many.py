"""A policy with tenants on a hundred nodes with idle GPUs, with the real defaults: operator and API server are real,
agents are played."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from building import gpu_status
from controller.bed import Everybody, Operator, eventually, everybody, install
from gpusharing.api import names
from gpusharing.api.sharing.gpu_status import GpuStatus, PublishedDevice
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.api.sharing.node_spec import GpuSharing
from gpusharing.api.sharing.node_status import NodeSharingStatus
from gpusharing.kube.clock import now_precisely
from gpusharing.kube.kinds import NODE_SHARINGS
from harness.controlplane import ControlPlane

pytestmark = pytest.mark.cluster

NODES: Final = 100
WITHIN: Final = 120.0
"""Seconds. The goal is 30 s on a machine that does nothing else (docs/performance.md); this runs beside other tests."""


async def test_all_are_in_force_soon(toolchain: Path) -> None:
    async with ControlPlane() as control_plane:
        await install(control_plane)
        operator = await Operator.of(control_plane)
        async with everybody(control_plane) as they, operator.killed_at_end(), _agents(they):
            for number in range(NODES):
                name = f"n{number:03}"
                gpus = tuple(_open(gpu_status(slot, node=name), name) for slot in range(8))
                report = NodeSharingStatus(observed_generation=1, gpus=gpus)
                await they.make_node(name, report=report)
            began = time.monotonic()
            tenants = {"namespaces": {"matchLabels": {"team": "search"}}}
            await they.apply_policy("search", tenants=tenants, offers={"exclusive": {}})
            await eventually(lambda: they.ready_reason("search"), "Ready", within=WITHIN)
            seconds = time.monotonic() - began
            print(f"policy with tenants in force on {NODES} nodes after {seconds:.1f} s")
            sharings, _ = await they.api.list(NODE_SHARINGS)
            assert {gpu.pool for one in sharings for gpu in one.status.gpus} == {
                f"n{number:03}/search" for number in range(NODES)
            }
            assert await operator.metric('gpusharing_closing_guard_entries{state="withdrawn"}') >= NODES
            assert await operator.metric("gpusharing_closing_guard_oldest_seconds") == 0


@asynccontextmanager
async def _agents(they: Everybody) -> AsyncIterator[None]:
    task = asyncio.create_task(_act(they))
    yield
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def _act(they: Everybody) -> None:
    """What idle GPUs publish follows what the operator writes, one step at a time."""
    _, version = await they.api.list(NODE_SHARINGS)
    async for event, value in they.api.watch(NODE_SHARINGS, version):
        if event == "MODIFIED":
            sharing = NODE_SHARINGS.from_json(value)
            gpus = _acted(sharing)
            if gpus != sharing.status.gpus:
                status = sharing.status.model_copy(update={"gpus": gpus})
                await they.report(sharing.metadata.name, status)


def _acted(sharing: NodeSharing) -> tuple[GpuStatus, ...]:
    decided = {gpu.uuid: gpu for gpu in sharing.spec.gpus}
    return tuple(
        _step(gpu, decided[gpu.uuid], sharing.metadata.name) if gpu.uuid in decided else gpu
        for gpu in sharing.status.gpus
    )


def _step(gpu: GpuStatus, decided: GpuSharing, node: str) -> GpuStatus:
    pool = names.pool(node, restricted_to=decided.restricted_to)
    if gpu.pool == pool:
        return gpu.model_copy(update={"policy": decided.policy})
    [published] = gpu.published
    if published.closing_since is None:
        closing = PublishedDevice(device=published.device, closing_since=now_precisely())
        return gpu.model_copy(update={"published": (closing,)})
    if (published.device, published.closing_since) in zip(
        decided.close_approved, decided.close_approved_since, strict=True
    ):
        return _open(gpu, pool).model_copy(update={"policy": decided.policy})
    return gpu


def _open(gpu: GpuStatus, pool: str) -> GpuStatus:
    device = PublishedDevice(device=names.whole_device(gpu.slot))
    return gpu.model_copy(update={"pool": pool, "published": (device,)})
