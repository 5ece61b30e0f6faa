"""The wheel has what is in C: GPUs are simulated where no compiler is, also on systems that are some years old."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Of a node in a new directory, as its driver's library tells.
COUNT = """
import sys
from pathlib import Path
import gpusharing, pynvml
from gpusharing import sim
from gpusharing.sim import build

assert build.build() == Path(gpusharing.__file__).parent / "sim/built", build.build()
node = sim.create(Path(sys.argv[1]), "H100-80GB:2,A100-40GB:1", seed="here")
print(len(node.gpus()), node.nvidia_smi)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("wheel")
    command: list[str | Path] = [
        Path(sys.executable).with_name("hatchling"),
        "build",
        "--target",
        "wheel",
        "--directory",
        directory,
    ]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = directory.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path) -> Path:
    """By uv, which needs no index for it. Dependencies are those of the tests."""
    directory = wheel.parent / "installed"
    uv: list[str | Path] = [
        Path(sys.executable).with_name("uv"),
        "pip",
        "install",
        "--quiet",
        "--offline",
        "--no-deps",
        "--no-cache",
    ]
    subprocess.run([*uv, "--python", sys.executable, "--target", directory, wheel], check=True)
    return directory


def environment(installed: Path, home: Path) -> dict[str, str]:
    """Nothing of the checkout, and no compiler."""
    return {"PYTHONPATH": str(installed), "HOME": str(home), "PATH": str(home)}


def test_runs_on_systems_with_an_older_c_library(wheel: Path, installed: Path) -> None:
    """Those of manylinux_2_28: RHEL 8, Debian 10, Ubuntu 20.04 and what came after them."""
    needed = set()
    for file in (installed / "gpusharing/sim/built").iterdir():
        read = subprocess.run(["readelf", "--version-info", file], capture_output=True, text=True, check=False)
        needed |= {(int(major), int(minor)) for major, minor in re.findall(r"Name: GLIBC_(\d+)\.(\d+)", read.stdout)}
    assert (2, 2) < max(needed) <= (2, 28)
    assert wheel.name.endswith(f"-py3-none-manylinux_2_{max(needed)[1]}_{os.uname().machine}.whl")


def test_gpus_without_a_compiler(installed: Path, tmp_path: Path) -> None:
    command: list[str | Path] = [sys.executable, "-c", COUNT, tmp_path / "node"]
    done = subprocess.run(command, env=environment(installed, tmp_path), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    count, tool = done.stdout.split()
    assert count == "3"
    listed = subprocess.run([tool, "-L"], env={}, check=True, capture_output=True, text=True).stdout
    assert [line[:6] for line in listed.splitlines()] == ["GPU 0:", "GPU 1:", "GPU 2:"]
    assert not (tmp_path / ".cache").exists()
    assert os.access(installed / "gpusharing/agent/walls/gpusharing-wall", os.X_OK)


@pytest.mark.parametrize("damage", ["sources", "library"])
def test_what_does_not_fit_is_not_used(installed: Path, tmp_path: Path, damage: str) -> None:
    """Other sources, and a library of another machine: it is to be compiled, and there is no compiler."""
    place = {"sources": "csrc/driver/store.c", "library": "built/libgpusharing-sim.so"}[damage]
    file = installed / "gpusharing/sim" / place
    before = file.read_bytes()
    file.write_bytes(before + b"/* other */" if damage == "sources" else b"another machine's")
    try:
        command: list[str | Path] = [sys.executable, "-c", COUNT, tmp_path / "node"]
        done = subprocess.run(
            command, env=environment(installed, tmp_path), capture_output=True, text=True, check=False
        )
        assert "needs a C compiler, `cc`: apt-get install gcc libc6-dev" in done.stderr
    finally:
        file.write_bytes(before)
