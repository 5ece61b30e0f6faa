"""Time slices and compute modes on simulated GPUs, set and taken back by the agent's own code."""

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.conftest import run, settler_of
from agent.samples import prepared_claim, prepared_device
from agent.simulated_node import RecordEvent, reset
from gpusharing import sim
from gpusharing.agent.settling.drift import Drift
from gpusharing.agent.settling.settings import Settings
from gpusharing.agent.settling.targets import GpuTarget
from gpusharing.agent.state.models import GpuJournal, PreparedClaim
from gpusharing.agent.state.records import Records
from gpusharing.api.sharing.offers import Interval
from gpusharing.nvidia import smi
from gpusharing.nvidia.errors import HardwareError, NotSupportedError, SettingNotAppliedError
from gpusharing.nvidia.facts import Change
from gpusharing.nvidia.hardware import Hardware
from gpusharing.sim import ComputeMode, Quirk, Timeslice, faults
from harness.eventually import PATIENCE, eventually
from nvidia.nodes import opened

SLICES = {
    Interval.DEFAULT: Timeslice.DEFAULT,
    Interval.SHORT: Timeslice.SHORT,
    Interval.MEDIUM: Timeslice.MEDIUM,
    Interval.LONG: Timeslice.LONG,
}

Setting = tuple[Timeslice | None, ComputeMode]


def setting(node: sim.SimNode, index: int = 0) -> Setting:
    gpu = node.gpus()[index]
    return gpu.timeslice, gpu.compute_mode


def put_setting(node: sim.SimNode, value: Setting, index: int = 0) -> None:
    uuid = node.gpus()[index].uuid
    node.set_timeslice(uuid, value[0])
    node.set_compute_mode(uuid, value[1])


def claim(node: sim.SimNode, name: str, interval: Interval | None, *, index: int = 0) -> PreparedClaim:
    return prepared_claim(name, prepared_device(uuid=node.gpus()[index].uuid, interval=interval))


def uuid(node: sim.SimNode, index: int = 0) -> str:
    return node.gpus()[index].uuid


async def test_first_client_sets_the_interval_and_the_last_one_takes_it_back(
    node: sim.SimNode, hardware: Hardware, records: Records
) -> None:
    put_setting(node, (Timeslice.SHORT, ComputeMode.EXCLUSIVE_PROCESS))
    settler = settler_of(hardware, records)
    for name in ("one", "two"):
        records.put_claim(claim(node, name, Interval.LONG))
        await settler.settle(uuid(node))
        # A second client of a GPU in an exclusive mode would be refused by the driver.
        assert setting(node) == (Timeslice.LONG, ComputeMode.DEFAULT)
    records.drop_claim("uid-one")
    await settler.settle(uuid(node))
    assert setting(node) == (Timeslice.LONG, ComputeMode.DEFAULT)
    records.drop_claim("uid-two")
    await settler.settle(uuid(node))
    assert setting(node) == (Timeslice.SHORT, ComputeMode.EXCLUSIVE_PROCESS)
    assert records.changed_gpus == []
    # The neighbour was never touched.
    assert setting(node, 1) == (Timeslice.DEFAULT, ComputeMode.DEFAULT)


async def test_claim_without_a_wish_changes_nothing(node: sim.SimNode, hardware: Hardware, records: Records) -> None:
    put_setting(node, (Timeslice.MEDIUM, ComputeMode.PROHIBITED))
    records.put_claim(claim(node, "plain", None))
    await settler_of(hardware, records).settle(uuid(node))
    assert setting(node) == (Timeslice.MEDIUM, ComputeMode.PROHIBITED)
    assert records.changed_gpus == []


async def test_mps_takes_over_no_interval_that_could_not_be_restored(
    node: sim.SimNode, hardware: Hardware, records: Records, smi_script: RecordEvent
) -> None:
    put_setting(node, (Timeslice.SHORT, ComputeMode.DEFAULT))
    settings = Settings(hardware, records, Drift())
    await settings.settle(uuid(node), GpuTarget(interval=Interval.LONG))
    smi_script('case "$*" in *--set*) exit 9;; esac; exec "$REAL" "$@"')
    with pytest.raises(HardwareError):
        await settings.settle(uuid(node), GpuTarget())
    smi_script('exec "$REAL" "$@"')
    for _ in range(2):
        await settings.settle(uuid(node), GpuTarget(mps=True))
        assert setting(node) == (Timeslice.SHORT, ComputeMode.EXCLUSIVE_PROCESS)
    await settings.settle(uuid(node), GpuTarget())
    assert setting(node) == (Timeslice.SHORT, ComputeMode.DEFAULT)
    assert records.changed_gpus == []


