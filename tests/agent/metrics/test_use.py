"""What containers use of their GPUs, told by the processes that the driver lists and the mounts that these have."""

import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from agent.metrics.pages import samples_of
from agent.samples import prepared_claim, prepared_device
from gpusharing import sim
from gpusharing.agent.containers import of_processes
from gpusharing.agent.containers.of_processes import ContainerClaims
from gpusharing.agent.metrics import catalogue, use
from gpusharing.agent.metrics.exposition import Metric
from gpusharing.agent.metrics.use import ClaimUse
from gpusharing.agent.state.models import MetadataMount
from gpusharing.agent.state.records import Records
from gpusharing.agent.steps import InternalErrors, Steps
from gpusharing.agent.walls.claim_walls import Walls
from gpusharing.api import names
from gpusharing.api.names import MigPlace
from gpusharing.api.sharing.device_settings import DeviceSettings, MpsSettings
from gpusharing.nvidia.cdi_specs import CdiSpecs
from gpusharing.nvidia.hardware import Hardware
from gpusharing.sim import Quirk, faults, store
from gpusharing.sim.state import NONE, ProcessKind
from nvidia.nodes import opened, uuid

GIB = 1024**3
SHARE, MPS, HALF = "gpu-0-timeslicing", "gpu-0-mps", names.mig_device(0, "3g.40gb", MigPlace(9, 0))
OTHER_HALF = names.mig_device(0, "3g.40gb", MigPlace(9, 4))

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root")


