"""Where the GPU driver's files are: on the host, below the directory that the host's root is mounted at."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpusharing.agent.hardware.errors import ProgramMissingError

_LIBRARY: Final = "libnvidia-ml.so.1"
_LIBRARY_DIRECTORIES: Final = (
    "usr/lib64",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "lib64",
    "lib/x86_64-linux-gnu",
    "lib/aarch64-linux-gnu",
    "lib",
)
_PROGRAM_DIRECTORIES: Final = ("opt/bin", "usr/bin", "usr/sbin", "bin", "sbin")


@dataclass(frozen=True, slots=True)
class DriverRoot:
    path: Path

    def nvml_library(self) -> Path:
        return self._find(_LIBRARY, _LIBRARY_DIRECTORIES)

    def program(self, name: str) -> Path:
        """Looked for each time: drivers are exchanged under a running agent."""
        return self._find(name, _PROGRAM_DIRECTORIES)

    def _find(self, name: str, directories: tuple[str, ...]) -> Path:
        for directory in directories:
            if (candidate := self.path / directory / name).exists():
                return candidate
        raise ProgramMissingError(f"{name} is not below {self.path} (looked in {', '.join(directories)})")
