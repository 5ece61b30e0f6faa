"""Walls of claims that come and go, in whatever state an agent is when it dies."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from agent.settling.mortal import KilledError
from agent.walls.preparing import REF, TWO_GPUS, Agent, Claims, Ground, ground, offers, share, sharing_of, walled
from controller.api_server import serving
from gpusharing import sim
from gpusharing.agent.claims.reading import PrepareError
from gpusharing.agent.inspection import watch
from gpusharing.agent.state.models import GpuJournal
from gpusharing.api.sharing.device_settings import MemorySettings
from gpusharing.api.sharing.gpu_status import MemoryWallSupport
from gpusharing.api.sharing.offers import Enforcement, Interval, Offers
from gpusharing.nvidia.errors import SettingNotAppliedError
from gpusharing.sim import cdi, faults
from harness.eventually import eventually
from nvidia.nodes import uuid, with_walls

HELD = walled(["4096 Required", "16384 Required"])


@pytest.fixture
def node(tmp_path: Path) -> sim.SimNode:
    return with_walls(sim.create(tmp_path / "node", "H100-80GB:2", driver="615"))


@pytest.fixture
def claims() -> Claims:
    return Claims(*TWO_GPUS)


@pytest_asyncio.fixture
async def site(node: sim.SimNode, claims: Claims, tmp_path: Path) -> AsyncIterator[Ground]:
    packaged = tmp_path / "packaged"
    packaged.write_text("#!/bin/true")
    async with serving(claims.server()) as api, ground(node, api, packaged) as made:
        yield made


@pytest_asyncio.fixture
async def agent(site: Ground, tmp_path: Path) -> Agent:
    return await site.agent(tmp_path / "agent", offers())


def assert_held(agent: Agent) -> None:
    assert agent.limits() == HELD
    directories = [agent.state / "walls" / REF.uid / str(index) for index in (0, 1)]
    assert agent.hooks() == {REF.uid: [["gpusharing-wall", str(directory)] for directory in directories]}
    agent.assert_specs_lead_to_walls()


async def test_each_gpu_of_a_claim_has_its_wall(agent: Agent, node: sim.SimNode) -> None:
    prepared = await agent.preparer.prepare(REF)
    assert_held(agent)
    told = [device.settings.memory for device in prepared.devices]
    assert told == [MemorySettings(limit=limit, enforcement=Enforcement.REQUIRED) for limit in (4096, 16384)]
    assert (agent.state / "walls" / REF.uid / "1/wall").read_text() == (
        "claim=ml/train\n"
        f"gpu={uuid(node, 1)}\n"
        "limit=16384\nenforcement=Required\nseconds=60\n"
        "program=/usr/bin/nvidia-cdi-hook\nargument=nvidia-cdi-hook\nargument=apply-cuda-memory-limits\n"
        f"argument=--gpu-id\nargument={uuid(node, 1)}\n"
    )
    assert (agent.state / "bin/gpusharing-wall").read_text() == "#!/bin/true"
    await agent.preparer.unprepare(REF)
    agent.assert_nothing_is_left()


@pytest.mark.parametrize(
    ("result", "offered"),
    [
        pytest.param(share(0, device="gpu-0"), offers(), id="whole"),
        pytest.param(share(0, adminAccess=True), offers(), id="only looks"),
        pytest.param(share(0), offers(Enforcement.NONE), id="nobody is stopped"),
    ],
)
async def test_device_without_a_wall(agent: Agent, claims: Claims, result: dict[str, Any], offered: Offers) -> None:
    await agent.decide(offered)
    claims.results = (result,)
    await agent.preparer.prepare(REF)
    assert (agent.hooks(), agent.limits()) == ({REF.uid: [[]]}, {})


async def every_step(
    site: Ground, home: Path, error: type[BaseException], *, coming: bool
) -> AsyncIterator[tuple[Path, Agent]]:
    """Once for each step that is not the last: it went wrong there."""
    steps = 0
    while True:
        directory = home / str(steps)
        agent = await site.agent(directory, offers())
        if not coming:
            await agent.preparer.prepare(REF)
        site.fuse.left, site.fuse.error = steps, error
        try:
            await (agent.preparer.prepare(REF) if coming else agent.preparer.unprepare(REF))
        except (error, PrepareError):
            site.fuse.left = None
            agent.assert_specs_lead_to_walls()
            yield directory, agent
            steps += 1
        else:
            site.fuse.left = None
            break
        finally:
            site.fuse.left = None
    if coming:
        await agent.preparer.unprepare(REF)
    agent.assert_nothing_is_left()
    # The claim's record, its two walls and its spec, each before and after, at least.
    assert steps > 8


@pytest.mark.parametrize("coming", [True, False], ids=["coming", "going"])
async def test_killed_at_every_step(site: Ground, tmp_path: Path, *, coming: bool) -> None:
    async for directory, _ in every_step(site, tmp_path, KilledError, coming=coming):
        agent = await site.agent(directory, None)
        agent.assert_specs_lead_to_walls()
        assert set(agent.directories.claims()) == set(agent.cdi.claims()) == set(agent.records.claims)
        # Twice, as the kubelet may repeat everything.
        for _ in range(2):
            if coming:
                await agent.preparer.prepare(REF)
                assert_held(agent)
            else:
                await agent.preparer.unprepare(REF)
                agent.assert_nothing_is_left()
        await agent.preparer.unprepare(REF)
        agent.assert_nothing_is_left()


async def test_a_step_of_prepare_fails(site: Ground, tmp_path: Path) -> None:
    async for _, agent in every_step(site, tmp_path, SettingNotAppliedError, coming=True):
        # Nothing is kept of a claim that cannot be prepared, but what its record says: that is settled by the next.
        assert set(agent.directories.claims()) == set(agent.cdi.claims()) <= set(agent.records.claims)
        await agent.preparer.prepare(REF)
        assert_held(agent)
        await agent.preparer.unprepare(REF)
        agent.assert_nothing_is_left()


@pytest.mark.parametrize(
    "offered",
    [
        offers(Enforcement.REQUIRED, "80000Mi", Interval.LONG),
        offers(Enforcement.PREFERRED, "1Mi", Interval.LONG),
        offers(Enforcement.NONE, interval=Interval.LONG),
    ],
)
async def test_an_offer_that_changes_moves_no_wall(agent: Agent, tmp_path: Path, offered: Offers) -> None:
    await agent.preparer.prepare(REF)
    await agent.decide(offered, policy="other")
    await agent.recovery.follow()
    assert_held(agent)
    (claim,) = agent.records.claims.values()
    assert {device.settings.interval for device in claim.devices} == {Interval.LONG}
    # Not for the next agent, and not when the kubelet asks again.
    again = await agent.ground.agent(tmp_path / "agent", None)
    await again.preparer.prepare(REF)
    assert_held(again)


async def test_an_allocation_anew_under_the_same_uid_has_walls_of_its_own(agent: Agent, claims: Claims) -> None:
    await agent.preparer.prepare(REF)
    noted = agent.state / "walls" / REF.uid / "0/containers"
    noted.mkdir()
    (noted / "c1").write_text("/pods/c1")
    claims.results = (share(1, "8Gi"),)
    await agent.preparer.prepare(REF)
    assert agent.limits() == walled(["8192 Required"])
    assert agent.directories.containers(REF.uid, 0) == []


async def test_walls_are_mended_and_follow_the_toolkit(agent: Agent, node: sim.SimNode, tmp_path: Path) -> None:
    await agent.preparer.prepare(REF)
    orphan = agent.state / "walls/uid-of-nobody/0"
    orphan.mkdir(parents=True)
    wall = agent.state / "walls" / REF.uid / "0/wall"
    wall.write_text("half of i")
    (wall.with_name(".wall.4711.tmp")).write_text("hal")
    with_walls(node, hook="/opt/nvidia-cdi-hook")
    again = await agent.ground.agent(tmp_path / "agent", None)
    assert_held(again)
    assert "program=/opt/nvidia-cdi-hook\n" in wall.read_text()
    assert [path.name for path in wall.parent.iterdir()] == ["wall"]
    # With the toolkit gone, what is there stays: our hook finds out for each container.
    cdi.write_cdi_spec(node.cdi, node.gpus())
    again.walls.renew()
    await again.preparer.prepare(REF)
    assert_held(again)
    wall.unlink()
    with pytest.raises(PrepareError, match="request gpu-0: device gpu-0-timeslicing can have no memory wall: no CDI"):
        await again.preparer.prepare(REF)
    assert set(again.records.claims) == {REF.uid}


def no_cgroup2(node: sim.SimNode) -> None:
    (node.sys / "fs/cgroup/cgroup.controllers").unlink()


def no_toolkit(node: sim.SimNode) -> None:
    cdi.write_cdi_spec(node.cdi, node.gpus())


def no_limits(node: sim.SimNode) -> None:
    node.set_memory_limits_supported(uuid(node), supported=False)


def no_program(_: sim.SimNode) -> None:
    """See the test."""


IMPOSSIBLE = {
    no_cgroup2: "is not cgroup v2",
    no_toolkit: "it takes nvidia-container-toolkit 1.20.1",
    no_limits: "the driver has no memory limits for this GPU",
    no_program: "packaged is missing: build it",
}


@pytest.mark.parametrize("change", IMPOSSIBLE)
async def test_where_there_can_be_no_wall(
    site: Ground, claims: Claims, tmp_path: Path, change: Callable[[sim.SimNode], None]
) -> None:
    change(site.node)
    if change is no_program:
        site.packaged.unlink()
    claims.results = (share(0),)
    agent = await site.agent(tmp_path / "agent", offers())
    told = agent.gpus.published(uuid(site.node)).memory_wall
    assert not told.supported
    assert IMPOSSIBLE[change] in (told.reason or "")
    # Not offered, so that nothing is known of it.
    with pytest.raises(PrepareError, match="gpu-0-timeslicing is no longer offered"):
        await agent.preparer.prepare(REF)
    # Preferred: it is as if the policy had not asked for it, but for what is said of it.
    await agent.decide(offers(Enforcement.PREFERRED))
    prepared = await agent.preparer.prepare(REF)
    assert (agent.hooks(), agent.limits()) == ({REF.uid: [[]]}, {})
    (ignored,) = prepared.devices[0].settings.ignored
    assert ignored.startswith("memory 4096Mi: not enforced on this GPU (")
    assert IMPOSSIBLE[change] in ignored


async def test_prepare_sees_what_has_changed_since_the_last_look(agent: Agent, node: sim.SimNode) -> None:
    """A claim that was scheduled while walls could be built."""
    no_toolkit(node)
    with pytest.raises(PrepareError) as refused:
        await agent.preparer.prepare(REF)
    for part in ("claim ml/train: request gpu-0: policy walls requires", "apply-cuda-memory-limits", "delete the pod"):
        assert part in str(refused.value)
    agent.assert_nothing_is_left()
    with_walls(node)
    await agent.preparer.prepare(REF)
    assert_held(agent)


async def test_spec_that_no_wall_can_be_built_by(agent: Agent, node: sim.SimNode) -> None:
    spec = (node.cdi / cdi.FILE_NAME).read_text()
    (node.cdi / cdi.FILE_NAME).write_text(spec.replace('"--gpu-id"', json.dumps("--gpu-id\nlimit=81559")))
    with pytest.raises(PrepareError, match="gpu-0-timeslicing can have no memory wall: the CDI spec of GPU"):
        await agent.preparer.prepare(REF)
    agent.assert_nothing_is_left()


@pytest.mark.parametrize("ours", [True, False])
async def test_mig_mode_of_ours_is_no_obstacle(agent: Agent, node: sim.SimNode, *, ours: bool) -> None:
    """It goes off with the last claim that needs it, so what is offered for afterwards is the same."""
    gpu = uuid(node)
    if ours:
        agent.records.put_journal(gpu, GpuJournal(mig_mode=False))
    await agent.ground.hardware.set_mig_mode(gpu, enabled=True)
    support = await agent.walls.support(gpu)
    assert support.supported is ours
    assert (support.reason is None) is ours


async def test_gpu_that_is_lost_hides_nobodys_walls(agent: Agent, node: sim.SimNode) -> None:
    lost, other = uuid(node), uuid(node, 1)
    node.inject(faults.CallFails("nvmlDeviceGetMemoryLimits_v1", 15, gpu=lost))
    told = await agent.walls.supports([lost, other])
    assert not told[lost].supported
    assert told[other] == MemoryWallSupport(supported=True)


async def test_a_lost_record_that_cannot_be_written_waits_for_the_next_round(agent: Agent, tmp_path: Path) -> None:
    """A disk that is full makes no round that asks the API server begin the next one at once."""
    await agent.preparer.prepare(REF)
    (agent.state / "claims" / f"{REF.uid}.json").write_bytes(b"")
    again = await agent.ground.agent(tmp_path / "agent", None)
    assert again.records.lost_claims == {REF.uid}
    again.changed.clear()
    again.ground.fuse.left, again.ground.fuse.error = 0, OSError
    await again.recovery.readopt(sharing_of())
    assert again.records.lost_claims == {REF.uid}
    assert not again.changed.is_set()
    await again.recovery.readopt(sharing_of())
    assert (again.records.lost_claims, set(again.records.claims)) == (frozenset(), {REF.uid})


async def test_what_failed_after_the_record_was_written_is_built_in_the_next_round(
    agent: Agent, tmp_path: Path
) -> None:
    await agent.preparer.prepare(REF)
    (agent.state / "claims" / f"{REF.uid}.json").write_bytes(b"")
    shutil.rmtree(agent.state / "walls")
    (tmp_path / f"agent/cdi/gpusharing.dev-claim_{REF.uid}.json").unlink()
    again = await agent.ground.agent(tmp_path / "agent", None)
    again.ground.fuse.left, again.ground.fuse.error = 2, SettingNotAppliedError
    await again.recovery.readopt(sharing_of())
    assert (set(again.records.claims), again.limits(), again.cdi.claims()) == ({REF.uid}, {}, [])
    await again.recovery.finish()
    assert_held(again)


async def test_the_agent_looks_again_now_and_then(
    agent: Agent, node: sim.SimNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "_LISTEN_EVERY", 0.01)
    monkeypatch.setattr(watch, "_LOOK_EVERY", 0.01)
    await agent.preparer.prepare(REF)
    agent.changed.clear()
    looking = asyncio.create_task(agent.watch().run())

    async def sees(*, supported: bool, hook: str) -> None:
        told = agent.gpus.published(uuid(node)).memory_wall
        assert (told.supported, told.reason is None) == (supported, supported)
        assert f"program={hook}\n" in (agent.state / "walls" / REF.uid / "0/wall").read_text()
        assert agent.changed.is_set()

    no_toolkit(node)
    await eventually(lambda: sees(supported=False, hook="/usr/bin/nvidia-cdi-hook"))
    with_walls(node, hook="/opt/nvidia-cdi-hook")
    await eventually(lambda: sees(supported=True, hook="/opt/nvidia-cdi-hook"))
    # As another driver might say.
    node.inject(faults.CallFails("nvmlDeviceGetMemoryLimits_v1", 3))
    await eventually(lambda: sees(supported=False, hook="/opt/nvidia-cdi-hook"))
    looking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await looking
