"""The directory of an MPS control daemon: what clients find it by, and its logs."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpusharing.agent.hardware.errors import MpsError

# What the kernel has room for in the address of a socket, besides the zero at its end.
_LONGEST_SOCKET: Final = 107
_LOG_TAIL: Final = 64 * 1024


def make_shared_memory(directory: Path) -> None:
    """For processes of any user, as /dev/shm is."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(0o1777)
    except OSError as error:
        raise MpsError(f"the shared memory of an MPS daemon cannot be made: {error}") from error


@dataclass(frozen=True, slots=True)
class MpsDirectory:
    path: Path

    @property
    def pipe(self) -> Path:
        return self.path / "pipe"

    @property
    def log(self) -> Path:
        return self.path / "log"

    def make(self) -> None:
        socket = self.pipe / "control_privileged"
        if len(os.fsencode(socket)) > _LONGEST_SOCKET:
            raise MpsError(f"{socket} is longer than {_LONGEST_SOCKET} bytes, so no MPS client could connect to it")
        try:
            for directory in (self.path, self.pipe, self.log):
                directory.mkdir(parents=True, exist_ok=True)
                # Clients of any user have to get to the sockets, whatever the umask is.
                directory.chmod(0o755)
        except OSError as error:
            raise MpsError(f"the directory of an MPS daemon cannot be made: {error}") from error

    def log_since_start(self) -> str:
        """What the daemon's log says of its present life."""
        try:
            with (self.log / "control.log").open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - _LOG_TAIL))
                return file.read().decode(errors="replace").rpartition("Starting control daemon")[2]
        except OSError:
            return ""
