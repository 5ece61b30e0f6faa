"""What others change of what we have set is put right, and counted: that, and nothing else."""

import os
import signal
from pathlib import Path

import pytest

from agent.conftest import settler_of
from agent.samples import prepared_claim, prepared_device
from agent.simulated_node import RecordEvent
from gpusharing import sim
from gpusharing.agent.settling.drift import Drifted
from gpusharing.agent.settling.settler import Settler
from gpusharing.agent.state.models import PreparedClaim
from gpusharing.agent.state.records import Records
from gpusharing.api.names import MigPlace
from gpusharing.api.sharing.device_settings import MpsSettings
from gpusharing.api.sharing.offers import Interval
from gpusharing.core.publishing.mig_at_rest import Cut
from gpusharing.nvidia.errors import HardwareError
from gpusharing.nvidia.hardware import Hardware
from harness.eventually import eventually
from nvidia.nodes import opened

NONE = {what.value: 0 for what in Drifted}
PLACE = MigPlace(19, 3)


def claim(uuid: str, name: str = "one", interval: Interval = Interval.LONG) -> PreparedClaim:
    return prepared_claim(name, prepared_device(uuid=uuid, interval=interval))


async def look_again(settler: Settler, uuid: str) -> dict[str, int]:
    """As after a rescan. What has been put right until then."""
    settler.forget()
    await settler.settle(uuid)
    await settler.rest(uuid)
    return dict(settler.drift.repaired)


async def test_settings(node: sim.SimNode, hardware: Hardware, records: Records) -> None:
    uuid = node.gpus()[0].uuid
    settler = settler_of(hardware, records)
    records.put_claim(claim(uuid))
    assert await look_again(settler, uuid) == NONE
    assert await look_again(settler, uuid) == NONE
    node.set_timeslice(uuid, sim.Timeslice.SHORT)
    # The report may have seen it before it is put right.
    settler.forget()
    await settler.current(uuid)
    await settler.settle(uuid)
    assert settler.drift.repaired == NONE | {"settings": 1}
    node.set_compute_mode(uuid, sim.ComputeMode.PROHIBITED)
    assert await look_again(settler, uuid) == NONE | {"settings": 2}
    assert await look_again(settler, uuid) == NONE | {"settings": 2}

    # What claims change is no drift, nor what others do while nobody holds the GPU.
    records.put_claim(claim(uuid, interval=Interval.MEDIUM))
    assert await look_again(settler, uuid) == NONE | {"settings": 2}
    records.drop_claim("uid-one")
    assert await look_again(settler, uuid) == NONE | {"settings": 2}
    node.set_timeslice(uuid, sim.Timeslice.SHORT)
    assert await look_again(settler, uuid) == NONE | {"settings": 2}
    records.put_claim(claim(uuid, "two", interval=Interval.MEDIUM))
    assert await look_again(settler, uuid) == NONE | {"settings": 2}
    records.drop_claim("uid-two")
    assert await look_again(settler, uuid) == NONE | {"settings": 2}


async def test_what_an_agent_that_was_killed_has_left_is_no_drift(
    node: sim.SimNode, hardware: Hardware, records: Records
) -> None:
    uuid = node.gpus()[0].uuid
    records.put_claim(claim(uuid))
    await settler_of(hardware, records).settle(uuid)
    node.set_timeslice(uuid, sim.Timeslice.SHORT)
    assert await look_again(settler_of(hardware, records), uuid) == NONE
    records.drop_claim("uid-one")
    await settler_of(hardware, records).settle(uuid)


async def test_mps_daemons(node: sim.SimNode, hardware: Hardware, records: Records, mps_home: Path) -> None:
    uuid = node.gpus()[0].uuid
    settler = settler_of(hardware, records, mps_home)
    device = prepared_device("gpu-0-mps", uuid=uuid)
    mps = device.settings.model_copy(update={"mps": MpsSettings(memory=8192, threads=25, most_threads=50)})
    records.put_claim(prepared_claim("one", device.model_copy(update={"settings": mps})))
    assert settler.mps_daemons == 0
    assert await look_again(settler, uuid) == NONE
    assert await look_again(settler, uuid) == NONE
    assert settler.mps_daemons == 1
    settler.forget()
    # Nobody has said that it is gone.
    assert settler.mps_daemons == 1

    daemon = await hardware.mps(mps_home / "gpu-0")
    assert daemon is not None
    assert daemon.pid is not None
    os.kill(daemon.pid, signal.SIGKILL)

    async def is_dead() -> None:
        assert await hardware.mps(mps_home / "gpu-0") is None

    await eventually(is_dead)
    assert await look_again(settler, uuid) == NONE | {"mps_daemon": 1}
    assert await look_again(settler, uuid) == NONE | {"mps_daemon": 1}

    assert settler.mps_daemons == 1
    records.drop_claim("uid-one")
    await settler.settle(uuid)
    assert settler.mps_daemons == 0
    assert settler.drift.repaired == NONE | {"mps_daemon": 1}


async def test_mig_instances_of_a_layout(tmp_path: Path) -> None:
    node = sim.create(tmp_path / "node", "H100-80GB")
    uuid = node.gpus()[0].uuid
    async with opened(node) as hardware:
        records = Records(tmp_path / "state")
        settler = settler_of(hardware, records, at_rest=Cut(places=frozenset({PLACE})))
        assert await look_again(settler, uuid) == NONE
        await hardware.destroy_mig_instance(uuid, PLACE)
        assert await look_again(settler, uuid) == NONE | {"mig_instance": 1}
        assert await look_again(settler, uuid) == NONE | {"mig_instance": 1}
        assert [one.start for one in node.gpus()[0].gpu_instances] == [PLACE.start]


async def test_what_cannot_be_put_right_is_not_counted(
    node: sim.SimNode, hardware: Hardware, records: Records, smi_script: RecordEvent
) -> None:
    uuid = node.gpus()[0].uuid
    settler = settler_of(hardware, records)
    records.put_claim(claim(uuid))
    await settler.settle(uuid)
    node.set_timeslice(uuid, sim.Timeslice.SHORT)
    smi_script('case "$*" in *--set*) exit 9;; esac; exec "$REAL" "$@"')
    with pytest.raises(HardwareError):
        await look_again(settler, uuid)
    assert settler.drift.repaired == NONE
    smi_script('exec "$REAL" "$@"')
    records.drop_claim("uid-one")
    await settler.settle(uuid)