async def test_who_only_looks_changes_nothing(node: sim.SimNode, hardware: Hardware, records: Records) -> None:
    device = prepared_device(uuid=uuid(node), interval=Interval.LONG, admin=True)
    records.put_claim(prepared_claim("watcher", device))
    await settler_of(hardware, records).settle(uuid(node))
    assert setting(node) == (Timeslice.DEFAULT, ComputeMode.DEFAULT)


async def test_what_is_right_already_starts_no_change(
    node: sim.SimNode, hardware: Hardware, records: Records, smi_script: RecordEvent
) -> None:
    smi_script('case "$*" in *--set*) exit 9;; esac; exec "$REAL" "$@"')
    records.put_claim(claim(node, "one", Interval.DEFAULT))
    await settler_of(hardware, records).settle(uuid(node))
    assert records.changed_gpus == []


intervals = st.sampled_from(list(Interval))
settings_before = st.tuples(
    st.sampled_from(list(Timeslice)), st.sampled_from([ComputeMode.DEFAULT, ComputeMode.EXCLUSIVE_PROCESS])
)
# Each step is a claim that comes or goes (a number), or a restart of the agent. While a GPU is shared its claims have
# one interval, which may change under them.
steps = st.lists(st.integers(0, 2) | st.just("restart") | intervals, min_size=1, max_size=10)


@given(before=settings_before, first=intervals, steps=steps)
def test_claims_come_and_go(
    installed_node: sim.SimNode,
    tmp_path_factory: pytest.TempPathFactory,
    before: Setting,
    first: Interval,
    steps: list[int | str | Interval],
) -> None:
    node = installed_node
    reset(node)
    put_setting(node, before)
    directory = tmp_path_factory.mktemp("state")

    async def main() -> None:
        hardware = Hardware(node.directory, sysfs_root=node.sys)
        await hardware.open()
        interval = first
        records = Records(directory)
        settler = settler_of(hardware, records)
        for step in [*steps, "leave"]:
            match step:
                case "restart":
                    records = Records(directory)
                    settler = settler_of(hardware, records)
                case "leave":
                    for uid in list(records.claims):
                        records.drop_claim(uid)
                case Interval():
                    interval = step
                    for held in list(records.claims.values()):
                        records.put_claim(claim(node, held.name, interval))
                case _ if f"uid-{step}" in records.claims:
                    records.drop_claim(f"uid-{step}")
                case _:
                    records.put_claim(claim(node, str(step), interval))
            await settler.settle(uuid(node))
            assert setting(node) == ((SLICES[interval], ComputeMode.DEFAULT) if records.claims else before)
        await hardware.close()

    run(main())


class CrashError(Exception):
    """The agent is killed."""


class Fuse:
    """Burns through at the n-th point at which a crash makes a difference."""

    def __init__(self, points: int) -> None:
        self.left = points

    def point(self) -> None:
        if self.left == 0:
            raise CrashError
        self.left -= 1


class MortalHardware(Hardware):
    fuse: Fuse

    async def set_compute_mode(self, uuid: str, mode: str) -> Change[str]:
        self.fuse.point()
        change = await super().set_compute_mode(uuid, mode)
        self.fuse.point()
        return change

    async def set_time_slice(self, uuid: str, interval: Interval) -> None:
        self.fuse.point()
        await super().set_time_slice(uuid, interval)
        self.fuse.point()


class MortalRecords(Records):
    fuse: Fuse

    def put_journal(self, uuid: str, journal: GpuJournal) -> None:
        self.fuse.point()
        super().put_journal(uuid, journal)
        self.fuse.point()


