"""What containers are given: NVIDIA's own CDI device of the GPU, and beside it one small spec of ours a claim."""

import re
from pathlib import Path
from typing import Any, Final

from gpusharing.agent.cdi_specs import OUR_PREFIX, CdiSpecs, nvidia_device
from gpusharing.agent.files import remove_leftovers, write_atomically
from gpusharing.agent.records import PreparedDevice
from gpusharing.agent.walls.wall import cdi_hook
from gpusharing.api import names, strict_json

OUR_KIND: Final = f"{names.GROUP}/claim"
# What 0.5.0 has is enough, and every container runtime in use reads it.
_VERSION: Final = "0.5.0"
_SUFFIX: Final = ".json"
_LIKE_ITS_GPU: Final = re.compile("-(timeslicing|mps)$")
_GPU_NODE: Final = re.compile("/dev/nvidia[0-9]+")
_REMEDY: Final = "run `nvidia-ctk cdi generate` on the node, or enable nvidia-cdi-refresh.service"
# In the container, where programs look for them of themselves.
_MPS_PIPE: Final = "/tmp/nvidia-mps"  # noqa: S108
_SHM: Final = "/dev/shm"  # noqa: S108


class UnresolvableError(Exception):
    """No CDI spec on this node knows the GPU. The message says who should have written one."""


def our_device(claim_uid: str, index: int) -> str:
    return f"{OUR_KIND}={claim_uid}-{index}"


class CdiDirectory:
    """Specs are read from all directories of the container runtime; ours are written into the first."""

    def __init__(self, directories: tuple[Path, ...]) -> None:
        self._specs = CdiSpecs(directories)
        self._home = directories[0]
        self._home.mkdir(parents=True, exist_ok=True)
        remove_leftovers(self._home, OUR_PREFIX)

    def devices(self, claim_uid: str, index: int, *, uuid: str, minor: int, is_instance: bool) -> tuple[str, ...]:
        """The qualified names of what a container is given, once it is sure that the runtime can resolve them.

        Of a GPU that was in MIG mode when NVIDIA's specs were written they have no device. Containers in its instances
        have all of it from ours.
        """
        ours = our_device(claim_uid, index)
        if is_instance and not self._specs.has(nvidia_device(uuid)) and self._specs.nvidia_common() is not None:
            return (ours,)
        return self._required(uuid, minor), ours

    def _required(self, uuid: str, minor: int) -> str:
        device = nvidia_device(uuid)
        found = self._specs.device(device)
        if found is None:
            searched = ", ".join(str(directory) for directory in self._specs.directories)
            raise UnresolvableError(f"no CDI spec in {searched} has the device {device}: {_REMEDY}")
        gpu = f"/dev/nvidia{minor}"
        if others := sorted(node for node in found.nodes if _GPU_NODE.fullmatch(node) and node != gpu):
            raise UnresolvableError(
                f"the CDI device {device} has {', '.join(others)}, which is another GPU now: this one is {gpu}: "
                f"{_REMEDY}"
            )
        return device

    def write(self, claim_uid: str, devices: tuple[PreparedDevice, ...]) -> None:
        path = self._path(claim_uid)
        spec: dict[str, Any] = {
            "cdiVersion": _VERSION,
            "kind": OUR_KIND,
            "devices": [
                {"name": our_device(claim_uid, index).partition("=")[2], "containerEdits": _edits(device)}
                for index, device in enumerate(devices)
            ],
        }
        if any(is_alone(device) for device in devices):
            common = self._specs.nvidia_common()
            if common is None:
                raise UnresolvableError(f"no CDI spec of NVIDIA's is left: {_REMEDY}")
            spec |= common
        data = strict_json.canonical(spec)
        if not path.exists() or path.read_bytes() != data:
            write_atomically(path, data)

    def delete(self, claim_uid: str) -> None:
        self._path(claim_uid).unlink(missing_ok=True)

    def claims(self) -> list[str]:
        """The claims that have a spec of ours, whoever wrote it when."""
        paths = self._home.glob(f"{OUR_PREFIX}*{_SUFFIX}")
        return [path.name.removeprefix(OUR_PREFIX).removesuffix(_SUFFIX) for path in paths]

    def _path(self, claim_uid: str) -> Path:
        return self._home / f"{OUR_PREFIX}{claim_uid}{_SUFFIX}"


def is_alone(device: PreparedDevice) -> bool:
    """Whether a container gets it without a device of NVIDIA's."""
    return all(name.startswith(f"{OUR_KIND}=") for name in device.cdi_devices)


def environment(device: PreparedDevice) -> list[str]:
    """Names carry the device's own, so that those of several claims in one container stand side by side."""
    prefix = f"GPUSHARING_{_LIKE_ITS_GPU.sub('', device.device).upper().replace('-', '_')}"
    variables = {prefix: device.mig_uuid or device.uuid}
    if sharing := names.sharing_of_device(device.device):
        variables[f"{prefix}_SHARING"] = sharing
    if device.settings.interval:
        variables[f"{prefix}_INTERVAL"] = device.settings.interval
    return [f"{name}={value}" for name, value in (variables | _of_mps(device)).items()]


def _of_mps(device: PreparedDevice) -> dict[str, str]:
    """What the CUDA library of a client reads."""
    limits = device.settings.mps
    if limits is None:
        return {}
    variables = {"CUDA_MPS_PIPE_DIRECTORY": _MPS_PIPE}
    if limits.memory is not None:
        variables["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = f"{device.uuid}={limits.memory}M"
    if limits.threads is not None:
        variables["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = str(limits.threads)
    return variables


def _mounts(device: PreparedDevice) -> list[dict[str, Any]]:
    """What clients of MPS have in common with their daemon, and what programs may read of their devices."""
    places = {_MPS_PIPE: device.mps_pipe, _SHM: device.mps_shm}
    mounts = [_mount(host, container, "rw", "nosuid", "nodev") for container, host in places.items() if host]
    if device.metadata:
        mounts.append(_mount(device.metadata.file, device.metadata.path, "ro"))
    return mounts


def _mount(host: str, container: str, *options: str) -> dict[str, Any]:
    return {"hostPath": host, "containerPath": container, "options": [*options, "bind"]}


def _edits(device: PreparedDevice) -> dict[str, Any]:
    edits: dict[str, Any] = {"env": environment(device)}
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
