"""The image for clusters without GPUs makes nodes without a compiler, and their tools run."""

from pathlib import Path

import pytest

from gpusharing.sim import build
from image.built import SITE_PACKAGES, Image

pytestmark = [pytest.mark.image, pytest.mark.timeout(1800)]


def test_has_the_simulation_and_the_other_image_does_not(simulated_node: Image, image: Image) -> None:
    built = SITE_PACKAGES / "gpusharing/sim/built"
    names = {path.name for path in (simulated_node.rootfs / built).iterdir()}
    assert {build.RULES, build.CUDA, *build.PROGRAMS} < names
    assert not (image.rootfs / built).exists()
    *shared, _ = simulated_node.manifest["layers"]
    assert shared == image.manifest["layers"]


def test_makes_a_node_whose_tools_run(simulated_node: Image) -> None:
    created = simulated_node.run("gpusharing", "sim", "create", "/tmp/node", "--gpus", "H100-80GB:2", "--seed", "image")
    assert (created.returncode, created.stderr) == (0, "")
    listed = simulated_node.run("/tmp/node/bin/nvidia-smi", "-L")
    assert (listed.returncode, listed.stdout.count("NVIDIA H100 80GB HBM3")) == (0, 2)
    shown = simulated_node.run("gpusharing", "sim", "show", "/tmp/node")
    assert (shown.returncode, shown.stderr) == (0, "")


def test_without_it_people_are_told(image: Image) -> None:
    done = image.run("gpusharing", "sim", "create", "/tmp/node", "--gpus", "L4")
    assert done.returncode == 1
    assert "the image gpusharing-simulated-node need none" in done.stderr
    assert not list(Path(image.rootfs / "tmp/node").glob("bin/*"))