@pytest.mark.parametrize("coming", [True, False], ids=["coming", "going"])
async def test_crash_at_every_point(node: sim.SimNode, tmp_path: Path, *, coming: bool) -> None:
    """Wherever the agent dies, the next one ends with what the claims say, and then with what was there before."""
    before = (Timeslice.MEDIUM, ComputeMode.EXCLUSIVE_PROCESS)
    survived = False
    points = 0
    while not survived:
        put_setting(node, before)
        directory = tmp_path / str(points)
        hardware = MortalHardware(node.directory, sysfs_root=node.sys)
        await hardware.open()
        records = MortalRecords(directory)
        hardware.fuse = records.fuse = Fuse(10_000)
        if not coming:
            records.put_claim(claim(node, "one", Interval.LONG))
            await settler_of(hardware, records).settle(uuid(node))
            records.drop_claim("uid-one")
        else:
            records.put_claim(claim(node, "one", Interval.LONG))
        hardware.fuse = records.fuse = Fuse(points)
        try:
            await settler_of(hardware, records).settle(uuid(node))
            survived = True
        except CrashError:
            points += 1

        hardware.fuse = Fuse(10_000)
        after = Records(directory)
        settler = settler_of(hardware, after)
        await settler.settle(uuid(node))
        assert setting(node) == ((Timeslice.LONG, ComputeMode.DEFAULT) if coming else before)
        after.drop_claim("uid-one")
        await settler.settle(uuid(node))
        assert setting(node) == before
        assert after.changed_gpus == []
        await hardware.close()
    # Journal, compute mode and time slice, each before and after.
    assert points == 6


async def test_setting_that_fails_is_a_problem_until_it_succeeds(
    node: sim.SimNode, hardware: Hardware, records: Records, smi_script: RecordEvent
) -> None:
    smi_script('case "$*" in *--set*) echo "Unable to: GPU is lost"; exit 15;; esac; exec "$REAL" "$@"')
    settler = settler_of(hardware, records)
    put_setting(node, (Timeslice.SHORT, ComputeMode.EXCLUSIVE_PROCESS))
    records.put_claim(claim(node, "one", Interval.LONG))
    with pytest.raises(HardwareError, match=f"compute-policy -i {uuid(node)} --set-timeslice 3: exit code 15: Unable"):
        await settler.settle(uuid(node))
    problem = settler.problem(uuid(node))
    assert problem is not None
    assert "GPU is lost" in problem.message
    # The claim is given up; the half that succeeded is taken back, which needs no time slice.
    records.drop_claim("uid-one")
    await settler.settle(uuid(node))
    assert setting(node) == (Timeslice.SHORT, ComputeMode.EXCLUSIVE_PROCESS)
    assert settler.problem(uuid(node)) is None

    smi_script('exec "$REAL" "$@"')
    records.put_claim(claim(node, "two", Interval.LONG))
    await settler.settle(uuid(node))
    assert setting(node) == (Timeslice.LONG, ComputeMode.DEFAULT)


async def test_gpu_that_cannot_be_set_back_now_is_set_back_later(
    node: sim.SimNode, hardware: Hardware, records: Records, smi_script: RecordEvent
) -> None:
    settler = settler_of(hardware, records)
    records.put_claim(claim(node, "one", Interval.LONG))
    await settler.settle(uuid(node))
    smi_script("exit 1")
    records.drop_claim("uid-one")
    with pytest.raises(HardwareError, match="no output"):
        await settler.settle(uuid(node))
    assert records.changed_gpus == [uuid(node)]
    smi_script('exec "$REAL" "$@"')
    await settler.settle(uuid(node))
    assert setting(node) == (Timeslice.DEFAULT, ComputeMode.DEFAULT)
    assert records.changed_gpus == []


@contextmanager
def patience(monkeypatch: pytest.MonkeyPatch, seconds: float) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setattr(smi, "TIMEOUT", seconds)
        yield


@pytest.mark.parametrize(
    "script",
    [
        "exec sleep 60",
        "sleep 60; true",
        "trap '' TERM INT; while :; do sleep 60; done",
        # It keeps the output open when all others are dead: as unwaitable as a process that is stuck in the driver.
        """setsid sh -c 'echo $$ >"$0.pid"; exec sleep 60' "$0"; true""",
    ],
    ids=["sleeps", "has a child", "ignores signals", "outlives SIGKILL"],
)
async def test_nvidia_smi_that_hangs_is_given_up(  # noqa: PLR0917 (fixtures)
    node: sim.SimNode,
    hardware: Hardware,
    records: Records,
    smi_script: RecordEvent,
    monkeypatch: pytest.MonkeyPatch,
    script: str,
) -> None:
    smi_script(script)
    records.put_claim(claim(node, "one", Interval.LONG))
    started = time.monotonic()
    with patience(monkeypatch, 0.2), pytest.raises(HardwareError, match="no answer within"):
        await settler_of(hardware, records).settle(uuid(node))
    assert time.monotonic() - started < 30
    # If it came so far.
    with suppress(FileNotFoundError):
        os.kill(int(node.nvidia_smi.with_suffix(".pid").read_text()), signal.SIGKILL)


