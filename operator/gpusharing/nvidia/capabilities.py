"""The device nodes that let a container into a GPU, and into a MIG instance: one for its GPU instance, one for its
compute instance."""

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from gpusharing.nvidia.errors import CapabilityError, NotPermittedError
from gpusharing.nvidia.facts import Change, DeviceNode, GpuInstance


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Where the kernel's module tells them, and where device nodes are made."""

    proc: Path
    dev: Path

    def nodes(self, gpu_minor: int, instance: GpuInstance) -> tuple[DeviceNode, ...]:
        """As containers are to see them. That they are numbered does not mean that they are there."""
        major = self._major("nvidia-caps")
        numbers = self._minors()
        names = [f"gpu{gpu_minor}/gi{instance.id}/access"]
        names += [f"gpu{gpu_minor}/gi{instance.id}/ci{part.id}/access" for part in instance.compute_instances]
        return tuple(self._node(name, major, numbers) for name in names)

    def gpu(self, minor: int) -> DeviceNode:
        return DeviceNode(
            path=f"/dev/nvidia{minor}", major=self._major("nvidia(?:-frontend)?"), minor=minor, mode=0o666
        )

    def make(self, nodes: tuple[DeviceNode, ...]) -> Change[tuple[DeviceNode, ...]]:
        """The driver makes them when somebody asks for them, which may be never."""
        found = tuple(node for node in nodes if self._is_there(node))
        for node in nodes:
            if node not in found:
                self._make(node)
        return Change(found, nodes)

    def _node(self, name: str, major: int, numbers: dict[str, int]) -> DeviceNode:
        if name not in numbers:
            raise CapabilityError(f"{self._minors_file} has no {name}")
        minor = numbers[name]
        return DeviceNode(path=f"/dev/nvidia-caps/nvidia-cap{minor}", major=major, minor=minor, mode=self._mode(name))

    def _major(self, name: str) -> int:
        """The kernel gives it when the module is loaded, and another one the next time."""
        text = _read(self.proc / "devices")
        found = re.search(rf"^\s*(\d+) {name}$", text, re.MULTILINE)
        if found is None:
            raise CapabilityError(f"{self.proc / 'devices'} has no {name}: is the module loaded?")
        return int(found[1])

    def _minors(self) -> dict[str, int]:
        lines = (line.split() for line in _read(self._minors_file).splitlines())
        return {words[0]: int(words[1]) for words in lines if len(words) == 2 and words[1].isdecimal()}

    @property
    def _minors_file(self) -> Path:
        return self.proc / "driver/nvidia-caps/mig-minors"

    def _mode(self, name: str) -> int:
        """There as long as the instance is."""
        gpu, _, rest = name.partition("/")
        text = _read(self.proc / "driver/nvidia/capabilities" / gpu / "mig" / rest)
        found = re.search(r"DeviceFileMode:\s*(\d+)", text)
        if found is None:
            raise CapabilityError(f"the kernel does not say the mode of {name}")
        return int(found[1])

    def _is_there(self, node: DeviceNode) -> bool:
        try:
            status = self._path(node).stat()
        except OSError:
            return False
        return stat.S_ISCHR(status.st_mode) and status.st_rdev == os.makedev(node.major, node.minor)

    def _make(self, node: DeviceNode) -> None:
        path = self._path(node)
        # Made aside: nobody sees it with other rights than its own, and one of a former module is replaced.
        aside = path.with_name(f".{path.name}.new")
        try:
            path.parent.mkdir(mode=0o755, exist_ok=True)
            aside.unlink(missing_ok=True)
            os.mknod(aside, stat.S_IFCHR | node.mode, os.makedev(node.major, node.minor))
            aside.chmod(node.mode)
            aside.rename(path)
        except PermissionError as error:
            raise NotPermittedError(f"device node {path} cannot be made: {error}") from error
        except OSError as error:
            raise CapabilityError(f"device node {path} cannot be made: {error}") from error

    def _path(self, node: DeviceNode) -> Path:
        return self.dev / Path(node.path).relative_to("/dev")


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError as error:
        raise CapabilityError(f"MIG capabilities cannot be read: {error}") from error
