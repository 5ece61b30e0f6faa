"""What can happen to a node and its cluster, each with whom it may end.

A fault is there while its context is entered. It names the pods whose programs it may end, and no others may; once it
has gone, everything has to work again by itself.
"""

import asyncio
import os
import re
import shutil
import signal
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agent.on_cluster import SHARINGS
from chaos import hardware
from chaos.churn import STRANGERS, Witness
from chaos.scene import Scene
from gpusharing.api.names import CLEARED_FAULTS
from gpusharing.sim import ComputeMode
from gpusharing.sim import faults as sim_faults
from harness.etcd_copy import EtcdCopy, raise_revision
from harness.gpu_cluster import MANIFESTS
from harness.mounts import daemons_in
from harness.scratch import programs_below

Happening = Callable[[Scene], AbstractAsyncContextManager[None]]


@dataclass(frozen=True)
class Fault:
    name: str
    happen: Happening
    lasts: tuple[float, float]
    """Seconds, from and to."""
    back_within: float
    """So soon everything works after it has gone."""


FAULTS: Final[dict[str, Fault]] = {}

_MOMENT: Final = (0.0, 4.0)
_AT_EACH_LOOK: Final = 90.0
"""What is looked at once a minute, on a machine that is busy with other things."""
_WATCHES_BACK: Final = 120.0
"""After an outage of the API server, Kubernetes' own programs wait up to a minute before they watch again."""


def _fault(
    name: str, *, lasts: tuple[float, float] = _MOMENT, back_within: float = 60.0
) -> Callable[[Callable[[Scene], AsyncIterator[None]]], Happening]:
    def add(steps: Callable[[Scene], AsyncIterator[None]]) -> Happening:
        happen = asynccontextmanager(steps)
        FAULTS[name] = Fault(name, happen, lasts, back_within)
        return happen

    return add


# ------------------------------------------------------------------------------------------------------ programs

PROGRAMS: Final = ("agent", "operator", "kubelet", "containerd", "scheduler", "controller-manager", "API server")

for _name in PROGRAMS:

    def _killed(scene: Scene, name: str = _name) -> AbstractAsyncContextManager[None]:
        return scene.programs.down(name)

    _back_within = _WATCHES_BACK if _name == "API server" else 60.0
    FAULTS[f"{_name} killed"] = Fault(f"{_name} killed", _killed, _MOMENT, _back_within)


@_fault("API server away", lasts=(12, 30), back_within=_WATCHES_BACK)
async def _api_server_away(scene: Scene) -> AsyncIterator[None]:
    async with scene.programs.down("API server", cleanly=True):
        yield


@_fault("etcd put back", lasts=(3, 10), back_within=150)
async def _etcd_put_back(scene: Scene) -> AsyncIterator[None]:
    """To what it was some seconds ago. Then programs are restarted as Kubernetes' documentation asks."""
    before = set(scene.churn.present())
    # Pods that come or go while it is copied would be neither before nor after.
    scene.churn.pause()
    copy = EtcdCopy(scene.cluster)
    scene.churn.resume()
    yield
    scene.churn.pause()
    after = set(scene.churn.present())
    scene.may_end(lambda witness: witness in before ^ after or witness not in before)
    await raise_revision(scene.cluster, by=500)
    async with scene.programs.held("API server"):
        await copy.put_back(away=scene.dice.choice((0, 12)))
    for name in ("controller-manager", "scheduler", "kubelet"):
        async with scene.programs.down(name):
            pass
    scene.churn.resume()


# ------------------------------------------------------------------------------------------------------- reboots


@_fault("reboot", back_within=120)
async def _reboot(scene: Scene) -> AsyncIterator[None]:
    async with scene.switched_off(cleanly=True):
        scene.renew_cdi()
        yield


@_fault("power cut", back_within=120)
async def _power_cut(scene: Scene) -> AsyncIterator[None]:
    async with scene.switched_off():
        yield


