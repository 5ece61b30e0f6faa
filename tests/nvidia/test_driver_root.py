"""The GPU driver is found wherever people install it, and when it is not, the error says what to do."""

import platform
from pathlib import Path

import pytest

from gpusharing import sim
from gpusharing.nvidia.driver_root import DriverRoot
from gpusharing.nvidia.errors import DriverNotFoundError, ProgramMissingError
from gpusharing.sim import Quirk
from nvidia.nodes import opened

MACHINE = platform.machine()


def install(directory: Path, library: str, program: str) -> None:
    for file in (directory / library / "libnvidia-ml.so.1", directory / program / "nvidia-smi"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()


@pytest.mark.parametrize(
    ("place", "library", "program"),
    [
        ("", "usr/lib64", "usr/bin"),
        ("", f"usr/lib/{MACHINE}-linux-gnu", "usr/bin"),
        ("", "lib64", "opt/bin"),
        ("run/nvidia/driver", f"usr/lib/{MACHINE}-linux-gnu", "usr/bin"),
        ("home/kubernetes/bin/nvidia", "lib64", "bin"),
        ("opt/nvidia", "lib64", "bin"),
        ("usr/local", "glibc/usr/lib", "bin"),
        ("", "usr/lib/nvidia/tesla", "usr/libexec/nvidia/tesla/bin"),
        (f"{MACHINE}-bottlerocket-linux-gnu/sys-root", "usr/lib/nvidia/tesla", "usr/libexec/nvidia/tesla/bin"),
    ],
)
def test_driver_is_found(tmp_path: Path, place: str, library: str, program: str) -> None:
    install(tmp_path / place, library, program)
    # By the host's root, and by the driver's own directory.
    for given in (tmp_path, tmp_path / place):
        root = DriverRoot.find(given)
        assert root.nvml_library().samefile(tmp_path / place / library / "libnvidia-ml.so.1")
        assert root.program("nvidia-smi").samefile(tmp_path / place / program / "nvidia-smi")


def test_another_machines_libraries_are_no_driver(tmp_path: Path) -> None:
    """As on hosts that also have the libraries of 32-bit programs."""
    install(tmp_path, "usr/lib/i386-linux-gnu", "usr/bin")
    with pytest.raises(DriverNotFoundError):
        DriverRoot.find(tmp_path)


def test_the_hosts_own_driver_comes_first(tmp_path: Path) -> None:
    """As with NVIDIA's GPU operator, which installs none where there is one."""
    install(tmp_path / "run/nvidia/driver", "usr/lib64", "usr/bin")
    install(tmp_path, "usr/lib64", "usr/bin")
    assert DriverRoot.find(tmp_path).path == tmp_path


@pytest.mark.parametrize(
    ("place", "link", "target"),
    [
        ("", "usr/lib64/libnvidia-ml.so.1", "/etc/alternatives/nvidia--libnvidia-ml.so.1"),
        ("run/nvidia/driver", "usr/lib64/libnvidia-ml.so.1", "/etc/alternatives/nvidia--libnvidia-ml.so.1"),
        ("", "lib64", "/usr/lib64"),
        # Of the host, not of the driver's directory.
        ("home/kubernetes/bin/nvidia", "lib64", "/home/kubernetes/elsewhere"),
    ],
)
def test_links_mean_the_hosts_files(tmp_path: Path, place: str, link: str, target: str) -> None:
    """Not those of the agent's container."""
    root = tmp_path / place
    (root / link).parent.mkdir(parents=True, exist_ok=True)
    (root / link).symlink_to(target)
    host = tmp_path if target.startswith("/home") else root
    real = host / target.removeprefix("/")
    if "alternatives" in target:
        real.parent.mkdir(parents=True)
        real.symlink_to("/usr/lib64/nvidia/current/libnvidia-ml.so.1")
        real = root / "usr/lib64/nvidia/current/libnvidia-ml.so.1"
    else:
        real /= "libnvidia-ml.so.1"
    real.parent.mkdir(parents=True, exist_ok=True)
    real.touch()
    assert DriverRoot.find(tmp_path).nvml_library() == real


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    (tmp_path / "lib64").symlink_to("/lib64/again")
    with pytest.raises(DriverNotFoundError):
        DriverRoot.find(tmp_path)


@pytest.mark.parametrize(
    ("there", "loaded", "why"),
    [
        ((), False, "is empty or absent: mount the host's root directory there, or set --driver-root"),
        (("usr",), False, "the kernel module is not loaded: install the GPU driver on the node"),
        (
            ("usr",),
            True,
            "although the kernel module is loaded: run `find / -name libnvidia-ml.so.1` on the",
        ),
        (("run/nvidia/driver",), False, "has no driver in it yet: look at the driver pods of NVIDIA's GPU operator"),
        # As a package that was removed leaves it.
        (("usr/lib64/libnvidia-ml.so.1",), False, "install the GPU driver"),
    ],
)
def test_what_to_do_when_there_is_none(tmp_path: Path, there: tuple[str, ...], why: str, *, loaded: bool) -> None:
    host, proc = tmp_path / "host", tmp_path / "proc"
    for each in there:
        path = host / each
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.name.startswith("lib"):
            path.symlink_to("libnvidia-ml.so.580")
        else:
            path.mkdir()
    if loaded:
        (proc / "driver/nvidia").mkdir(parents=True)
        (proc / "driver/nvidia/version").touch()
    with pytest.raises(DriverNotFoundError) as error:
        DriverRoot.find(host, proc=proc)
    assert why in str(error.value)
    for place in (host, host / "run/nvidia/driver", host / "home/kubernetes/bin/nvidia"):
        assert str(place) in str(error.value)


def test_missing_program_says_where_it_was_looked_for(tmp_path: Path) -> None:
    (tmp_path / "usr/lib64").mkdir(parents=True)
    (tmp_path / "usr/lib64/libnvidia-ml.so.1").touch()
    root = DriverRoot.find(tmp_path)
    with pytest.raises(ProgramMissingError, match=rf"nvidia-smi is not below {tmp_path} .*set --driver-root"):
        root.program("nvidia-smi")


async def test_node_of_the_gpu_operator(tmp_path: Path) -> None:
    node = sim.create(tmp_path / "node", "L4", quirks=Quirk.OPERATOR_ROOT)
    assert node.library.is_relative_to(node.directory / "run/nvidia/driver")
    async with opened(node) as hardware:
        (gpu,) = (await hardware.inventory()).gpus
        assert await hardware.time_slice(gpu.board.uuid) == "Default"
