"""Where the programs of MPS run: in the driver's own root, so that they find the libraries that belong to it."""

import os
import shutil
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpusharing.nvidia.driver_root import DriverRoot
from gpusharing.nvidia.errors import MpsError
from gpusharing.nvidia.mps import apart, processes
from gpusharing.nvidia.mps.directory import MpsDirectory

_OURS: Final = Path("/")
_INTERPRETER: Final = 3
_FILE_HEADER: Final = struct.Struct("<16x2HI3QI6H")
_SEGMENT: Final = struct.Struct("<2I6Q")


@dataclass(frozen=True, slots=True)
class Surroundings:
    driver: DriverRoot
    dev: Path
    cgroups: Path

    def require(self, program: str) -> None:
        """A ProgramMissingError says where it was looked for."""
        self.driver.program(program)

    def start(self, where: MpsDirectory, program: str, *options: str) -> tuple[str, ...]:
        """The command that runs a program of the driver apart from the agent, see `apart`."""
        root, inside = self._root_for(self.driver.program(program))
        return self._apart(root, where, str(inside), *options)

    def start_client(self, where: MpsDirectory, *command: str) -> tuple[str, ...]:
        """The command that runs a program of our own with the devices and the /dev/shm of this daemon."""
        return self._apart(_OURS, where, *command)

    def _apart(self, root: Path, where: MpsDirectory, *command: str) -> tuple[str, ...]:
        words = (root, self.dev, self.cgroups, where.path)
        return (sys.executable, "-I", "-S", apart.__file__, *map(str, words), *command)

    @contextmanager
    def beside(self, daemon: processes.Process, mark: str) -> Iterator[tuple[Sequence[str], Sequence[int]]]:
        """The command that runs NVIDIA's program where this daemon runs, and the open files that it needs."""
        _, inside = self._root_for(self.driver.program(processes.CONTROL))
        nsenter = shutil.which("nsenter")
        if nsenter is None:
            raise MpsError("nsenter is missing", remedy="install util-linux in the agent's image")
        with ExitStack() as stack:
            try:
                files = [_opened(stack, f"/proc/{daemon.pid}/{name}") for name in ("ns/mnt", "root")]
            except OSError as error:
                raise MpsError(f"the MPS daemon {daemon.pid} has just ended: {error}") from error
            # What was opened may be of another process that has got its number.
            if processes.read(daemon.pid, mark) is None:
                raise MpsError(f"the MPS daemon {daemon.pid} has just ended")
            namespace, root = (f"/proc/self/fd/{file}" for file in files)
            yield (nsenter, f"--mount={namespace}", f"--root={root}", "--", str(inside)), files

    def environment(self, **variables: str) -> Mapping[str, str]:
        path = self.driver.program(processes.CONTROL)
        root, _ = self._root_for(path)
        if root != _OURS:
            return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **variables}
        libraries = self.driver.nvml_library().parent
        return {"PATH": f"{path.parent}:{os.environ.get('PATH', '')}", "LD_LIBRARY_PATH": str(libraries), **variables}

    def _root_for(self, program: Path) -> tuple[Path, Path]:
        """The root to run it in, and where it is there. The driver's, unless it is a mere directory of files, without
        the loader that its programs ask for: then they have to do with ours."""
        loader = _loader(program)
        for root in filter(None, (self.driver.path, self.driver.host)):
            has_loader = loader is None or os.path.lexists(root / loader.lstrip("/"))
            if has_loader and program.is_relative_to(root):
                return root, Path("/") / program.relative_to(root)
        return _OURS, program


def _loader(program: Path) -> str | None:
    """What the kernel starts for it (PT_INTERP); None: it needs none."""
    try:
        with program.open("rb") as file:
            header = file.read(_FILE_HEADER.size)
            if header[:5] != b"\x7fELF\x02":
                return None
            _, _, _, _, offset, _, _, _, size, count, *_ = _FILE_HEADER.unpack(header)
            for index in range(count):
                file.seek(offset + index * size)
                kind, _, start, _, _, length, *_ = _SEGMENT.unpack(file.read(_SEGMENT.size))
                if kind == _INTERPRETER:
                    file.seek(start)
                    return file.read(min(length, 4096)).rstrip(b"\0").decode()
    except (OSError, struct.error, UnicodeDecodeError):
        pass
    return None


def _opened(stack: ExitStack, path: str) -> int:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    stack.callback(os.close, file)
    return file
