"""Programs of a node that are killed at any of their changes of the file system: whoever comes next sees it whole."""

from __future__ import annotations

import signal
import subprocess
from itertools import count
from pathlib import Path

import pytest

from gpusharing import sim
from sim import calls

PROGRAM = Path(__file__).parent / "programs/mortal.c"
CREATE = ("mig", "-cgi", "14", "-C")
DESTROY = (("mig", "-dci"), ("mig", "-dgi"))
LIFE = {
    "made for the first time": CREATE,
    "compute instance destroyed": DESTROY[0],
    "GPU instance destroyed": DESTROY[1],
    "made again": CREATE,
}


@pytest.fixture(scope="module")
def mortality(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("mortality") / "mortal.so"
    subprocess.run(["cc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", library, PROGRAM, "-ldl"], check=True)
    return library


def smi(node: sim.SimNode, *arguments: str) -> None:
    subprocess.run([node.nvidia_smi, *arguments], check=True, stdout=subprocess.DEVNULL)


def is_killed(node: sim.SimNode, *arguments: str, mortality: Path, survived: int) -> bool:
    environment = {"LD_PRELOAD": str(mortality), "SURVIVED": str(survived)}
    done = subprocess.run(
        [node.nvidia_smi, *arguments], env=environment, stdout=subprocess.DEVNULL, check=False, umask=0o077
    )
    assert done.returncode in (0, -signal.SIGKILL)
    return done.returncode != 0


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize("step", range(len(LIFE)), ids=list(LIFE))
def test_instances(tmp_path: Path, mortality: Path, step: int) -> None:
    *before, last = list(LIFE.values())[: step + 1]
    for survived in count():
        node = sim.create(tmp_path / str(survived), "H100-80GB")
        smi(node, "-mig", "1")
        for arguments in before:
            smi(node, *arguments)
        # Made again by whoever writes files, so that this one too is seen half made, if it can be.
        (node.dev / "nvidia0").unlink()
        was_killed = is_killed(node, *last, mortality=mortality, survived=survived)
        calls.expect_whole(node)
        for arguments in (*DESTROY, CREATE):
            subprocess.run([node.nvidia_smi, *arguments], check=False, stdout=subprocess.DEVNULL)
        calls.expect_whole(node)
        if not was_killed:
            break
    # Each step has at least that device, one of an instance and a directory.
    assert survived > 2