@_fault("power cut that tears files", back_within=120)
async def _power_cut_that_tears_files(scene: Scene) -> AsyncIterator[None]:
    async with scene.switched_off():
        _tear(scene, scene.state.glob("*/*.json"))
        yield


@_fault("reboot without a GPU", lasts=(15, 30), back_within=150)
async def _reboot_without_a_gpu(scene: Scene) -> AsyncIterator[None]:
    """NVIDIA's CDI file is of before, or made anew. At another reboot the GPU is back."""
    is_renewed = scene.dice.random() < 0.5
    async with scene.switched_off(cleanly=scene.dice.random() < 0.5):
        absence = hardware.take_out(scene.sim, scene.draw_gpu().index)
        scene.note(f"GPU {absence.place} is missing; NVIDIA's CDI file is {'renewed' if is_renewed else 'of before'}")
    if is_renewed:
        scene.renew_cdi()
    yield
    async with scene.switched_off():
        hardware.put_back(scene.sim, absence)
    scene.renew_cdi()


# --------------------------------------------------------------------------------------------------------- disks


@_fault("state lost")
async def _state_lost(scene: Scene) -> AsyncIterator[None]:
    async with scene.programs.down("agent"):
        for path in scene.state.iterdir():
            # The directories of MPS daemons have a fault of their own.
            if path.is_dir() and path.name != "mps":
                shutil.rmtree(path)
        yield


@_fault("state torn")
async def _state_torn(scene: Scene) -> AsyncIterator[None]:
    async with scene.programs.down("agent"):
        _tear(scene, scene.state.glob("*/*.json"))
        yield


@_fault("state full", lasts=(5, 20), back_within=_AT_EACH_LOOK)
async def _state_full(scene: Scene) -> AsyncIterator[None]:
    """A GPU breaks meanwhile; it is reported all the same. Then there is room again, and later a large disk."""
    async with scene.small_state("512k"):
        filling = asyncio.create_task(_keep_full(scene.state / "filler"))
        await scene.reports_node("Ready", "False", "StateNotWritable")
        gpu = scene.draw_gpu()
        scene.sim.inject(sim_faults.RowRemapPending(gpu.uuid, failed=True))
        await scene.reports_gpu(gpu.uuid, "RowRemapFailed")
        yield
        filling.cancel()
        (scene.state / "filler").unlink()
        scene.sim.clear(sim_faults.RowRemapPending(gpu.uuid))
        await scene.reports_node("Ready", "True")


async def _keep_full(filler: Path) -> None:
    """Also of what others make room for meanwhile."""
    with filler.open("wb", buffering=0) as file:
        while True:
            with suppress(OSError):
                while file.write(bytes(4096)):
                    pass
            await asyncio.sleep(0.05)


