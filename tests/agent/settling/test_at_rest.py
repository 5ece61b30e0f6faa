"""GPUs that are cut to stay so: at whatever step the agent is killed, there is the layout, or what there was before."""

from contextlib import suppress
from pathlib import Path

import pytest

from agent.conftest import settler_of
from agent.samples import prepared_claim, prepared_device
from agent.settling.mortal import Fuse, KilledError, MortalHardware, MortalRecords
from gpusharing import sim
from gpusharing.agent.settling.settler import Settler
from gpusharing.agent.state.records import Records
from gpusharing.api.names import MigPlace
from gpusharing.api.sharing.device_settings import MpsSettings
from gpusharing.core.publishing.mig_at_rest import AS_IT_IS, Cut
from gpusharing.nvidia.errors import (
    MigModePendingError,
    NoRoomError,
    ResetRequiredError,
)
from gpusharing.sim import ComputeMode, faults
from nvidia.nodes import calls_of, opened, opened_as

CUT = Cut(places=frozenset({MigPlace(19, 3), MigPlace(9, 4)}))
INSTANCES = {("1g.10gb", 3), ("3g.40gb", 4)}


def instances(node: sim.SimNode) -> set[tuple[str, int]]:
    return {(one.profile, one.start) for one in node.gpus()[0].gpu_instances}


def enabled(node: sim.SimNode) -> bool:
    mode = node.gpus()[0].mig_mode
    assert mode is not None
    return mode.current


@pytest.fixture
def h100(tmp_path: Path) -> sim.SimNode:
    return sim.create(tmp_path / "node", "H100-80GB")


@pytest.fixture
def a100(tmp_path: Path) -> sim.SimNode:
    return sim.create(tmp_path / "node", "A100-40GB")


async def settle(settler: Settler, uuid: str) -> bool:
    await settler.settle(uuid)
    return await settler.rest(uuid)


async def test_a_layout_is_cut_kept_and_taken_away(h100: sim.SimNode, tmp_path: Path) -> None:
    uuid = h100.gpus()[0].uuid
    async with opened(h100) as hardware:
        records = Records(tmp_path / "state")
        cut = settler_of(hardware, records, at_rest=CUT)
        assert await settle(cut, uuid)
        made = h100.gpus()[0].gpu_instances
        assert instances(h100) == INSTANCES
        # Nothing is done twice, also not by the next agent.
        for settler in (cut, settler_of(hardware, Records(tmp_path / "state"), at_rest=CUT)):
            assert not await settle(settler, uuid)
        assert h100.gpus()[0].gpu_instances == made
        await settle(settler_of(hardware, records), uuid)
        assert (instances(h100), enabled(h100), records.changed_gpus) == (set(), False, [])


async def test_a_claim_has_an_instance_of_the_layout_and_leaves_it(h100: sim.SimNode, tmp_path: Path) -> None:
    uuid = h100.gpus()[0].uuid
    async with opened(h100) as hardware:
        records = Records(tmp_path / "state")
        settler = settler_of(hardware, records, at_rest=CUT)
        await settle(settler, uuid)
        made = h100.gpus()[0].gpu_instances
        claim = prepared_claim("a", prepared_device("gpu-0-mig-3g40gb-9-4", uuid=uuid))
        records.put_claim(claim)
        await settle(settler, uuid)
        assert h100.gpus()[0].gpu_instances == made
        records.drop_claim(claim.uid)
        await settle(settler, uuid)
        assert h100.gpus()[0].gpu_instances == made


async def test_an_instance_that_somebody_destroyed_is_made_again(h100: sim.SimNode, tmp_path: Path) -> None:
    uuid = h100.gpus()[0].uuid
    async with opened(h100) as hardware:
        settler = settler_of(hardware, Records(tmp_path / "state"), at_rest=CUT)
        await settle(settler, uuid)
        await hardware.destroy_mig_instance(uuid, MigPlace(9, 4))
        assert await settle(settler, uuid)
        assert instances(h100) == INSTANCES


async def test_a_layout_that_does_not_fit_changes_nothing(h100: sim.SimNode, tmp_path: Path) -> None:
    uuid = h100.gpus()[0].uuid
    async with opened(h100) as hardware:
        settler = settler_of(hardware, Records(tmp_path / "state"), at_rest=Cut(problem="the layout does not fit"))
        with pytest.raises(NoRoomError, match="the layout does not fit: ask for fewer or smaller instances"):
            await settle(settler, uuid)
        trouble = settler.problem(uuid)
        assert trouble is not None
        assert "the layout does not fit" in trouble.message
        assert (instances(h100), enabled(h100)) == (set(), False)