class Place:
    """A node with prepared claims and their containers."""

    def __init__(self, node: sim.SimNode, hardware: Hardware, directory: Path) -> None:
        self.node = node
        self.hardware = hardware
        self.records = Records(directory / "state", proc_root=node.proc)
        self.metadata = directory / "metadata of claims"
        self.metadata.mkdir()
        self._mounted = directory / "mounted"
        self._mounted.touch()
        walls = Walls(hardware, self.records, CdiSpecs(()), state=directory / "state", packaged=directory / "none")
        claims = ContainerClaims(self.metadata)
        self.use = ClaimUse(
            node="n1",
            hardware=hardware,
            records=self.records,
            walls=walls,
            claims=claims,
            cgroups=directory,
            steps=Steps(InternalErrors()),
        )

    def prepare(self, name: str, *devices: str, gpu: int = 0, told: bool = True, mig: dict[str, str] = {}) -> None:  # noqa: B006
        mount = MetadataMount(file=str(self.file(name)), path="/var/run/metadata.json") if told else None
        settings = {one: DeviceSettings(request="gpu", device=one, mps=MpsSettings()) for one in devices if one == MPS}
        made = [
            prepared_device(one, uuid=uuid(self.node, gpu), metadata=mount, mig_uuid=mig.get(one)) for one in devices
        ]
        made = [one.model_copy(update={"settings": settings.get(one.device, one.settings)}) for one in made]
        self.records.put_claim(prepared_claim(name, *made))

    def file(self, claim: str) -> Path:
        path = self.metadata / f"uid-{claim}" / "gpu.json"
        path.parent.mkdir(exist_ok=True)
        path.touch()
        return path

    @contextmanager
    def container(self, *claims: str, of: Path | None = None) -> Iterator[int]:
        """The number of a process that has what these claims' containers have; `of`: or something else."""
        files = [self.file(claim) for claim in claims] + [of] * (of is not None)
        mounts = "".join(f"mount --bind '{file}' '{self._mounted}' && " for file in files)
        words = ["unshare", "--mount", "sh", "-c", f"{mounts} echo ready && exec sleep 600"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout
                assert process.stdout.readline() == "ready\n"
                yield process.pid
            finally:
                process.kill()

    def run(self, pid: int, memory: int, utilization: int, device: str = "", kind: str = "COMPUTE") -> None:
        """It takes so many GiB, and so many percent of the time."""
        where = device or uuid(self.node)
        self.node.start_process(where, pid, memory * GIB, ProcessKind[kind], utilization=utilization)

    async def told(self, metric: Metric) -> dict[str, float]:
        """By claim; by claim and device where it has several."""
        await self.use.look()
        found = samples_of(self.use.families, metric)
        claims = [sample.labels["claim"] for sample in found]
        return {
            name if claims.count(name) == 1 else f"{name} {sample.labels['device']}": sample.value
            for sample, name in zip(found, claims, strict=True)
        }

    async def memory(self) -> dict[str, float]:
        return {claim: used / GIB for claim, used in (await self.told(catalogue.CLAIM_MEMORY_USED)).items()}

    async def utilization(self) -> dict[str, float]:
        return await self.told(catalogue.CLAIM_SM_UTILIZATION)


@pytest.fixture
def quirks() -> Quirk:
    return Quirk(0)


@pytest_asyncio.fixture
async def place(tmp_path: Path, quirks: Quirk, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Place]:
    monkeypatch.setattr(use, "_FRESH", 0)
    node = sim.create(tmp_path / "node", "H100-80GB:2", quirks=quirks)
    async with opened(node) as hardware:
        yield Place(node, hardware, tmp_path)


@pytest.mark.parametrize("device", ["gpu-0", SHARE, MPS])
async def test_each_claim_has_what_its_containers_use(place: Place, device: str) -> None:
    for claim in ("a", "b", "idle"):
        place.prepare(claim, device)
    kind = "MPS_CLIENT" if device == MPS else "COMPUTE"
    with place.container("a") as first, place.container("a") as second, place.container("b") as third:
        for pid, memory, utilization in ((first, 1, 30), (second, 2, 20), (third, 4, 10)):
            place.run(pid, memory, utilization, kind=kind)
        # In no container of ours.
        place.run(1, 8, 0)
        assert await place.memory() == {"a": 3, "b": 4, "idle": 0}
        assert await place.utilization() == {"a": 0.5, "b": pytest.approx(0.1), "idle": 0}
    assert await place.told(catalogue.CLAIM_MEMORY_LIMIT) == {}


async def test_mig_instances_of_one_claim_and_of_two(place: Place) -> None:
    gpu = uuid(place.node)
    await place.hardware.set_mig_mode(gpu, enabled=True)
    made = [await place.hardware.create_mig_instance(gpu, MigPlace(9, start)) for start in (0, 4)]
    half, other = (change.now.uuid for change in made if change.now)
    assert half
    assert other
    place.prepare("both", HALF, OTHER_HALF, mig={HALF: half, OTHER_HALF: other})
    place.prepare("elsewhere", SHARE, gpu=1)
    with place.container("both") as first, place.container("both") as second:
        place.run(first, 1, 90, half)
        place.run(second, 2, 10, other)
        assert await place.memory() == {f"both {HALF}": 1, f"both {OTHER_HALF}": 2, "elsewhere": 0}
        # The driver does not know it of instances, and of them alone.
        assert await place.utilization() == {"elsewhere": 0}


async def test_one_process_in_two_lists_counts_once(place: Place) -> None:
    place.prepare("draws", "gpu-0")
    with place.container("draws") as pid:
        place.run(pid, 1, 10, kind="GRAPHICS")
        with store.locked(place.node.state) as state:
            again = state.gpus[0].processes[1]
            again.pid, again.kind, again.memory = pid, ProcessKind.COMPUTE, GIB
            again.gpu_instance = again.compute_instance = NONE
        assert await place.memory() == {"draws": 1}


async def test_a_container_with_two_claims_on_one_gpu_uses_the_first(place: Place) -> None:
    place.prepare("a", SHARE)
    place.prepare("b", SHARE)
    with place.container("b", "a") as pid:
        place.run(pid, 1, 10)
        assert await place.memory() == {"a": 1, "b": 0}


async def test_two_shares_of_one_device_are_one(place: Place) -> None:
    place.prepare("twice", SHARE, SHARE)
    with place.container("twice") as pid:
        place.run(pid, 1, 10)
        assert await place.memory() == {"twice": 1}


async def test_nobody_speaks_for_another_claim(place: Place, tmp_path: Path) -> None:
    """A tenant mounts volumes with any path, at any path."""
    place.prepare("victim", SHARE)
    forged = tmp_path / "pods/volumes" / place.file("victim").relative_to("/")
    forged.parent.mkdir(parents=True)
    forged.touch()
    with place.container(of=forged) as pid:
        place.run(pid, 1, 90)
        assert await place.memory() == {"victim": 0}
        assert await place.utilization() == {"victim": 0}


def mounts_of(pid: int) -> bytes:
    return Path(f"/proc/{pid}/mountinfo").read_bytes()


async def test_whoever_mounts_without_end_is_not_read_without_end(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.prepare("a", SHARE)
    place.prepare("b", SHARE)
    with place.container("a") as pid, place.container("b") as other:
        place.run(pid, 1, 10)
        place.run(other, 2, 10)
        monkeypatch.setattr(of_processes, "_MOST", mounts_of(pid).index(b"uid-a"))
        # Its last mount is not seen any more, and that of nobody else is taken for it.
        assert await place.memory() == {"a": 0, "b": 0}


async def test_what_cannot_be_told_is_not_said_to_be_nothing(place: Place) -> None:
    """Containers of an older agent's claims have no files of ours."""
    place.prepare("old", SHARE, told=False)
    place.prepare("new", SHARE)
    assert (await place.memory(), await place.utilization()) == ({"new": 0}, {"new": 0})


@pytest.mark.parametrize("quirks", [Quirk.ODD_SAMPLES])
async def test_work_that_the_driver_counts_for_the_server_is_nobodys(place: Place) -> None:
    place.prepare("client", MPS)
    place.prepare("other", MPS)
    place.run(1, 1, 0)
    with place.container("client") as pid:
        place.run(pid, 1, 30, kind="MPS_CLIENT")
        assert await place.memory() == {"client": 1, "other": 0}
        # Not 0: that would be somebody who holds a GPU and leaves it idle.
        assert await place.utilization() == {}


@pytest.mark.parametrize("quirks", [Quirk.ODD_SAMPLES])
async def test_samples_of_any_number(place: Place) -> None:
    place.prepare("a", SHARE)
    with place.container("a") as pid:
        place.run(pid, 1, 30)
        assert await place.utilization() == {"a": 0.3}


async def test_what_the_driver_does_not_say_is_missing_alone(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.prepare("a", SHARE)
    place.prepare("b", "gpu-1", gpu=1)
    place.node.inject(faults.CallFails("nvmlDeviceGetProcessUtilization", 999, gpu=uuid(place.node)))
    assert (await place.memory(), await place.utilization()) == ({"a": 0, "b": 0}, {"b": 0})
    place.node.clear()
    monkeypatch.setattr(use, "_PATIENCE", 0.5)
    place.node.inject(faults.CallHangs("nvmlDeviceGetComputeRunningProcesses", 2, gpu=uuid(place.node)))
    assert (await place.memory(), await place.utilization()) == ({"b": 0}, {"b": 0})


async def test_admin_access_is_nobodys_share(place: Place) -> None:
    place.records.put_claim(prepared_claim("admin", prepared_device(SHARE, uuid=uuid(place.node), admin=True)))
    assert await place.memory() == {}
