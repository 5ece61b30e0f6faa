"""What containers are given: NVIDIA's own CDI device of the GPU, and beside it one small spec of ours a claim."""

import re
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import structlog

from gpusharing.agent.state.files import Boot, remove, remove_leftovers, write_if_changed
from gpusharing.agent.state.models import PreparedDevice
from gpusharing.agent.walls.wall import cdi_hook
from gpusharing.api import names, strict_json
from gpusharing.nvidia.cdi_generation import CdiGenerator
from gpusharing.nvidia.cdi_specs import (
    GENERATED_FILE,
    OUR_PREFIX,
    CdiSpecs,
    generated_device,
    nvidia_device,
)
from gpusharing.nvidia.errors import HardwareError

log = structlog.get_logger(__name__)

OUR_KIND: Final = f"{names.GROUP}/claim"
# What 0.5.0 has is enough, and every container runtime in use reads it.
_VERSION: Final = "0.5.0"
_SUFFIX: Final = ".json"
_LIKE_ITS_GPU: Final = re.compile("-(timeslicing|mps)$")
_SLOT: Final = re.compile(r'"GPUSHARING_GPU_(?P<slot>[0-9]{1,4})=(?P<uuid>GPU-[0-9a-zA-Z-]+)"')
_GPU_NODE: Final = re.compile("/dev/nvidia[0-9]+")
_REMEDY: Final = "run `nvidia-ctk cdi generate` on the node, or enable nvidia-cdi-refresh.service"
# Seconds between two attempts to have a spec generated.
_AGAIN: Final = 10.0
# In the container, where programs look for them of themselves.
_MPS_PIPE: Final = "/tmp/nvidia-mps"  # noqa: S108
_SHM: Final = "/dev/shm"  # noqa: S108


class UnresolvableError(Exception):
    """No CDI spec on this node knows the GPU. The message says who should have written one."""


class AnotherGpuError(UnresolvableError):
    """NVIDIA's CDI spec leads to another GPU than the one of this name."""


def our_device(claim_uid: str, index: int) -> str:
    return f"{OUR_KIND}={claim_uid}-{index}"


class CdiDirectory:
    """Specs are read from all directories of the container runtime; ours are written into the first."""

    def __init__(self, specs: CdiSpecs, generator: CdiGenerator | None = None) -> None:
        """`generator` writes NVIDIA's part on nodes where nobody else has."""
        self._specs = specs
        self._generator = generator
        # Claims are prepared side by side, each in a thread.
        self._generating = threading.Lock()
        self._tried = -_AGAIN
        self._failure: HardwareError | None = None
        self._home = specs.directories[0]
        self._home.mkdir(parents=True, exist_ok=True)
        remove_leftovers(self._home, OUR_PREFIX)

    def begin(self, minors: Mapping[str, int]) -> None:
        """At a start, for these GPUs (by uuid): a spec that was generated may be of another driver, or be missing."""
        is_missing = any(self._resolved(uuid, minor) is None for uuid, minor in minors.items())
        if is_missing or self._generated.exists():
            self._generate()

    def devices(self, claim_uid: str, index: int, *, uuid: str, minor: int, is_instance: bool) -> tuple[str, ...]:
        """The qualified names of what a container is given, once it is sure that the runtime can resolve them.

        Of a GPU that was in MIG mode when NVIDIA's specs were written they have no device. Containers in its instances
        have all of it from ours.
        """
        ours = our_device(claim_uid, index)
        for is_last in (False, True):
            if device := self._resolved(uuid, minor):
                return device, ours
            if is_instance and not self._is_known(uuid) and self._specs.nvidia_common() is not None:
                return (ours,)
            if not is_last:
                self._generate()
        raise self._unresolvable(uuid, minor)

    def check(self, device: PreparedDevice, *, minor: int) -> None:
        """Whether NVIDIA's device that it refers to is still this GPU."""
        for name in device.cdi_devices:
            if name == generated_device(device.uuid) and self._others_of(name, minor):
                # It could not be renewed when the agent started.
                self._generate()
            if others := self._others_of(name, minor):
                raise AnotherGpuError(
                    f"the CDI device {name} has {', '.join(others)}, which is another GPU now: this one is "
                    f"/dev/nvidia{minor}: {_REMEDY}"
                )

    def _others_of(self, name: str, minor: int) -> list[str]:
        found = None if name.startswith(f"{OUR_KIND}=") else self._specs.device(name)
        return _others(found.nodes, minor) if found else []

    def _resolved(self, uuid: str, minor: int) -> str | None:
        """NVIDIA's device, or the one that was generated for us; neither if it is of another GPU."""
        for name in (nvidia_device(uuid), generated_device(uuid)):
            found = self._specs.device(name)
            if found and not _others(found.nodes, minor):
                return name
        return None

    def _is_known(self, uuid: str) -> bool:
        return self._specs.has(nvidia_device(uuid)) or self._specs.has(generated_device(uuid))

    def _unresolvable(self, uuid: str, minor: int) -> UnresolvableError:
        device = self._specs.gpu(uuid)
        remedy = f", and none can be generated: {self._failure}" if self._failure else f": {_REMEDY}"
        if found := self._specs.device(device):
            return UnresolvableError(
                f"the CDI device {device} has {', '.join(_others(found.nodes, minor))}, which is another GPU now: this "
                f"one is /dev/nvidia{minor}{remedy}"
            )
        searched = ", ".join(map(str, self._specs.directories))
        return UnresolvableError(f"no CDI spec in {searched} has the device {device}{remedy}")

    @property
    def _generated(self) -> Path:
        return self._home / GENERATED_FILE

    def _generate(self) -> None:
        """Not again and again while nothing can have changed."""
        with self._generating:
            if self._generator is None or time.monotonic() - self._tried < _AGAIN:
                return
            self._tried = time.monotonic()
            try:
                data = strict_json.canonical(self._generator.generate())
            except HardwareError as error:
                log.warning("CDI spec cannot be generated", error=str(error))
                self._failure = error
                return
            self._failure = None
            if write_if_changed(self._generated, data):
                log.info("CDI spec generated", file=str(self._generated))

    def delete_generated(self) -> None:
        self._generated.unlink(missing_ok=True)

    def write(self, claim_uid: str, devices: tuple[PreparedDevice, ...]) -> None:
        path = self._path(claim_uid)
        spec: dict[str, Any] = {
            "cdiVersion": _VERSION,
            "kind": OUR_KIND,
            "devices": [
                {"name": our_device(claim_uid, index).partition("=")[2], "containerEdits": _edits(device, devices)}
                for index, device in enumerate(devices)
            ],
        }
        if any(is_alone(device) for device in devices):
            common = self._specs.nvidia_common()
            if common is None:
                raise UnresolvableError(f"no CDI spec of NVIDIA's is left: {_REMEDY}")
            spec |= common
        data = strict_json.canonical(spec)
        write_if_changed(path, data)

    def delete(self, claim_uid: str) -> None:
        remove(self._path(claim_uid))

    def claims(self) -> list[str]:
        """The claims that have a spec of ours, whoever wrote it when."""
        paths = self._home.glob(f"{OUR_PREFIX}*{_SUFFIX}")
        return [path.name.removeprefix(OUR_PREFIX).removesuffix(_SUFFIX) for path in paths]

    def slots(self) -> dict[str, int]:
        """Of GPUs, as our specs name them to containers."""
        found: dict[str, int] = {}
        for uid in self.claims():
            try:
                text = self._path(uid).read_text()
            except (OSError, ValueError):
                continue
            found |= {match["uuid"]: int(match["slot"]) for match in _SLOT.finditer(text)}
        return found

    def was_written_in(self, boot: Boot, claim_uid: str) -> bool:
        path = self._path(claim_uid)
        return path.exists() and boot.wrote(path)

    def _path(self, claim_uid: str) -> Path:
        return self._home / f"{OUR_PREFIX}{claim_uid}{_SUFFIX}"


