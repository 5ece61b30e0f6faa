"""What others change or break under prepared claims: set right where that disturbs nobody, else told."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.conftest import settler_of
from agent.samples import prepared_claim, prepared_device
from gpusharing import sim
from gpusharing.agent.health.node_health import NodeHealth
from gpusharing.agent.settling import targets
from gpusharing.agent.state.models import PreparedClaim
from gpusharing.agent.state.records import Records
from gpusharing.api.sharing.device_settings import MpsSettings
from gpusharing.api.sharing.gpu_status import Reason
from gpusharing.nvidia.errors import InstanceMissingError, MpsError
from gpusharing.nvidia.facts import Inventory
from gpusharing.nvidia.hardware import Hardware
from gpusharing.nvidia.mps.daemon import MpsDaemon
from gpusharing.sim import cuda, faults
from harness.eventually import eventually
from harness.mounts import unmount_below

ONE_G, THREE_G = "gpu-0-mig-1g10gb-19-0", "gpu-0-mig-3g40gb-9-4"


@pytest.fixture
def gpu(node: sim.SimNode) -> str:
    return node.gpus()[0].uuid


@pytest.fixture
def mps_home() -> Iterator[Path]:
    home = Path(tempfile.mkdtemp(prefix="mps", dir="/tmp"))
    yield home
    unmount_below(home)
    shutil.rmtree(home)


def sharer(gpu: str, name: str) -> PreparedClaim:
    device = prepared_device("gpu-0-mps", uuid=gpu)
    mps = MpsSettings(memory=4096, threads=25, most_memory=20480, most_threads=50)
    return prepared_claim(name, device.model_copy(update={"settings": device.settings.model_copy(update={"mps": mps})}))


async def daemon_of(hardware: Hardware, directory: Path) -> MpsDaemon:
    daemon = await hardware.mps(directory)
    assert daemon is not None
    return daemon


async def test_dead_mps_daemon_is_started_anew_only_when_its_clients_have_gone(
    node: sim.SimNode, hardware: Hardware, records: Records, mps_home: Path, gpu: str
) -> None:
    settler = settler_of(hardware, records, mps_home)
    records.put_claim(sharer(gpu, "one"))
    await settler.settle(gpu)
    directory = mps_home / "gpu-0"
    before = await daemon_of(hardware, directory)

    options = cuda.Options(mps_pipe=directory / "clients", gpu="0")
    with cuda.running(node, options, node.environment()) as program:
        node.inject(faults.MpsKilled(directory / "pipe"))
        # Also by an agent that has just started, and again and again.
        for looking in (settler, settler_of(hardware, records, mps_home)):
            looking.forget()
            with pytest.raises(MpsError, match="is dead, and its servers"):
                await looking.settle(gpu)
            problem = looking.problem(gpu)
            assert problem is not None
            assert problem.reason is Reason.MPS_DOWN
            assert (await daemon_of(hardware, directory)).pid is None
            assert program.is_running()

    async def is_mended() -> None:
        try:
            await settler.settle(gpu)
        except MpsError as error:
            raise AssertionError from error

    await eventually(is_mended)
    assert settler.problem(gpu) is None
    after = await daemon_of(hardware, directory)
    assert after.answers
    assert after.pid != before.pid
    assert (after.threads, after.memory) == (before.threads, before.memory)

    # Nobody was connected: at once.
    node.inject(faults.MpsKilled(directory / "pipe"))
    settler.forget()
    await settler.settle(gpu)
    assert (await daemon_of(hardware, directory)).answers
    records.drop_claim("uid-one")
    await settler.settle(gpu)
    assert await hardware.mps(directory) is None


async def test_instance_that_somebody_destroyed_is_told_to_its_claim_and_not_made_anew(
    node: sim.SimNode, hardware: Hardware, records: Records, gpu: str
) -> None:
    settler = settler_of(hardware, records)
    for name, device_name in (("one", ONE_G), ("three", THREE_G)):
        records.put_claim(prepared_claim(name, prepared_device(device_name, uuid=gpu)))
    await settler.settle(gpu)
    for claim in list(records.claims.values()):
        (device,) = claim.devices
        place = targets.place_of(device.device)
        assert place is not None
        instance = await settler.mig_instance(gpu, place)
        entered = device.model_copy(update={"mig_uuid": instance.uuid})
        records.put_claim(claim.model_copy(update={"devices": (entered,)}))
    (one,), (three,) = (records.claims[uid].devices for uid in ("uid-one", "uid-three"))
    lost = targets.place_of(THREE_G)
    assert lost is not None
    await hardware.destroy_mig_instance(gpu, lost)

    health = NodeHealth(records, problem=settler.problem)
    health.record_inspection(Inventory(gpus=(await hardware.inventory()).gpus), [gpu])
    for _ in range(2):
        with pytest.raises(InstanceMissingError, match=f"{three.mig_uuid} of claims are gone: delete the pods"):
            await settler.settle(gpu)
        assert [finding.reason for finding in health.of_device(three)] == [Reason.INSTANCE_MISSING]
        # Its neighbour has nothing to fear, but nobody new comes beside it.
        assert health.of_device(one) == ()
        assert health.withheld(gpu, [ONE_G, THREE_G]) == dict.fromkeys((ONE_G, THREE_G), Reason.INSTANCE_MISSING)
        assert [instance.profile for instance in node.gpus()[0].gpu_instances] == ["1g.10gb"]

    records.drop_claim("uid-three")
    await settler.settle(gpu)
    assert health.withheld(gpu, [ONE_G, THREE_G]) == {}
    records.drop_claim("uid-one")
    await settler.settle(gpu)
    assert node.gpus()[0].gpu_instances == ()
    assert records.changed_gpus == []
