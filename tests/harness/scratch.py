"""A directory that goes when its owner goes, also by SIGKILL.

A guard process waits for the end of a pipe that only the owner holds. It ends the programs that lie in the directory,
such as the daemons of a simulated node, which outlive their agent on purpose. It removes the directory and the control
groups of containers in it: these two the kernel leaves behind when it ends the processes.
"""

import contextlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from harness.ending import end_all
from harness.mounts import unmount_below

_TESTS = Path(__file__).parents[1]
# One directory for each container that runs; its name is the last part of its control group.
_CONTAINERS = "containerd/state/io.containerd.runtime.v2.task/k8s.io/*"
_CGROUPS = Path("/sys/fs/cgroup")
DAEMONS = "gpusharing"
"""Where agents put MPS daemons, with version 2: one for all nodes of this machine."""


@contextlib.contextmanager
def scratch_directory() -> Iterator[Path]:
    """A new directory with a short name: sockets of the kubelet's plugins below it have at most 107 bytes."""
    directory = Path(tempfile.mkdtemp(prefix="gs-", dir="/tmp"))
    # A session and an environment of its own: neither Ctrl-C nor the end of all that a run has started must end the
    # guard before its work.
    with subprocess.Popen(
        [sys.executable, "-P", "-m", __name__, str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env={"PYTHONPATH": str(_TESTS)},
        start_new_session=True,
    ):
        yield directory


def programs_below(directory: Path) -> list[int]:
    """The processes, of whatever parent, that run a program that lies there."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                if (entry / "exe").readlink().is_relative_to(directory):
                    found.append(int(entry.name))
    return found


def _remove(directory: Path) -> None:
    """Processes that are just being killed hold control groups and may still write files."""
    deadline = time.monotonic() + 20
    while directory.exists() and time.monotonic() < deadline:
        unmount_below(directory)
        if not remove_cgroups(directory):
            shutil.rmtree(directory, ignore_errors=True)
        time.sleep(0.05)


def remove_cgroups(directory: Path) -> list[Path]:
    """Of the containers of a node that has ended; returns those that are still in use."""
    containers = [container.name for container in directory.glob(_CONTAINERS)]
    in_use = []
    # Version 1 has a directory in each hierarchy, version 2 one for all.
    for parent in (_CGROUPS / "k8s.io", *_CGROUPS.glob("*/k8s.io")):
        in_use += [parent / container for container in containers if not _removed(parent / container)]
        _removed(parent)  # unless another node has containers
    for shared in (_CGROUPS / DAEMONS, *_CGROUPS.glob(f"*/{DAEMONS}")):
        _removed(shared)  # unless another node has daemons
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
    end_all(lambda: programs_below(Path(sys.argv[1])))
    _remove(Path(sys.argv[1]))
