"""An agent's ears and eyes on simulated GPUs: what goes wrong is noticed, and forgotten when it is over."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from agent.conftest import settler_of
from agent.samples import prepared_device
from gpusharing import sim
from gpusharing.agent.health.node_health import NodeHealth
from gpusharing.agent.inspection import watch
from gpusharing.agent.inspection.survey import Survey
from gpusharing.agent.inspection.watch import Watch
from gpusharing.agent.publishing.node_gpus import NodeGpus
from gpusharing.agent.state.records import Records
from gpusharing.agent.walls.claim_walls import Walls
from gpusharing.api.names import MigPlace
from gpusharing.api.sharing.gpu_status import Reason
from gpusharing.core.publishing.gpu_health import NEWS_FOR
from gpusharing.nvidia.cdi_specs import CdiSpecs
from gpusharing.nvidia.hardware import Hardware
from gpusharing.sim import faults
from harness.eventually import eventually
from nvidia.nodes import SHORT, opened


@dataclass
class Clock:
    now: float = 0


@dataclass
class Watched:
    """A node with two GPUs, and an agent that watches them."""

    node: sim.SimNode
    health: NodeHealth
    clock: Clock

    @property
    def uuids(self) -> list[str]:
        return [gpu.uuid for gpu in self.node.gpus()]

    def withheld(self) -> list[str | None]:
        """Of each GPU, for which reason it is withheld as a whole."""
        names = [f"gpu-{slot}" for slot in range(len(self.uuids))]
        return [self.health.withheld(uuid, [name]).get(name) for uuid, name in zip(self.uuids, names, strict=True)]

    def told(self) -> list[list[Reason]]:
        return [[finding.reason for finding in self.health.findings(uuid)] for uuid in self.uuids]


async def begin(
    node: sim.SimNode, hardware: Hardware, directory: Path, *, ignored_xids: tuple[int, ...] = ()
) -> tuple[Watched, asyncio.Task[None]]:
    records = Records(directory, proc_root=node.proc)
    settler = settler_of(hardware, records)
    gpus = NodeGpus(records, node="n1")
    clock = Clock()
    health = NodeHealth(records, problem=settler.problem, ignored_xids=ignored_xids, clock=lambda: clock.now)
    watched = Watched(node, health, clock)
    walls = Walls(hardware, records, CdiSpecs(()), state=directory, packaged=directory / "absent")
    survey = Survey(hardware=hardware, walls=walls, gpus=gpus, health=watched.health, gates=settler.gates)
    await survey.take()
    watching = Watch(
        hardware=hardware,
        survey=survey,
        walls=walls,
        health=watched.health,
        settler=settler,
        on_change=lambda: None,
    )
    # What is reported before somebody listens is not told.
    await hardware.events()
    task = asyncio.create_task(watching.run())
    return watched, task


@pytest_asyncio.fixture
async def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Watched]:
    for name, seconds in (("_LISTEN_EVERY", 0.02), ("_LOOK_EVERY", 0.3), ("_LOOK_AT_MOST_EVERY", 0.1)):
        monkeypatch.setattr(watch, name, seconds)
    node = sim.create(tmp_path / "node", "H100-80GB:2")
    async with opened(node, patience=SHORT) as hardware:
        watched, task = await begin(node, hardware, tmp_path / "state")
        yield watched
        node.clear()
        task.cancel()
        await asyncio.wait({task})


Do = Callable[[sim.SimNode], None]


def on_first(fault: Callable[[str], faults.Fault]) -> Do:
    return lambda node: node.inject(fault(node.gpus()[0].uuid))


def reset(node: sim.SimNode) -> None:
    node.reset_gpu(node.gpus()[0].uuid)


WELL: Final = (None, None)
CASES: Final[dict[str, tuple[Do, tuple[str | None, str | None], Do]]] = {
    "lost": (on_first(faults.GpuLost), (Reason.LOST, None), sim.SimNode.clear),
    "silent": (
        on_first(lambda gpu: faults.CallFails("nvmlDeviceGetName", 999, gpu=gpu)),
        (Reason.NOT_RESPONDING, None),
        sim.SimNode.clear,
    ),
    "a driver that hangs": (
        lambda node: node.inject(faults.CallHangs("nvmlEventSetWait", 60)),
        (Reason.DRIVER_DOWN, Reason.DRIVER_DOWN),
        sim.SimNode.clear,
    ),
    "a driver that is gone": (
        sim.SimNode.unload_driver,
        (Reason.DRIVER_DOWN, Reason.DRIVER_DOWN),
        sim.SimNode.load_driver,
    ),
    "no spare memory": (
        on_first(lambda gpu: faults.RowRemapPending(gpu, failed=True)),
        (Reason.ROW_REMAP_FAILED, None),
        sim.SimNode.clear,
    ),
    "a reset is wanted": (on_first(faults.ResetNeeded), (Reason.RECOVERY_NEEDED, None), reset),
    "an error": (on_first(lambda gpu: faults.Xid(gpu, 48)), (Reason.FATAL_XID, None), sim.SimNode.reload_driver),
    "an error that needs a reset": (on_first(lambda gpu: faults.Xid(gpu, 48)), (Reason.FATAL_XID, None), reset),
}


@pytest.mark.parametrize(("begin_", "expected", "end"), CASES.values(), ids=CASES)
async def test_what_is_noticed_and_forgotten(
    watched: Watched, begin_: Do, expected: tuple[str | None, str | None], end: Do
) -> None:
    async def is_(wanted: tuple[str | None, str | None]) -> None:
        async def check() -> None:
            assert tuple(watched.withheld()) == wanted

        await eventually(check)

    await is_(WELL)
    for _ in range(2):
        begin_(watched.node)
        await is_(expected)
        # It stays so.
        await asyncio.sleep(0.5)
        await is_(expected)
        end(watched.node)
        await is_(WELL)
        assert not any(watched.told())


async def test_error_that_needs_no_recovery_withholds_nothing(watched: Watched) -> None:
    """Whatever the number; and where the driver changes its mind, the next inspection shows it."""
    uuid = watched.uuids[0]
    watched.node.inject(faults.Xid(uuid, 48, recovery=0))

    async def is_reported() -> None:
        assert watched.told() == [[Reason.MINOR_XID], []]

    await eventually(is_reported)
    assert tuple(watched.withheld()) == WELL
    watched.node.inject(faults.ResetNeeded(uuid))

    async def is_withheld() -> None:
        assert watched.withheld() == [Reason.RECOVERY_NEEDED, None]

    await eventually(is_withheld)


@pytest.mark.parametrize(
    ("driver", "ignored", "expected"),
    [
        ("550", (), Reason.FATAL_XID),
        ("550", (48,), None),
        ("580", (), Reason.FATAL_XID),
        # What the driver asks for is not ignored.
        ("580", (48,), Reason.RECOVERY_NEEDED),
    ],
)
async def test_administrator_ignores_xids(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    driver: str,
    ignored: tuple[int, ...],
    expected: Reason | None,
) -> None:
    monkeypatch.setattr(watch, "_LISTEN_EVERY", 0.02)
    node = sim.create(tmp_path / "node", "H100-80GB:2", driver=driver)
    async with opened(node) as hardware:
        watched, task = await begin(node, hardware, tmp_path / "state", ignored_xids=ignored)
        node.inject(faults.Xid(watched.uuids[0], 48))

        async def is_noticed() -> None:
            found = watched.told()[0]
            assert found
            assert watched.withheld() == [expected, None]

        await eventually(is_noticed)
        task.cancel()
        await asyncio.wait({task})
    # The next agent ignores also what an earlier one has remembered.
    async with opened(node) as hardware:
        watched, task = await begin(node, hardware, tmp_path / "state", ignored_xids=(48,))
        assert tuple(watched.withheld()) == WELL
        task.cancel()
        await asyncio.wait({task})


async def test_error_of_a_mig_instance_is_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_LISTEN_EVERY", 0.02)
    node = sim.create(tmp_path / "node", "H100-80GB", driver="550")
    gpu = node.gpus()[0].uuid
    failed, neighbour = "gpu-0-mig-3g40gb-9-4", "gpu-0-mig-1g10gb-19-0"
    async with opened(node) as hardware:
        await hardware.set_mig_mode(gpu, enabled=True)
        for place in (MigPlace(9, 4), MigPlace(19, 0)):
            await hardware.create_mig_instance(gpu, place)
        watched, task = await begin(node, hardware, tmp_path / "state")
        (instance,) = [each for each in node.gpus()[0].gpu_instances if each.start == 4]
        node.inject(faults.Xid(gpu, 48, gpu_instance=instance.id, compute_instance=0))

        async def is_noticed() -> None:
            assert watched.health.withheld(gpu, [failed, neighbour, "gpu-0"]) == dict.fromkeys(
                [failed, "gpu-0"], Reason.FATAL_XID
            )

        await eventually(is_noticed)
        for device, reasons in {failed: [Reason.FATAL_XID], neighbour: []}.items():
            found = watched.health.of_device(prepared_device(device, uuid=gpu))
            assert [finding.reason for finding in found] == reasons
        # An agent that starts now knows it, too.
        again = NodeHealth(Records(tmp_path / "state", proc_root=node.proc), problem=lambda _: None)
        again.record_inspection(await hardware.inventory(), [gpu])
        assert again.withheld(gpu, [failed, neighbour]) == {failed: Reason.FATAL_XID}
        task.cancel()
        await asyncio.wait({task})


async def test_news_of_a_program_get_old(watched: Watched) -> None:
    watched.node.inject(faults.Xid(watched.uuids[1], 31))

    async def is_told() -> None:
        assert watched.told() == [[], [Reason.PROGRAM_XID]]

    await eventually(is_told)
    assert tuple(watched.withheld()) == WELL
    assert watched.health.changes_at == NEWS_FOR
    watched.clock.now = NEWS_FOR + 1
    assert watched.told() == [[], []]


async def test_error_outlives_the_agent_and_not_the_boot(watched: Watched, tmp_path: Path) -> None:
    node = watched.node
    node.inject(faults.Xid(watched.uuids[0], 119))

    async def is_noticed() -> None:
        assert watched.withheld() == [Reason.FATAL_XID, None]

    await eventually(is_noticed)
    uuid = watched.uuids[0]
    again = Records(tmp_path / "state", proc_root=node.proc)
    assert [fault.xid for fault in again.history(uuid).faults] == [119]
    node.reboot()
    after = Records(tmp_path / "state", proc_root=node.proc)
    assert after.history(uuid).faults == ()
    assert list((tmp_path / "state/health").iterdir()) == []
