"""Our hook, compiled as for the image, and machines on which NVIDIA's own is."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from agent.walls.site import Site
from gpusharing import sim
from gpusharing.agent.walls.build import build
from gpusharing.agent.walls.program import NAME
from toolkit.machine import machine
from toolkit.toolkit import Toolkit

BuildSite = Callable[..., Site]


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("wall") / NAME
    build(output)
    return output


@pytest.fixture
def build_site(nvidia_tools: Path, program: Path, tmp_path: Path) -> Iterator[BuildSite]:
    with ExitStack() as stack:

        def one(*, driver: str = "615", cgroups: str = "cgroup2") -> Site:
            node = sim.create(tmp_path / "node", "H100-80GB:2,L4", driver=driver)
            where = stack.enter_context(machine(node, cgroups=cgroups))
            spec = Toolkit(nvidia_tools, where, node).generate(tmp_path / "specs/nvidia.json")
            return Site(node, where, spec, tmp_path / "specs", program, tmp_path)

        yield one


@pytest.fixture
def site(build_site: BuildSite) -> Site:
    return build_site()
