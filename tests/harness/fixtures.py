"""The harness as a pytest plugin.

Nothing in the harness is bound to an event loop, so that tests, which run in loops of their own, use clusters of
fixtures that run in the session's or a module's loop.
"""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from harness import toolchain as programs
from harness.cluster import Cluster
from harness.controlplane import ControlPlane
from harness.foreign_modules import Module, download
from harness.installed_cluster import build_images
from harness.node import node_unavailable_reason
from harness.system import MissingProgramError, system_program

# What tests start by its name, and the packages of Debian that it comes with.
_PROGRAMS = {
    "cc": "gcc libc6-dev",
    "mount": "mount",
    "nsenter": "util-linux",
    "readelf": "binutils",
    "setpriv": "util-linux",
    "unshare": "util-linux",
}
_PROGRAMS_OF_CLUSTERS = {"openssl": "openssl"}
_PROGRAMS_OF_PAGES = {"chromium": "chromium"}
_PROGRAMS_OF_NODES = {"busybox": "busybox-static", "ip": "iproute2", "nft": "nftables", "runc": "runc"}


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Builds and installs before the first test: ten minutes are more than a test's timeout.

    Images, which a change of the sources makes old, are built by one worker while the others begin with tests that need
    none (`conftest.py`).
    """
    fixtures = {name for item in session.items for name in getattr(item, "fixturenames", ())}
    # Which fixtures a test has may be said by a parameter.
    if any(item.get_closest_marker("cluster") for item in session.items):
        fixtures.add("toolchain")
    if session.config.option.collectonly:
        return
    needed = dict(_PROGRAMS)
    if "toolchain" in fixtures:
        needed |= _PROGRAMS_OF_CLUSTERS
    if "browser" in fixtures:
        needed |= _PROGRAMS_OF_PAGES
    if os.geteuid() == 0 and any(item.get_closest_marker("node") for item in session.items):
        needed |= _PROGRAMS_OF_NODES
    try:
        for program, package in needed.items():
            system_program(program, package=package)
    except MissingProgramError as error:
        pytest.exit(str(error), returncode=pytest.ExitCode.USAGE_ERROR)
    builds = {
        "toolchain": programs.build,
        "nvidia_tools": programs.build_nvidia_tools,
        "prometheus": programs.build_prometheus,
        "promtool": programs.build_prometheus,
        "helm": programs.build_helm,
        "kueue": programs.build_kueue,
        "config_check": programs.build_config_check,
        "example_driver": programs.build_example_driver,
        "foreign_modules": download,
        "images": build_images,
    }
    for name, build in builds.items():
        if name in fixtures and (name != "images" or _is_first_worker()):
            capture = session.config.pluginmanager.getplugin("capturemanager")
            with capture.global_and_fixture_disabled():
                build()


def _is_first_worker() -> bool:
    """Also where there are no workers."""
    return os.environ.get("PYTEST_XDIST_WORKER", "gw0") == "gw0"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where no node can run, the tests say so."""
    reason = node_unavailable_reason()
    # In CI a node test that does not run is a failure: nobody would read the summary.
    if reason is None or os.environ.get("CI") == "true":
        return
    for item in items:
        if item.get_closest_marker("node"):
            item.add_marker(pytest.mark.skip(reason=f"not run: {reason}"))


@pytest.fixture(scope="session")
def toolchain() -> Path:
    """The directory with the programs of Kubernetes, etcd and containerd."""
    return programs.build()


@pytest.fixture(scope="session")
def nvidia_tools() -> Path:
    """The directory with `nvidia-ctk`, `nvidia-cdi-hook` and `device-walk`."""
    return programs.build_nvidia_tools()


@pytest.fixture(scope="session")
def images() -> list[Path]:
    """Archives of our images."""
    return build_images()


@pytest.fixture(scope="session")
def config_check() -> Path:
    """NVIDIA's own reader of opaque parameters."""
    return programs.build_config_check()


@pytest.fixture(scope="session")
def example_driver() -> Path:
    """Kubernetes' example of a driver for devices: its plugin for the kubelet."""
    return programs.build_example_driver()


@pytest.fixture(scope="session")
def prometheus() -> Path:
    """The directory with `prometheus` and `promtool`."""
    return programs.build_prometheus()


@pytest.fixture(scope="session")
def promtool() -> Path:
    """Prometheus' own program for tests of alerts."""
    return programs.build_prometheus() / "promtool"


@pytest.fixture(scope="session")
def helm() -> Path:
    """Helm, of the newest major version."""
    return programs.build_helm()


@pytest.fixture(scope="session")
def foreign_modules() -> dict[Module, Path]:
    """Folders with files of others."""
    return download()


@pytest.fixture(scope="session")
def kueue() -> Path:
    """The manager of Kueue."""
    return programs.build_kueue()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def control_plane(toolchain: Path) -> AsyncIterator[ControlPlane]:
    """One for all tests that share it: they clean up, or use names of their own."""
    async with ControlPlane() as control_plane:
        yield control_plane


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node_cluster(toolchain: Path) -> AsyncIterator[Cluster]:
    """A cluster with one node for the tests of a module."""
    async with Cluster(node_names=["node-1"]) as cluster:
        yield cluster