@pytest.mark.parametrize("how", ["absent", "not executable", "not a program"])
async def test_nvidia_smi_that_cannot_be_run_is_the_hardwares_fault(
    node: sim.SimNode, hardware: Hardware, records: Records, smi_script: RecordEvent, how: str
) -> None:
    """During an upgrade of the driver, say. Anything but a HardwareError would end the agent."""
    match how:
        case "absent":
            node.nvidia_smi.unlink()
        case "not executable":
            node.nvidia_smi.chmod(0o644)
        case _:
            node.nvidia_smi.write_bytes(b"\x7fELF nonsense")
    records.put_claim(claim(node, "one", Interval.LONG))
    settler = settler_of(hardware, records)
    try:
        with pytest.raises(HardwareError, match="nvidia-smi"):
            await settler.settle(uuid(node))
    finally:
        smi_script('exec "$REAL" "$@"')
    await settler.settle(uuid(node))
    assert setting(node) == (Timeslice.LONG, ComputeMode.DEFAULT)


async def test_gpu_without_a_time_slice(node: sim.SimNode, hardware: Hardware, records: Records) -> None:
    put_setting(node, (None, ComputeMode.EXCLUSIVE_PROCESS))
    settler = settler_of(hardware, records)
    records.put_claim(claim(node, "one", Interval.LONG))
    with pytest.raises(NotSupportedError, match=r"(?s)--set-timeslice 3: .* Not Supported: use interval Default"):
        await settler.settle(uuid(node))
    records.drop_claim("uid-one")
    await settler.settle(uuid(node))
    assert setting(node) == (None, ComputeMode.EXCLUSIVE_PROCESS)

    records.put_claim(claim(node, "two", Interval.DEFAULT))
    await settler.settle(uuid(node))
    assert setting(node) == (None, ComputeMode.DEFAULT)
    records.drop_claim("uid-two")
    await settler.settle(uuid(node))
    assert setting(node) == (None, ComputeMode.EXCLUSIVE_PROCESS)


async def test_changes_by_others_are_undone_when_the_hardware_is_asked_anew(
    node: sim.SimNode, hardware: Hardware, records: Records
) -> None:
    settler = settler_of(hardware, records)
    records.put_claim(claim(node, "one", Interval.LONG))
    await settler.settle(uuid(node))
    put_setting(node, (Timeslice.SHORT, ComputeMode.EXCLUSIVE_PROCESS))
    settler.forget()
    await settler.settle(uuid(node))
    assert setting(node) == (Timeslice.LONG, ComputeMode.DEFAULT)
    # What was there before the agent is what it goes back to, not what somebody did meanwhile.
    records.drop_claim("uid-one")
    await settler.settle(uuid(node))
    assert setting(node) == (Timeslice.DEFAULT, ComputeMode.DEFAULT)


async def test_look_at_a_gpu_that_a_claim_comes_to_remembers_nothing_wrong(
    node: sim.SimNode, hardware: Hardware, records: Records, smi_script: RecordEvent, tmp_path: Path
) -> None:
    """The round reads the old value, the claim sets a new one, and only then the round remembers what it read."""
    first, go = tmp_path / "first", tmp_path / "go"
    smi_script(
        f'case "$*" in *-l) if mkdir {first} 2>/dev/null; then "$REAL" "$@"; while [ ! -e {go} ]; do sleep 0.01; done;'
        ' exit; fi;; esac; exec "$REAL" "$@"'
    )
    settler = settler_of(hardware, records)
    due = asyncio.create_task(settler.settle_due({uuid(node)}, within=PATIENCE))

    async def reading() -> None:
        assert first.exists()

    await eventually(reading)
    records.put_claim(claim(node, "one", Interval.LONG))

    async def prepare() -> None:
        async with settler.gates.hold({uuid(node)}, "a claim comes"):
            await settler.settle(uuid(node))

    preparing = asyncio.create_task(prepare())
    await asyncio.wait({preparing}, timeout=0.3)
    go.touch()
    await asyncio.gather(due, preparing)
    assert setting(node) == (Timeslice.LONG, ComputeMode.DEFAULT)

    records.drop_claim("uid-one")
    await settler.settle(uuid(node))
    assert setting(node) == (Timeslice.DEFAULT, ComputeMode.DEFAULT)


