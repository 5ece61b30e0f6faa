"""The directory of an MPS control daemon, in memory and bounded.

    pipe/      its sockets, where only the daemon and the agent get to
    log/       its logs
    clients/   what containers are given, read-only: the two entries of `pipe` that clients of any user can use
    shm/       what daemon and clients have in common as /dev/shm: the only place that containers can write to

Directory and `shm` are a tmpfs each. To remove one is to unmount it, whatever clients have left there. They lie in a
home that only root gets into, and are gone after a reboot.
"""

import os
import secrets
import stat
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpusharing.nvidia import hostile_files
from gpusharing.nvidia.errors import MpsError
from gpusharing.nvidia.mps import apart, mounts
from gpusharing.nvidia.selinux import label_for_containers

SHM_SIZE: Final = 4 * 1024**3
_SHM_FILES: Final = 64 * 1024
# For sockets and logs. A daemon that has filled it works on without a log.
_OWN_SIZE: Final = 16 * 1024**2
_OWN_FILES: Final = 256
_LOG_TAIL: Final = 64 * 1024
# Of the daemon's own directory, the others are for root.
_FOR_CLIENTS: Final = ("control", "log")
_KEY: Final = ".key"
# By home: daemons are found by it, also when somebody removes the file.
_known_keys: Final[dict[Path, str]] = {}


@dataclass(frozen=True, slots=True)
class MpsDirectory:
    path: Path

    @property
    def pipe(self) -> Path:
        return self.path / "pipe"

    @property
    def log(self) -> Path:
        return self.path / "log"

    @property
    def clients(self) -> Path:
        return self.path / "clients"

    @property
    def shm(self) -> Path:
        return self.path / "shm"

    def make(self, *, shm_size: int, with_labels: bool) -> None:
        """What is there already stays."""
        with _named("the directory of an MPS daemon cannot be made"):
            self._make_home()
            self.path.mkdir(exist_ok=True)
            if not self.path.is_mount():
                mounts.mount_tmpfs(self.path, size=_OWN_SIZE, files=_OWN_FILES, mode=0o755)
            for directory in (self.pipe, self.log, self.clients, self.shm):
                directory.mkdir(exist_ok=True)
                # Servers and clients may be of any user, whatever the umask is.
                directory.chmod(0o755)
            if not self.shm.is_mount():
                mounts.mount_tmpfs(self.shm, size=shm_size, files=_SHM_FILES, mode=0o1777)
            for directory in (self.pipe, self.clients, self.shm) if with_labels else ():
                label_for_containers(directory)

    def admit_clients(self) -> None:
        """To the daemon that listens now. Containers that run see it, too."""
        with _named("containers cannot be let in to an MPS daemon"):
            for name in _FOR_CLIENTS:
                own, theirs = self.pipe / name, self.clients / name
                if not own.exists() or (theirs.exists() and theirs.samefile(own)):
                    continue
                aside = theirs.with_name(f".{name}")
                aside.unlink(missing_ok=True)
                aside.hardlink_to(own)
                aside.rename(theirs)

    def is_used_by(self, pid: int) -> bool:
        """Whether the daemon has this very directory, and not one that somebody has unmounted or removed since."""
        root = Path("/proc", str(pid), "root")
        own = root / apart.DIRECTORY.relative_to("/")
        try:
            return (
                self.path.samefile(own)
                and self.shm.samefile(root / "dev/shm")
                and (self.clients / "control").samefile(own / "pipe/control")
            )
        except OSError:
            return False

    def remove(self) -> None:
        """At once. What somebody has put below the mounts is removed in the background."""
        with _named("the directory of an MPS daemon cannot be removed"):
            for directory in (self.shm, self.path):
                mounts.unmount(directory)
            with suppress(FileNotFoundError):
                try:
                    self.path.rmdir()
                except OSError:
                    hostile_files.set_aside(self.path)
            if left := hostile_files.asides(self.path.parent):
                threading.Thread(target=_remove_all, args=(left,), daemon=True).start()

    def mark(self) -> str:
        """What the processes of this directory have in their environment. Containers cannot know it."""
        home = self.path.parent
        with suppress(FileNotFoundError):
            _known_keys[home] = (home / _KEY).read_text()
        # Where there never was one, no process has it.
        return f"{_known_keys.get(home) or secrets.token_hex(16)} {self.path}"

    def note_limited(self, gpus: Iterable[str]) -> None:
        """MPS has no command that takes a limit away, and not every driver says that there is one."""
        with _named("the limits of an MPS daemon cannot be noted"):
            self._limited.write_text("".join(f"{gpu}\n" for gpu in sorted({*gpus, *self.limited()})))

    def limited(self) -> frozenset[str]:
        try:
            return frozenset(self._limited.read_text().splitlines())
        except OSError:
            return frozenset()

    @property
    def _limited(self) -> Path:
        return self.path / "limited"

    def log_since_start(self) -> str:
        """What the daemon's log says of its present life."""
        try:
            tail = hostile_files.read_tail(self.log, "control.log", most=_LOG_TAIL)
        except OSError:
            return ""
        return tail.decode(errors="replace").rpartition("Starting control daemon")[2]

    def _make_home(self) -> None:
        home = self.path.parent
        home.mkdir(parents=True, exist_ok=True)
        status = home.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
            raise MpsError(
                f"{home} is not a directory that only {os.geteuid()} can write to", remedy="remove it, and try again"
            )
        home.chmod(0o700)
        secret = home / _KEY
        if not secret.exists():
            aside = secret.with_name(f"{_KEY}.{secrets.token_hex(8)}")
            aside.touch(mode=0o600)
            aside.write_text(_known_keys.get(home) or secrets.token_hex(16))
            # Whoever is first decides it.
            with suppress(FileExistsError):
                secret.hardlink_to(aside)
            aside.unlink()


def _remove_all(paths: list[Path]) -> None:
    for path in paths:
        # It is tried again with the next one.
        with suppress(OSError):
            hostile_files.remove(path)


@contextmanager
def _named(problem: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise MpsError(f"{problem}: {error}") from error