def _tear(scene: Scene, paths: Iterable[Path]) -> None:
    """Some of them, to half or to nothing."""
    for path in sorted(paths):
        if scene.dice.random() < 0.3:
            data = path.read_bytes()
            path.write_bytes(data[: scene.dice.choice((0, len(data) // 2))])
            scene.note(f"torn: {path.relative_to(scene.state)}")


# --------------------------------------------------------------------------------------- what others remove from us


@_fault("dra.sock removed", back_within=_AT_EACH_LOOK)
async def _dra_socket_removed(scene: Scene) -> AsyncIterator[None]:
    """The kubelet notices when it connects again."""
    plugin = scene.cluster.node.kubelet_root / "plugins" / "gpu.nvidia.com"
    if scene.dice.random() < 0.5:
        shutil.rmtree(plugin)
    else:
        (plugin / "dra.sock").unlink()
    yield
    async with scene.programs.down("kubelet"):
        pass


@_fault("registration socket removed", back_within=_AT_EACH_LOOK)
async def _registration_socket_removed(scene: Scene) -> AsyncIterator[None]:
    (scene.cluster.node.kubelet_root / "plugins_registry" / "gpu.nvidia.com-reg.sock").unlink()
    yield


@_fault("CDI specs removed", back_within=_AT_EACH_LOOK)
async def _cdi_specs_removed(scene: Scene) -> AsyncIterator[None]:
    _, run = scene.cluster.node.cdi_dirs
    if scene.dice.random() < 0.5:
        shutil.rmtree(run)
    else:
        for spec in run.iterdir():
            spec.unlink()
    yield
    # Whose container ends has to come back.
    present = sorted(scene.churn.present(), key=lambda witness: witness.id)
    chosen = scene.dice.choice(present) if present else None
    scene.may_end(lambda witness: witness is chosen)
    if chosen:
        scene.kill(chosen)


@_fault("NVIDIA's CDI file removed", lasts=(3, 12))
async def _nvidia_cdi_removed(scene: Scene) -> AsyncIterator[None]:
    etc, _ = scene.cluster.node.cdi_dirs
    for spec in etc.iterdir():
        spec.unlink()
    yield
    scene.renew_cdi()


@_fault("slices and NodeSharing deleted")
async def _objects_deleted(scene: Scene) -> AsyncIterator[None]:
    await scene.admin.call("DELETE", "/apis/resource.k8s.io/v1/resourceslices")
    await scene.admin.call("DELETE", f"{SHARINGS}/{scene.cluster.node.name}", absent=True)
    yield


@_fault("allocation guard removed", lasts=(5, 12))
async def _guard_removed(scene: Scene) -> AsyncIterator[None]:
    """The scheduler gives reserved GPUs to strangers; the agent must not."""
    binding = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/gpusharing-allocation"
    await scene.admin.call("DELETE", binding)
    strangers = [await scene.churn.begin("stranger", namespace=STRANGERS) for _ in range(2)]
    for stranger in strangers:
        await scene.reports_pod(stranger, "FailedPrepareDynamicResources")
    yield
    for stranger in strangers:
        await scene.churn.end(stranger, grace=0)
    await scene.cluster.kubectl("apply", "--kustomize", str(MANIFESTS))
    operator = ("scale", "deployment/gpusharing-operator", "--namespace=gpusharing-system", "--replicas=0")
    await scene.cluster.kubectl(*operator)


# ---------------------------------------------------------------------------------------------------------- MPS


@_fault("MPS daemon killed", back_within=_AT_EACH_LOOK)
async def _mps_daemon_killed(scene: Scene) -> AsyncIterator[None]:
    """Its clients go on, and nobody new comes until they have gone: as documented, a person ends them."""
    scene.may_end(_uses_mps)
    for daemon in scene.sim.mps_daemons():
        scene.sim.inject(sim_faults.MpsKilled(daemon.pipe))
    yield
    await _end_all(scene, _uses_mps)


@_fault("MPS servers killed")
async def _mps_servers_killed(scene: Scene) -> AsyncIterator[None]:
    scene.may_end(_uses_mps)
    for pid in programs_below(scene.sim.programs / "nvidia-cuda-mps-server"):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    yield


@_fault("MPS directories removed", back_within=_AT_EACH_LOOK)
async def _mps_directories_removed(scene: Scene) -> AsyncIterator[None]:
    """What is mounted there goes with them. The key of the node goes, too, or stays."""
    scene.may_end(_uses_mps)
    home = scene.cluster.mps_directory(scene.cluster.node)
    for name in daemons_in(home):
        shutil.rmtree(home / name, ignore_errors=True)
    if scene.dice.random() < 0.5:
        (home / ".key").unlink(missing_ok=True)
    yield
    await _end_all(scene, _uses_mps)


@_fault("MPS hangs", lasts=(5, 20), back_within=_AT_EACH_LOOK)
async def _mps_hangs(scene: Scene) -> AsyncIterator[None]:
    async with _in_simulation(scene, sim_faults.MpsHangs()):
        yield


@_fault("MPS does not start", lasts=(5, 20))
async def _mps_does_not_start(scene: Scene) -> AsyncIterator[None]:
    async with _in_simulation(scene, sim_faults.MpsDoesNotStart()):
        yield


def _uses_mps(witness: Witness) -> bool:
    return witness.kind == "mps"


# ------------------------------------------------------------------------------------------------- GPUs and driver


@_fault("driver hangs", lasts=(5, 40), back_within=_AT_EACH_LOOK)
async def _driver_hangs(scene: Scene) -> AsyncIterator[None]:
    async with _in_simulation(scene, sim_faults.CallHangs("*", seconds=3000)):
        yield


@_fault("nvidia-smi missing", lasts=(5, 20))
async def _smi_missing(scene: Scene) -> AsyncIterator[None]:
    async with _in_simulation(scene, sim_faults.SmiMissing()):
        yield


@_fault("XID of a program")
async def _xid_of_a_program(scene: Scene) -> AsyncIterator[None]:
    scene.sim.inject(sim_faults.Xid(scene.draw_gpu().uuid, scene.dice.choice((13, 31, 43))))
    yield


@_fault("XID that needs a reset", back_within=_AT_EACH_LOOK)
async def _xid_that_needs_a_reset(scene: Scene) -> AsyncIterator[None]:
    """A false alarm: a person says so."""
    gpu = scene.draw_gpu()
    scene.sim.inject(sim_faults.Xid(gpu.uuid, scene.dice.choice((48, 119))))
    await scene.reports_gpu(gpu.uuid, "FatalXid")
    message = (await scene.condition(gpu.uuid))["message"]
    yield
    scene.sim.clear(sim_faults.ResetNeeded(gpu.uuid))
    slot = next(item["slot"] for item in (await scene.sharing())["status"]["gpus"] if item["uuid"] == gpu.uuid)
    times = re.findall(r"XID \d+ at (\S+Z)", message)
    cleared = ",".join(f"gpu-{slot}@{time}" for time in times)
    await scene.admin.merge(
        f"{SHARINGS}/{scene.cluster.node.name}", {"metadata": {"annotations": {CLEARED_FAULTS: cleared}}}
    )


@_fault("GPU lost", back_within=150)
async def _gpu_lost(scene: Scene) -> AsyncIterator[None]:
    """Until the node is rebooted."""
    gpu = scene.draw_gpu()
    scene.may_end(lambda witness: witness.gpu in {gpu.uuid, None})
    scene.sim.inject(sim_faults.GpuLost(gpu.uuid))
    await scene.reports_gpu(gpu.uuid, "GpuLost")
    yield
    async with scene.switched_off():
        pass


@_fault("driver reloaded", back_within=_AT_EACH_LOOK)
async def _driver_reloaded(scene: Scene) -> AsyncIterator[None]:
    scene.all_may_end()
    scene.settings_hold = False
    scene.sim.reload_driver()
    yield
    # Their instances are gone, as documented: a person ends them.
    await _end_all(scene, lambda witness: witness.kind == "mig")


@_fault("compute mode changed", back_within=_AT_EACH_LOOK)
async def _compute_mode_changed(scene: Scene) -> AsyncIterator[None]:
    """By an administrator, below clients that share a GPU. With MIG on, a driver refuses it."""
    shared = sorted(
        {gpu for one in scene.churn.present() if one.kind in {"share", "tenant", "mps"} and (gpu := one.gpu)}
    )
    if shared:
        uuid = scene.dice.choice(shared)
        scene.may_end(lambda witness: witness.gpu in {uuid, None})
        scene.settings_hold = False
        scene.sim.set_compute_mode(uuid, ComputeMode.PROHIBITED)
    yield


@asynccontextmanager
async def _in_simulation(scene: Scene, fault: sim_faults.Fault) -> AsyncIterator[None]:
    scene.sim.inject(fault)
    try:
        yield
    finally:
        scene.sim.clear(fault)


async def _end_all(scene: Scene, whom: Callable[[Witness], bool]) -> None:
    for witness in scene.churn.present():
        if whom(witness):
            await scene.churn.end(witness)
