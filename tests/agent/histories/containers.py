"""What the container runtime makes of a claim's CDI spec, and the programs in the container."""

import json
from collections.abc import Iterable
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any, Final

from agent.histories.simulated import SimulatedNode
from gpusharing import sim
from gpusharing.api import names
from gpusharing.api.dra import AllocationResult
from gpusharing.sim import cuda

_MEMORY: Final = 1024**2
_numbers = count(100_000)


class Injected:
    """What one device of a claim brings into the container."""

    def __init__(self, device: str, edits: dict[str, Any]) -> None:
        self.device = device
        self.environment: dict[str, str] = dict(word.split("=", 1) for word in edits["env"])
        self.nodes = {(node["major"], node["minor"]) for node in edits.get("deviceNodes", ())}
        mounts = {mount["containerPath"]: mount["hostPath"] for mount in edits.get("mounts", ())}
        self.mps_pipes = [host for container, host in mounts.items() if container == "/tmp/nvidia-mps"]
        self.metadata = [Path(host) for container, host in mounts.items() if "dra-device-attributes" in container]

    @property
    def uuid(self) -> str:
        """Of the GPU or the MIG device."""
        label = device_label(self.device)
        return self.environment[f"GPUSHARING_{label}"]


def device_label(device: str) -> str:
    return device.removesuffix("-timeslicing").removesuffix("-mps").upper().replace("-", "_")


def injected(bed: SimulatedNode, uid: str, results: tuple[AllocationResult, ...]) -> list[Injected]:
    spec = json.loads(spec_of(bed, uid).read_bytes())
    assert [device["name"] for device in spec["devices"]] == [f"{uid}-{index}" for index in range(len(results))]
    edits = [device["containerEdits"] for device in spec["devices"]]
    return [Injected(result.device, edit) for result, edit in zip(results, edits, strict=True)]


def spec_of(bed: SimulatedNode, uid: str) -> Path:
    return bed.cdi / f"gpusharing.dev-claim_{uid}.json"


class Container:
    """With a program on each of its devices. MPS daemons serve a real one, where `real`."""

    def __init__(self, bed: SimulatedNode, uid: str, results: tuple[AllocationResult, ...], *, real: bool) -> None:
        self._bed = bed
        self._real = ExitStack()
        self.clients: list[cuda.CudaProcess] = []
        self.processes: list[tuple[str, str, int]] = []
        """The device, its uuid, and the number of the process there."""
        self.daemons: dict[str, int] = {}
        running = bed.daemons()
        devices = zip(injected(bed, uid, results), results, strict=True)
        for device, result in devices:
            if result.admin_access:
                continue
            for pipe in device.mps_pipes:
                name = Path(pipe).parent.name
                self.daemons[name] = running[name]
            if device.mps_pipes and real and not self.clients:
                options = cuda.Options(gpu=device.uuid, memory="64M", mps_pipe=Path(device.mps_pipes[0]))
                self.clients.append(self._real.enter_context(cuda.running(bed.sim, options)))
                continue
            kind = sim.ProcessKind.MPS_CLIENT if device.mps_pipes else sim.ProcessKind.COMPUTE
            pid = next(_numbers)
            bed.sim.start_process(device.uuid, pid, _MEMORY, kind)
            self.processes.append((result.device, device.uuid, pid))

    def end(self) -> None:
        for client in self.clients:
            client.kill()
        self._real.close()
        there = {process.pid for gpu in self._bed.sim.gpus() for process in gpu.processes}
        for _, uuid, pid in self.processes:
            if pid in there:
                self._bed.sim.stop_process(uuid, pid)

    def disturbed(self, gpus: Iterable[sim.Gpu]) -> str | None:
        """What has become of it that nobody but the agent can have done."""
        there = {process.pid: (gpu, process) for gpu in gpus for process in gpu.processes}
        for device, uuid, pid in self.processes:
            if pid not in there:
                return f"the program of {device} has lost its GPU"
            gpu, process = there[pid]
            if names.sharing_of_device(device) is names.Sharing.MIG:
                instances = {part.uuid: one.id for one in gpu.gpu_instances for part in one.compute_instances}
                if instances.get(uuid) != process.gpu_instance:
                    return f"the instance of {device} is gone under its program"
        running = self._bed.daemons() if self.daemons else {}
        for name, pid in self.daemons.items():
            if running.get(name) != pid:
                return f"the MPS daemon {name} was ended under its clients"
        return None if all(client.is_running() for client in self.clients) else "a client of MPS has died"
