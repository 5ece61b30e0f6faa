"""Nodes with Grace processors: the same image for arm64, and its programs under an emulator."""

import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from gpusharing.agent.walls.program import NAME
from harness.system import system_program
from image.built import EMULATOR, NEEDED, RUNTIME, SIMULATED_NODE, SITE_PACKAGES, Image
from image.conftest import BuildImages
from image.test_image import elf_files

pytestmark = [pytest.mark.image, pytest.mark.timeout(1800)]

AARCH64: Final = 183


@pytest.fixture(scope="module", params=[RUNTIME, SIMULATED_NODE])
def arm64(build_images: BuildImages, request: pytest.FixtureRequest) -> Image:
    return build_images("arm64")[request.param]


def run(image: Image, *arguments: str) -> subprocess.CompletedProcess[str]:
    """By Python, since the kernel would have to know the emulator to start anything else."""
    emulator = system_program(EMULATOR, package=NEEDED[EMULATOR])
    shutil.copy(emulator, image.rootfs / "tmp" / EMULATOR)
    return image.run(f"/tmp/{EMULATOR}", "/opt/gpusharing/bin/python", *arguments)


def test_nothing_in_it_is_for_another_machine(arm64: Image) -> None:
    assert arm64.config["architecture"] == "arm64"
    found = list(elf_files(arm64.rootfs))
    assert {"gpusharing-wall", "nsenter", "python3.11"} <= {path.name for path in found}
    for path in found:
        with path.open("rb") as file:
            assert int.from_bytes(file.read(20)[18:20], "little") == AARCH64 or path.name == EMULATOR, path


@pytest.mark.parametrize("command", ["operator", "agent"])
def test_programs_start(build_images: BuildImages, command: str) -> None:
    done = run(build_images("arm64")[RUNTIME], "/opt/gpusharing/bin/gpusharing", command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"usage: gpusharing {command}")


def test_has_the_same_packages_as_the_other(build_images: BuildImages, image: Image) -> None:
    ours, others = (
        {path.name for path in (one.rootfs / SITE_PACKAGES).glob("*.dist-info")}
        for one in (build_images("arm64")[RUNTIME], image)
    )
    assert ours == others


def test_simulated_node_is_made(build_images: BuildImages) -> None:
    image = build_images("arm64")[SIMULATED_NODE]
    done = run(image, "/opt/gpusharing/bin/gpusharing", "sim", "create", "/tmp/node", "--gpus", "H200:2")
    assert (done.returncode, done.stderr) == (0, "")
    shown = run(image, "/opt/gpusharing/bin/gpusharing", "sim", "show", "/tmp/node")
    assert (shown.returncode, shown.stdout.count("H200")) == (0, 2)


def test_hook_starts(build_images: BuildImages, tmp_path: Path) -> None:
    hook = build_images("arm64")[RUNTIME].rootfs / SITE_PACKAGES / "gpusharing/agent/walls" / NAME
    done = subprocess.run(
        [system_program(EMULATOR, package=NEEDED[EMULATOR]), hook, tmp_path / "absent"],
        input="{}",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "memory wall" in done.stderr
