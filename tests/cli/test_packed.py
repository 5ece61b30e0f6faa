"""The command line as `make release` packs it for krew, run as somebody does whose Python has no packages."""

import hashlib
import os
import subprocess
import sys
import tarfile
import venv
from pathlib import Path
from typing import Final

import pytest
import yaml

from gpusharing import __version__

ROOT: Final = Path(__file__).parents[2]
SYSTEM: Final = sys.platform
ARCHITECTURE: Final = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
THIS: Final = f"{sys.version_info.major}.{sys.version_info.minor}"
OTHER: Final = "3.12" if THIS == "3.11" else "3.11"
URI: Final = "https://releases.example/0.1.0/"


def pack(directory: Path, python: str) -> Path:
    """For this machine only."""
    directory.mkdir()
    options = [f"--platform={SYSTEM}/{ARCHITECTURE}", f"--python={python}", f"--uri={URI}"]
    subprocess.run([sys.executable, ROOT / "tools/krew.py", __version__, directory, *options], check=True)
    return directory / f"gpusharing-cli_{__version__}_{SYSTEM}_{ARCHITECTURE}.tar.gz"


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pack(tmp_path_factory.mktemp("packed") / "first", THIS)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a Python that has nothing but its standard library."""
    directory = tmp_path_factory.mktemp("bare")
    venv.create(directory, symlinks=True)
    return directory / "bin"


def unpack(archive: Path, directory: Path) -> Path:
    """The program, as krew installs it: a link."""
    with tarfile.open(archive) as packed:
        packed.extractall(directory / "store", filter="data")
    program = directory / "kubectl-gpusharing"
    program.symlink_to("store/kubectl-gpusharing")
    return program


@pytest.fixture(scope="module")
def program(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack(archive, tmp_path_factory.mktemp("installed"))


def run(program: Path, bare: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": str(bare)}
    return subprocess.run(
        [program, *arguments], cwd=program.parent, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--version"], f"gpusharing {__version__}\n"),
        (["explain", "--help"], "usage: gpusharing explain"),
        (["validate", ROOT / "docs/examples/time-slicing.yaml"], "nothing found"),
        (["convert", "--help"], "usage: gpusharing convert"),
    ],
)
def test_runs_alone(program: Path, bare: Path, arguments: list[str | Path], said: str) -> None:
    done = run(program, bare, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert said in done.stdout


def test_the_page_is_packed(program: Path, bare: Path, tmp_path: Path) -> None:
    snapshot = tmp_path / "cluster.json"
    snapshot.write_text('{"apiVersion": "gpusharing.dev/v1alpha1", "kind": "Snapshot", "kubernetes": "1.37"}')
    done = run(program, bare, "ui", "-o", "html", "--snapshot", snapshot)
    assert (done.returncode, done.stderr) == (0, "")
    assert "No node has reported a GPU yet." in done.stdout


def test_another_python_is_named_with_those_that_are_needed(bare: Path, tmp_path: Path) -> None:
    done = run(unpack(pack(tmp_path / "other", OTHER), tmp_path), bare, "--version")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"gpusharing: {bare}/python3 is Python {sys.version.split()[0]}; needed is CPython {OTHER}: "
        "install one, and put its python3 first in PATH\n"
    )


def test_twice_is_the_same(archive: Path, tmp_path: Path) -> None:
    assert pack(tmp_path / "second", THIS).read_bytes() == archive.read_bytes()


def test_manifest_names_the_archive(archive: Path) -> None:
    manifest = yaml.safe_load((archive.parent / "gpusharing.yaml").read_text())
    assert manifest["spec"]["version"] == f"v{__version__}"
    assert manifest["spec"]["platforms"] == [
        {
            "selector": {"matchLabels": {"os": SYSTEM, "arch": ARCHITECTURE}},
            "uri": f"{URI}{archive.name}",
            "sha256": hashlib.sha256(archive.read_bytes()).hexdigest(),
            "bin": "kubectl-gpusharing",
        }
    ]
    with tarfile.open(archive) as packed:
        assert {"LICENSE", "kubectl-gpusharing"} <= set(packed.getnames())