@pytest.mark.parametrize("cutting", [True, False], ids=["cutting", "taking away"])
@pytest.mark.parametrize("reboot", [False, True], ids=["killed", "rebooted"])
async def test_killed_at_every_step(h100: sim.SimNode, tmp_path: Path, *, cutting: bool, reboot: bool) -> None:
    await _at_every_step(h100, tmp_path, before=AS_IT_IS if cutting else CUT, then=CUT if cutting else AS_IT_IS,
                         reboot=reboot)  # fmt: skip


@pytest.mark.parametrize("switching_on", [True, False], ids=["on", "off"])
@pytest.mark.parametrize("reboot", [False, True], ids=["killed", "rebooted"])
async def test_a_mode_that_outlives_reboots(
    a100: sim.SimNode, tmp_path: Path, *, switching_on: bool, reboot: bool
) -> None:
    modes = (AS_IT_IS, Cut(mig_mode=True))
    before, then = modes if switching_on else (modes[1], Cut(mig_mode=False))
    await _at_every_step(a100, tmp_path, before=before, then=then, reboot=reboot)


async def _at_every_step(node: sim.SimNode, states: Path, *, before: Cut, then: Cut, reboot: bool) -> None:
    uuid = node.gpus()[0].uuid
    fuse = Fuse()
    for step in range(1000):
        async with opened_as(MortalHardware, node, fuse=fuse) as hardware:

            def restarted(step: int = step) -> MortalRecords:
                return MortalRecords(states / str(step), proc_root=node.proc, fuse=fuse)

            await settle(settler_of(hardware, restarted(), at_rest=before), uuid)
            fuse.left, fuse.error = step, KilledError
            with suppress(KilledError):
                await settle(settler_of(hardware, restarted(), at_rest=then), uuid)
            came_through = fuse.left is not None
            fuse.left = None
            if reboot and not came_through:
                node.reboot()
                await hardware.reopen()
            await settle(settler_of(hardware, restarted(), at_rest=then), uuid)
            assert instances(node) == (INSTANCES if then.places else set()), step
            assert enabled(node) == bool(then.places or then.mig_mode), step
            # Where nothing is wanted any more, it is as it was found.
            records = restarted()
            undone = Cut(mig_mode=records.gpu(uuid).mig_mode_found)
            await settle(settler_of(hardware, records, at_rest=undone), uuid)
            assert (instances(node), enabled(node)) == (set(), False), step
            assert (records.changed_gpus, records.gpu(uuid).mig_mode_found) == ([], None), step
        if came_through:
            assert step > 1
            return


async def test_a_reset_that_fails_is_not_tried_again_at_every_turn(a100: sim.SimNode, tmp_path: Path) -> None:
    uuid = a100.gpus()[0].uuid
    async with opened(a100) as hardware:
        settler = settler_of(hardware, Records(tmp_path / "state"), at_rest=Cut(mig_mode=True))
        a100.inject(faults.HeldOpen(uuid))
        with calls_of(hardware) as functions:
            for _ in range(3):
                with pytest.raises(MigModePendingError):
                    await settle(settler, uuid)
        assert functions.count("nvmlDeviceSetMigMode") == 1
        a100.clear()
        # As after each look at the hardware.
        settler.forget()
        await settle(settler, uuid)
        assert enabled(a100)


async def test_behind_an_nvswitch_it_is_left_to_people(a100: sim.SimNode, tmp_path: Path) -> None:
    switch = a100.sys / "bus/pci/devices/0000:c4:00.0"
    switch.mkdir(parents=True)
    (switch / "vendor").write_text("0x10de\n")
    (switch / "class").write_text("0x068000\n")
    uuid = a100.gpus()[0].uuid
    async with opened(a100) as hardware:
        settler = settler_of(hardware, Records(tmp_path / "state"), at_rest=Cut(mig_mode=True))
        with pytest.raises(ResetRequiredError, match="run nvidia-smi --mig 1 on the node and reboot it"):
            await settle(settler, uuid)
        assert not enabled(a100)


async def test_mps_after_a_start_with_mig_mode_on(h100: sim.SimNode, tmp_path: Path, mps_home: Path) -> None:
    """The compute mode cannot be seen while MIG is on, and must be set all the same afterwards."""
    uuid = h100.gpus()[0].uuid
    async with opened(h100) as hardware:
        records = Records(tmp_path / "state")
        await settle(settler_of(hardware, records, at_rest=CUT), uuid)
        settler = settler_of(hardware, records, mps_home)
        assert (await settler.current(uuid)).compute_mode is None
        share = prepared_device("gpu-0-mps", uuid=uuid)
        share = share.model_copy(update={"settings": share.settings.model_copy(update={"mps": MpsSettings()})})
        records.put_claim(prepared_claim("a", share))
        await settler.settle(uuid)
        assert h100.gpus()[0].compute_mode is ComputeMode.EXCLUSIVE_PROCESS
        records.drop_claim("uid-a")
        await settler.settle(uuid)
