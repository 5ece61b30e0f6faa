"""What a program with CUDA gets of a GPU: the only witness of limits that does not repeat what it was told."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpusharing.nvidia import cuda_client, programs
from gpusharing.nvidia.driver_root import DriverRoot
from gpusharing.nvidia.errors import ProgramError
from gpusharing.nvidia.mps import apart, processes
from gpusharing.nvidia.mps.directory import MpsDirectory
from gpusharing.nvidia.mps.surroundings import Surroundings

# A GPU that nobody uses may have to be initialized first.
TIMEOUT: Final = 20.0
_NO_DAEMON: Final = "/nonexistent"


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaUse:
    multiprocessors: int
    total_mib: int
    free_mib: int
    """Before it took memory."""
    taken_mib: int
    refusal: str | None
    """The error that kept it from more; None: it got all that it wanted."""


class Cuda:
    def __init__(self, driver: DriverRoot, *, dev: Path, cgroups: Path) -> None:
        self._driver = driver
        self._around = Surroundings(driver, dev, cgroups)

    async def use(self, uuid: str, *, mib: int, mps: Path | None = None, cgroup: Path | None = None) -> CudaUse:
        """Of a GPU or a MIG device. It takes memory until it has `mib`, and gives it back. `mps` is the directory of
        the daemon whose client it is, of which it gets no more than containers do; `cgroup` the one that it joins."""
        words = (cuda_client.__file__, self._driver.cuda_library(), mib, *filter(None, (cgroup,)))
        client = (sys.executable, "-I", "-S", *map(str, words))
        program, *arguments = self._around.start_client(MpsDirectory(mps), *client) if mps else client
        environment = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            processes.DEVICES_VARIABLE: uuid,
            # Without a value it would look for a daemon where people start theirs.
            processes.PIPE_VARIABLE: str(apart.DIRECTORY / "clients") if mps else _NO_DAEMON,
        }
        result = await programs.run(Path(program), *arguments, environment=environment, timeout=TIMEOUT)
        if result.code:
            raise ProgramError(f"a CUDA program on {uuid}: {result.output or f'exit code {result.code}'}", gpu=uuid)
        try:
            return CudaUse(**json.loads(result.output.splitlines()[-1]))
        except (ValueError, TypeError, IndexError) as error:
            raise ProgramError(f"a CUDA program on {uuid} said: {result.output[:512]}", gpu=uuid) from error
