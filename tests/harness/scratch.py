"""A directory that goes when its owner goes, also by SIGKILL.

A guard process waits for the end of a pipe that only the owner holds. It removes the directory and the control groups
of containers in it: these two the kernel leaves behind when it ends the processes.
"""

import contextlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

# One directory for each container that runs; its name is the last part of its control group.
_CONTAINERS = "containerd/state/io.containerd.runtime.v2.task/k8s.io/*"
_CGROUPS = Path("/sys/fs/cgroup")


@contextlib.contextmanager
def scratch_directory() -> Iterator[Path]:
    """A new directory with a short name: sockets of the kubelet's plugins below it have at most 107 bytes."""
    directory = Path(tempfile.mkdtemp(prefix="gs-", dir="/tmp"))
    # A session of its own: Ctrl-C must not end the guard before its work.
    command = [sys.executable, "-I", __file__, str(directory)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True):
        yield directory


def _remove(directory: Path) -> None:
    """Processes that are just being killed hold control groups and may still write files."""
    deadline = time.monotonic() + 20
    while directory.exists() and time.monotonic() < deadline:
        if not _remove_cgroups(directory):
            shutil.rmtree(directory, ignore_errors=True)
        time.sleep(0.05)


def _remove_cgroups(directory: Path) -> list[Path]:
    """Those that are still in use."""
    containers = [container.name for container in directory.glob(_CONTAINERS)]
    in_use = []
    # Version 1 has a directory in each hierarchy, version 2 one for all.
    for parent in (_CGROUPS / "k8s.io", *_CGROUPS.glob("*/k8s.io")):
        in_use += [parent / container for container in containers if not _removed(parent / container)]
        _removed(parent)  # unless another node has containers
    return in_use


def _removed(cgroup: Path) -> bool:
    try:
        cgroup.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


if __name__ == "__main__":
    sys.stdin.read()
    _remove(Path(sys.argv[1]))