async def test_one_gpu_that_hangs_does_not_hold_up_its_neighbour(
    node: sim.SimNode, hardware: Hardware, records: Records, smi_script: RecordEvent, monkeypatch: pytest.MonkeyPatch
) -> None:
    smi_script(f'case "$*" in *{uuid(node)}*) exec sleep 60;; esac; exec "$REAL" "$@"')
    settler = settler_of(hardware, records)
    records.put_claim(claim(node, "one", Interval.LONG))
    records.put_claim(claim(node, "two", Interval.LONG, index=1))
    with patience(monkeypatch, 3):
        stuck = asyncio.create_task(settler.settle(uuid(node)))
        await settler.settle(uuid(node, 1))
        assert not stuck.done()
        assert setting(node, 1) == (Timeslice.LONG, ComputeMode.DEFAULT)
        with pytest.raises(HardwareError):
            await stuck


@pytest.fixture
def unreadable(tmp_path: Path) -> sim.SimNode:
    return sim.create(tmp_path / "node", "H100-80GB", quirks=Quirk.TIMESLICE_UNREADABLE)


async def test_time_slice_that_cannot_be_read_is_set_all_the_same(unreadable: sim.SimNode, records: Records) -> None:
    """And goes back to what every driver begins with."""
    node = unreadable
    async with opened(node) as hardware:
        settler = settler_of(hardware, records)
        assert (await settler.current(uuid(node))).time_slice is None
        records.put_claim(claim(node, "one", Interval.LONG))
        await settler.settle(uuid(node))
        assert setting(node) == (Timeslice.LONG, ComputeMode.DEFAULT)
        assert (await settler.current(uuid(node))).time_slice is Interval.LONG

        # Others may have changed it, or not: that is no reason to say so.
        put_setting(node, (Timeslice.SHORT, ComputeMode.DEFAULT))
        settler.forget()
        await settler.settle(uuid(node))
        assert setting(node) == (Timeslice.LONG, ComputeMode.DEFAULT)
        assert settler.drift.repaired["settings"] == 0

        records.drop_claim("uid-one")
        await settler.settle(uuid(node))
        assert setting(node) == (Timeslice.DEFAULT, ComputeMode.DEFAULT)
        assert records.changed_gpus == []


async def test_time_slice_costs_one_program_for_each_change(
    node: sim.SimNode, hardware: Hardware, records: Records, smi_script: RecordEvent, tmp_path: Path
) -> None:
    smi_script(f'echo "$4" >> {tmp_path}/runs; exec "$REAL" "$@"')
    settler = settler_of(hardware, records)
    # As the report does, long before the claim comes.
    await settler.current(uuid(node))
    records.put_claim(claim(node, "one", Interval.LONG))
    await settler.settle(uuid(node))
    await settler.settle(uuid(node))
    records.drop_claim("uid-one")
    await settler.settle(uuid(node))
    assert (tmp_path / "runs").read_text().split() == ["-l", "--set-timeslice", "--set-timeslice"]


async def test_time_slice_that_is_never_set_is_noticed_at_the_next_look(
    node: sim.SimNode, hardware: Hardware, records: Records
) -> None:
    settler = settler_of(hardware, records)
    node.inject(faults.CallLies("gpusharingSimSetTimeslice"))
    records.put_claim(claim(node, "one", Interval.LONG))
    await settler.settle(uuid(node))
    settler.forget()
    with pytest.raises(SettingNotAppliedError, match=r"set time slice Long .* but it reports time slice Default"):
        await settler.settle(uuid(node))
    assert settler.problem(uuid(node)) is not None
    assert settler.drift.repaired["settings"] == 0
    node.clear()
    await settler.settle(uuid(node))
    assert setting(node) == (Timeslice.LONG, ComputeMode.DEFAULT)
    assert settler.problem(uuid(node)) is None