def _others(nodes: frozenset[str], minor: int) -> list[str]:
    """Device nodes of other GPUs."""
    return sorted(node for node in nodes if _GPU_NODE.fullmatch(node) and node != f"/dev/nvidia{minor}")


def is_alone(device: PreparedDevice) -> bool:
    """Whether a container gets it without a device of NVIDIA's."""
    return all(name.startswith(f"{OUR_KIND}=") for name in device.cdi_devices)


def environment(device: PreparedDevice, devices: Sequence[PreparedDevice]) -> list[str]:
    """Names carry the device's own, so that those of several claims in one container stand side by side. `devices` are
    all of its claim."""
    name = _LIKE_ITS_GPU.sub("", names.at_revision(device.device, 0))
    prefix = f"GPUSHARING_{name.upper().replace('-', '_')}"
    variables = {prefix: device.mig_uuid or device.uuid}
    if sharing := names.sharing_of_device(device.device):
        variables[f"{prefix}_SHARING"] = sharing
    if device.settings.interval:
        variables[f"{prefix}_INTERVAL"] = device.settings.interval
    return [f"{name}={value}" for name, value in (variables | _of_mps(device, devices)).items()]


def _of_mps(device: PreparedDevice, devices: Sequence[PreparedDevice]) -> dict[str, str]:
    """What the CUDA library of a client reads. All GPUs of a daemon have the same variables: where several devices of a
    container have one, the last counts."""
    if device.settings.mps is None:
        return {}
    others = [other for other in devices if other.mps_pipe == device.mps_pipe and other.uuid != device.uuid]
    limits = {one.uuid: one.settings.mps for one in (*others, device) if one.settings.mps}
    variables = {"CUDA_MPS_PIPE_DIRECTORY": _MPS_PIPE}
    # By their places among the daemon's GPUs, which is what all drivers take.
    memory = [f"{index}={limits[uuid].memory}M" for index, uuid in enumerate(sorted(limits)) if limits[uuid].memory]
    if memory:
        variables["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = ",".join(memory)
    if threads := [mps.threads for mps in limits.values() if mps.threads is not None]:
        variables["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = str(max(threads))
    return variables


def _mounts(device: PreparedDevice) -> list[dict[str, Any]]:
    """What clients of MPS have in common with their daemon, and what programs may read of their devices."""
    mounts = []
    if device.mps_pipe:
        # Sockets can be used, and nothing can be put in their place.
        mounts.append(_mount(device.mps_pipe, _MPS_PIPE, "ro", "nosuid", "nodev", "noexec"))
    if device.mps_shm:
        mounts.append(_mount(device.mps_shm, _SHM, "rw", "nosuid", "nodev", "noexec"))
    if device.metadata:
        mounts.append(_mount(device.metadata.file, device.metadata.path, "ro"))
    return mounts


def _mount(host: str, container: str, *options: str) -> dict[str, Any]:
    return {"hostPath": host, "containerPath": container, "options": [*options, "bind"]}


def _edits(device: PreparedDevice, devices: Sequence[PreparedDevice]) -> dict[str, Any]:
    edits: dict[str, Any] = {"env": environment(device, devices)}
    if device.device_nodes:
        edits["deviceNodes"] = [
            {"path": node.path, "type": "c", "major": node.major, "minor": node.minor, "permissions": "rw"}
            for node in device.device_nodes
        ]
    if mounts := _mounts(device):
        edits["mounts"] = mounts
    if device.wall:
        edits["hooks"] = [cdi_hook(Path(device.wall.program), Path(device.wall.directory))]
    return edits
