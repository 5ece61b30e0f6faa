import platform
from collections.abc import Callable
from functools import cache

import pytest

from image.built import RUNTIME, SIMULATED_NODE, Image, build

BuildImages = Callable[[str], dict[str, Image]]


@pytest.fixture(scope="session")
def build_images(tmp_path_factory: pytest.TempPathFactory) -> BuildImages:
    """The images for an architecture, built once."""

    @cache
    def built(architecture: str) -> dict[str, Image]:
        directory = tmp_path_factory.mktemp(architecture)
        return {name: Image(archive, directory / name) for name, archive in build(architecture).items()}

    return built


@pytest.fixture(scope="session")
def own_architecture() -> str:
    return {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]


@pytest.fixture(scope="session")
def image(build_images: BuildImages, own_architecture: str) -> Image:
    return build_images(own_architecture)[RUNTIME]


@pytest.fixture(scope="session")
def simulated_node(build_images: BuildImages, own_architecture: str) -> Image:
    return build_images(own_architecture)[SIMULATED_NODE]
