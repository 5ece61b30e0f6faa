"""GPUs that are time-sliced, cut, shared by MPS or had whole: they become so and are as before afterwards, however
often the agent is killed on the way."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from agent.conftest import settler_of
from agent.samples import prepared_claim, prepared_device
from agent.settling.mortal import Fuse, KilledError, MortalHardware, MortalRecords
from agent.simulated_node import reset
from gpusharing import sim
from gpusharing.agent.state.models import PreparedClaim
from gpusharing.agent.state.records import Records
from gpusharing.api.sharing.device_settings import MpsSettings
from gpusharing.api.sharing.offers import Interval
from gpusharing.nvidia.errors import SettingNotAppliedError
from gpusharing.nvidia.hardware import Hardware
from gpusharing.nvidia.mps import processes
from gpusharing.nvidia.mps.directory import MpsDirectory
from gpusharing.sim import ComputeMode, MigMode, Timeslice
from harness.eventually import eventually
from harness.mounts import daemons_in

Mortal = tuple[MortalHardware, Fuse]

ONE_G, THREE_G = "gpu-0-mig-1g10gb-19-0", "gpu-0-mig-3g40gb-9-4"
SHARED = MpsSettings(memory=8192, threads=25, most_memory=20480, most_threads=50)


@pytest.fixture
def gpu(node: sim.SimNode) -> str:
    return node.gpus()[0].uuid


@pytest_asyncio.fixture
async def mortal(node: sim.SimNode) -> AsyncIterator[tuple[MortalHardware, Fuse]]:
    fuse = Fuse()
    hardware = MortalHardware(node.directory, sysfs_root=node.sys, proc_root=node.proc, dev_root=node.dev, fuse=fuse)
    await hardware.open()
    yield hardware, fuse
    await hardware.close()


def claims_of(kind: str, gpu: str) -> list[PreparedClaim]:
    def one(name: str, device: str, **settings: Any) -> PreparedClaim:
        mps = settings.pop("mps", None)
        prepared = prepared_device(device, uuid=gpu, **settings)
        return prepared_claim(
            name, prepared.model_copy(update={"settings": prepared.settings.model_copy(update={"mps": mps})})
        )

    match kind:
        case "whole":
            return [one("a", "gpu-0")]
        case "whole, time-sliced":
            return [one("a", "gpu-0", interval=Interval.LONG)]
        case "whole, MPS":
            return [one("a", "gpu-0", mps=SHARED)]
        case "time-sliced":
            return [one(name, "gpu-0-timeslicing", interval=Interval.MEDIUM) for name in "ab"]
        case "MPS":
            return [one(name, "gpu-0-mps", mps=SHARED) for name in "ab"]
        case "MIG":
            return [one("a", ONE_G), one("b", THREE_G)]
    raise ValueError(kind)


KINDS = ("whole", "whole, time-sliced", "whole, MPS", "time-sliced", "MPS", "MIG")


def seen(node: sim.SimNode) -> dict[str, object]:
    gpu = node.gpus()[0]
    return {
        "time slice": gpu.timeslice,
        "compute mode": gpu.compute_mode,
        "MIG": gpu.mig_mode,
        "instances": {(one.profile, one.start) for one in gpu.gpu_instances},
    }


BEFORE = {"time slice": Timeslice.SHORT, "compute mode": ComputeMode.PROHIBITED}
EXPECTED: dict[str, dict[str, object]] = {
    "whole": {},
    "whole, time-sliced": {"time slice": Timeslice.LONG, "compute mode": ComputeMode.DEFAULT},
    "whole, MPS": {"compute mode": ComputeMode.EXCLUSIVE_PROCESS},
    "time-sliced": {"time slice": Timeslice.MEDIUM, "compute mode": ComputeMode.DEFAULT},
    "MPS": {"compute mode": ComputeMode.EXCLUSIVE_PROCESS},
    "MIG": {
        "instances": {("1g.10gb", 0), ("3g.40gb", 4)},
        "MIG": MigMode(current=True, pending=True),
    },
}
DAEMONS = {"MPS": ["gpu-0"], "whole, MPS": ["uid-a"]}


class Story:
    """Claims of one kind come to a GPU and leave it again, with an agent that something happens to on the way."""

    def __init__(self, node: sim.SimNode, mortal: Mortal, kind: str, *, states: Path, mps_home: Path) -> None:
        self.node = node
        self.hardware, self.fuse = mortal
        self.gpu = node.gpus()[0].uuid
        self.kind = kind
        self.claims = claims_of(kind, self.gpu)
        self.states = states
        self.mps_home = mps_home
        self.records = Records(states)
        self.settler = settler_of(self.hardware, self.records, mps_home)
        self.before: dict[str, object] = {}

    def begin(self, number: int, *, coming: bool) -> None:
        self.node.set_timeslice(self.gpu, Timeslice.SHORT)
        self.node.set_compute_mode(self.gpu, ComputeMode.PROHIBITED)
        self.before = seen(self.node)
        self.restart(number)
        self.coming = coming

    def restart(self, number: int) -> None:
        """The next agent, with what the one before has left on disk."""
        self.fuse.left = None
        self.records = MortalRecords(self.states / str(number), proc_root=self.node.proc, fuse=self.fuse)
        self.settler = settler_of(self.hardware, self.records, self.mps_home)

    def come(self) -> None:
        for claim in self.claims:
            self.records.put_claim(claim)

    def leave(self) -> None:
        for claim in self.claims:
            self.records.drop_claim(claim.uid)

    async def until_step(self, steps: int, error: type[BaseException]) -> bool:
        """Whether it got to the end."""
        self.come()
        if not self.coming:
            await self.settler.settle(self.gpu)
            self.leave()
        self.fuse.left, self.fuse.error = steps, error
        try:
            await self.settler.settle(self.gpu)
        except error:
            return False
        finally:
            self.fuse.left = None
        return True

    def assert_held(self) -> None:
        assert seen(self.node) == self.before | EXPECTED[self.kind]
        assert self.daemons() == DAEMONS.get(self.kind, [])

    def assert_as_before(self) -> None:
        assert seen(self.node) == self.before
        assert self.daemons() == []
        assert self.records.changed_gpus == []

    async def until_all_processes_have_died(self) -> None:
        """Those of the simulation notice a reboot by themselves."""

        async def check() -> None:
            assert processes.with_mark(MpsDirectory(self.mps_home / "any").mark().partition(" ")[0]) == []

        await eventually(check)

    def daemons(self) -> list[str]:
        return daemons_in(self.mps_home)


@pytest.fixture(params=KINDS)
def story(
    node: sim.SimNode, mortal: Mortal, tmp_path: Path, mps_home: Path, request: pytest.FixtureRequest
) -> Iterator[Story]:
    yield Story(node, mortal, request.param, states=tmp_path, mps_home=mps_home)
    reset(node)


async def every_step(story: Story, error: type[BaseException], *, coming: bool) -> AsyncIterator[int]:
    """Once for each step that is not the last: it went wrong there."""
    steps = 0
    while True:
        story.begin(steps, coming=coming)
        if await story.until_step(steps, error):
            break
        yield steps
        steps += 1
    story.leave()
    await story.settler.settle(story.gpu)
    story.assert_as_before()
    assert (steps > 0) == (story.kind != "whole")


COMING = pytest.mark.parametrize("coming", [True, False], ids=["coming", "going"])


@COMING
async def test_killed_at_every_step(story: Story, *, coming: bool) -> None:
    async for step in every_step(story, KilledError, coming=coming):
        story.restart(step)
        # Twice, as everything may be repeated.
        for _ in range(2):
            await story.settler.settle(story.gpu)
            if coming:
                story.assert_held()
            else:
                story.assert_as_before()
        story.leave()
        await story.settler.settle(story.gpu)
        story.assert_as_before()


@COMING
async def test_a_change_fails_at_every_step(story: Story, *, coming: bool) -> None:
    """Before it has happened, or after it: the driver says no, or lies."""
    async for _ in every_step(story, SettingNotAppliedError, coming=coming):
        assert story.settler.problem(story.gpu)
        # A claim that cannot be prepared is given up; what is to be undone is tried again.
        story.leave()
        await story.settler.settle(story.gpu)
        story.assert_as_before()
        assert story.settler.problem(story.gpu) is None


@COMING
async def test_the_node_reboots_at_every_step(story: Story, *, coming: bool) -> None:
    async for step in every_step(story, KilledError, coming=coming):
        story.node.reboot()
        await story.until_all_processes_have_died()
        await story.hardware.reopen()
        story.before = seen(story.node)
        story.restart(step)
        await story.settler.settle(story.gpu)
        # Nothing is set for claims of before, until the kubelet asks for them again.
        story.assert_as_before()
        if coming:
            story.come()
            await story.settler.settle(story.gpu)
            story.assert_held()
            story.leave()
            await story.settler.settle(story.gpu)
        story.assert_as_before()


async def test_mps_after_mig_that_was_looked_at(
    node: sim.SimNode, hardware: Hardware, records: Records, mps_home: Path, gpu: str
) -> None:
    """While a GPU is cut it has no compute mode; who remembers that, would let clients past the daemon later."""
    settler = settler_of(hardware, records, mps_home)
    for kind in ("MIG", "MPS"):
        for claim in claims_of(kind, gpu):
            records.put_claim(claim)
        await settler.settle(gpu)
        settler.forget()
        await settler.current(gpu)
        for_this = seen(node)["compute mode"]
        for claim in claims_of(kind, gpu):
            records.drop_claim(claim.uid)
        await settler.settle(gpu)
    assert for_this is ComputeMode.EXCLUSIVE_PROCESS
    assert seen(node)["compute mode"] is ComputeMode.DEFAULT
