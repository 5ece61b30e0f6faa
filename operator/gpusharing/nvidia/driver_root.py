"""Where the GPU driver's files are: below the host's root, or below a directory of their own in it."""

import platform
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Final

from gpusharing.nvidia.errors import DriverNotFoundError, ProgramMissingError

LIBRARY: Final = "libnvidia-ml.so.1"
_CUDA_LIBRARY: Final = "libcuda.so.1"
_MACHINE: Final = platform.machine()
# Where drivers are installed, below the host's root: on the host itself, in the driver container of NVIDIA's GPU
# operator, by GKE on its own system and on Ubuntu, by Talos, and by Bottlerocket.
_OF_THE_OPERATOR: Final = "run/nvidia/driver"
_PLACES: Final = (
    "",
    _OF_THE_OPERATOR,
    "home/kubernetes/bin/nvidia",
    "opt/nvidia",
    "usr/local",
    f"{_MACHINE}-bottlerocket-linux-gnu/sys-root",
)
# The last ones are Bottlerocket's and Talos'.
_LIBRARY_DIRECTORIES: Final = (
    "usr/lib64",
    f"usr/lib/{_MACHINE}-linux-gnu",
    "lib64",
    f"lib/{_MACHINE}-linux-gnu",
    "usr/lib",
    "lib",
    "usr/lib/nvidia/tesla",
    "usr/lib/nvidia",
    "glibc/usr/lib",
    "glibc/lib",
)
_PROGRAM_DIRECTORIES: Final = ("opt/bin", "usr/bin", "usr/sbin", "bin", "sbin", "usr/libexec/nvidia/tesla/bin")
# As many as the kernel follows.
_MOST_LINKS: Final = 40


@dataclass(frozen=True, slots=True)
class DriverRoot:
    path: Path
    host: Path | None = None
    """The host's root, if it is another directory."""

    @classmethod
    def find(cls, host: Path, *, proc: Path = Path("/proc")) -> "DriverRoot":
        """The first place that has a driver. `host` may be the driver's own directory, too."""
        candidates = [cls(host / place, host) for place in _PLACES]
        found = next((root for root in candidates if root.look_for(LIBRARY, _LIBRARY_DIRECTORIES)), None)
        if found is None:
            raise _not_found(host, proc)
        return found

    def nvml_library(self) -> Path:
        return self._require(LIBRARY, _LIBRARY_DIRECTORIES)

    def cuda_library(self) -> Path:
        return self._require(_CUDA_LIBRARY, _LIBRARY_DIRECTORIES)

    def program(self, name: str) -> Path:
        """Looked for each time: drivers are exchanged under a running agent."""
        return self._require(name, _PROGRAM_DIRECTORIES)

    def _require(self, name: str, directories: tuple[str, ...]) -> Path:
        found = self.look_for(name, directories)
        if found is None:
            raise ProgramMissingError(f"{name} is not below {self.path} (looked in {', '.join(directories)})")
        return found

    def look_for(self, name: str, directories: tuple[str, ...]) -> Path | None:
        return next((file for directory in directories if (file := self._file(Path(directory, name)))), None)

    def _file(self, path: Path) -> Path | None:
        """Links with absolute targets, as Debian's alternatives are, mean the root that they were made in."""
        candidates = [self.path / path, follow(self.path, path)]
        if self.host and self.path.is_relative_to(self.host):
            candidates.append(follow(self.host, self.path.relative_to(self.host) / path))
        return next((candidate for candidate in candidates if candidate.exists()), None)


def follow(root: Path, path: PurePath) -> Path:
    """As the kernel would if `root` were /."""
    at, left, links = root, list(path.parts), 0
    while left and links < _MOST_LINKS:
        part = left.pop(0)
        if part == "..":
            at = at if at == root else at.parent
            continue
        try:
            target: PurePath = (at / part).readlink()
        except OSError:
            at /= part
            continue
        links += 1
        if target.is_absolute():
            at, target = root, target.relative_to("/")
        left = [*target.parts, *left]
    return at.joinpath(*left)


def _not_found(host: Path, proc: Path) -> DriverNotFoundError:
    searched = ", ".join(str(host / place) for place in _PLACES)
    problem = f"{LIBRARY} of the GPU driver is in none of {searched}"
    if not host.is_dir() or not any(host.iterdir()):
        return DriverNotFoundError(
            f"{problem}: {host} is empty or absent",
            remedy="mount the host's root directory there, or set --driver-root",
        )
    if (host / _OF_THE_OPERATOR).is_dir():
        return DriverNotFoundError(
            f"{problem}: {host / _OF_THE_OPERATOR} has no driver in it yet",
            remedy="look at the driver pods of NVIDIA's GPU operator; the agent starts when they have installed it",
        )
    if (proc / "driver/nvidia/version").exists():
        return DriverNotFoundError(
            f"{problem}, although the kernel module is loaded",
            remedy=f"run `find / -name {LIBRARY}` on the node, and set --driver-root to the directory above "
            "its lib or usr",
        )
    return DriverNotFoundError(
        f"{problem}, and the kernel module is not loaded",
        remedy="install the GPU driver on the node, or keep the agent from it by the DaemonSet's node affinity",
    )
