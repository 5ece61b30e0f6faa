"""On nodes without a CDI spec of their GPUs, NVIDIA's own program writes one for us."""

import json
import os
import shutil
from pathlib import Path

import pytest

from agent.samples import prepared_device
from gpusharing import sim
from gpusharing.agent.containers import cdi
from gpusharing.agent.containers.cdi import AnotherGpuError, CdiDirectory, UnresolvableError, our_device
from gpusharing.nvidia import cdi_generation
from gpusharing.nvidia.cdi_generation import CdiGenerator
from gpusharing.nvidia.cdi_specs import MEMORY_LIMITS, CdiSpecs
from gpusharing.nvidia.errors import ProgramError, ProgramMissingError
from gpusharing.sim import Quirk
from gpusharing.sim import cdi as simulated

UID = "11111111-2222-3333-4444-555555555555"


@pytest.fixture
def node(tmp_path: Path) -> sim.SimNode:
    """As NVIDIA's GPU operator makes it."""
    return sim.create(tmp_path / "node", "H100-80GB:2", quirks=Quirk.NO_CDI | Quirk.OPERATOR_ROOT)


def install(node: sim.SimNode, tools: Path, place: str = "usr/local/nvidia/toolkit") -> Path:
    directory = node.directory / place
    directory.mkdir(parents=True)
    for program in ("nvidia-ctk", "nvidia-cdi-hook"):
        shutil.copy2(tools / program, directory / program)
    return directory


def resolved(cdi: CdiDirectory, gpu: sim.Gpu, *, minor: int | None = None) -> tuple[str, ...]:
    return cdi.devices(UID, 0, uuid=gpu.uuid, minor=gpu.minor if minor is None else minor, is_instance=False)


def cdi_of(node: sim.SimNode, program: Path | None = None) -> CdiDirectory:
    return CdiDirectory(CdiSpecs((node.cdi,)), CdiGenerator(node.directory, program))


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize("place", ["usr/bin", "usr/local/nvidia/toolkit", "opt/nvidia-toolkit/bin"])
def test_spec_is_generated_where_there_is_none(node: sim.SimNode, tools: Path, place: str) -> None:
    hook = install(node, tools, place) / "nvidia-cdi-hook"
    cdi = cdi_of(node)
    for gpu in node.gpus():
        assert resolved(cdi, gpu) == (f"gpusharing.dev/gpu={gpu.uuid}", our_device(UID, 0))
    specs = CdiSpecs((node.cdi,))
    device = f"gpusharing.dev/gpu={node.gpus()[1].uuid}"
    found = specs.device(device)
    assert found is not None
    assert "/dev/nvidia1" in found.nodes
    limits = specs.hook(device, MEMORY_LIMITS)
    assert limits is not None
    assert Path(limits.path) == hook
    spec = json.loads((node.cdi / "gpusharing.dev-gpu.json").read_text())
    libraries = {mount["hostPath"] for mount in spec["containerEdits"]["mounts"]}
    assert any(library.startswith(str(node.driver_root)) for library in libraries)


@pytest.mark.usefixtures("root")
def test_spec_is_renewed_with_the_driver_and_the_gpus(node: sim.SimNode, tools: Path) -> None:
    install(node, tools)
    first, second = node.gpus()
    cdi = cdi_of(node)
    cdi.begin({gpu.uuid: gpu.minor for gpu in node.gpus()})
    file = node.cdi / "gpusharing.dev-gpu.json"
    assert "580.173.02" in file.read_text()

    # The next agent, with the next driver.
    node.reload_driver("615")
    cdi = cdi_of(node)
    cdi.begin({gpu.uuid: gpu.minor for gpu in node.gpus()})
    assert "615.71.09" in file.read_text()
    assert "580.173.02" not in file.read_text()

    # A reboot has taken it away.
    file.unlink()
    resolved(cdi_of(node), first)
    assert file.exists()

    # The kernel counts the GPUs in another order than when it was generated.
    wrong = file.read_text().replace("/dev/nvidia0", "/dev/nvidia9")
    file.write_text(wrong)
    assert resolved(cdi_of(node), first)[0] == f"gpusharing.dev/gpu={first.uuid}"
    assert file.read_text() != wrong
    assert resolved(cdi_of(node), second)


@pytest.mark.usefixtures("root")
def test_what_could_not_be_generated_at_the_start_is_generated_for_prepared_claims(
    node: sim.SimNode, tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver was loaded anew, and the toolkit came after the agent. Nobody prepares the claim again."""
    monkeypatch.setattr(cdi, "_AGAIN", 0.0)
    directory = install(node, tools)
    gpu = node.gpus()[0]
    device = prepared_device(uuid=gpu.uuid).model_copy(update={"cdi_devices": resolved(cdi_of(node), gpu)})
    file = node.cdi / "gpusharing.dev-gpu.json"
    file.write_text(file.read_text().replace("/dev/nvidia0", "/dev/nvidia9"))
    away = directory.rename(directory.with_name("away"))
    agents = cdi_of(node)
    agents.begin({gpu.uuid: gpu.minor})
    with pytest.raises(AnotherGpuError):
        agents.check(device, minor=gpu.minor)
    away.rename(directory)
    agents.check(device, minor=gpu.minor)


@pytest.mark.usefixtures("root")
def test_nvidias_own_spec_is_used_where_it_is_good(node: sim.SimNode, tools: Path) -> None:
    install(node, tools)
    simulated.write_cdi_spec(node.cdi, node.gpus())
    first = node.gpus()[0]
    cdi = cdi_of(node)
    cdi.begin({gpu.uuid: gpu.minor for gpu in node.gpus()})
    assert resolved(cdi, first)[0] == f"nvidia.com/gpu={first.uuid}"
    assert not (node.cdi / "gpusharing.dev-gpu.json").exists()
    # It was written before a reboot that changed the order of the GPUs, and nobody has renewed it.
    spec = node.cdi / simulated.FILE_NAME
    spec.write_text(spec.read_text().replace("/dev/nvidia0", "/dev/nvidia1"))
    assert resolved(cdi_of(node), first)[0] == f"gpusharing.dev/gpu={first.uuid}"


def test_node_without_the_toolkit_says_what_to_do(node: sim.SimNode) -> None:
    cdi = cdi_of(node)
    cdi.begin({gpu.uuid: gpu.minor for gpu in node.gpus()})
    with pytest.raises(UnresolvableError) as error:
        resolved(cdi_of(node), node.gpus()[0])
    for text in (
        f"no CDI spec in {node.cdi} has the device nvidia.com/gpu={node.gpus()[0].uuid}, and none can be",
        "generated: nvidia-ctk is in none of usr/bin, ",
        "usr/local/nvidia/toolkit, run/nvidia/toolkit, opt/nvidia-toolkit/bin, ",
        f"below {node.directory}: ",
        "install nvidia-container-toolkit on the node, or set --nvidia-ctk",
    ):
        assert text in str(error.value)


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo it burns >&2; exit 3", "exit code 3: it burns"),
        ("echo none", "no JSON"),
        ("exec sleep 300", "no answer within"),
    ],
)
def test_toolkit_that_fails(node: sim.SimNode, script: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cdi_generation, "_TIMEOUT", 0.5)
    program = node.directory / "nvidia-ctk"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    with pytest.raises(ProgramError, match=why):
        CdiGenerator(node.directory, program).generate()


def test_toolkit_that_is_no_program(node: sim.SimNode) -> None:
    directory = node.directory / "usr/local/nvidia/toolkit"
    directory.mkdir(parents=True)
    (directory / "nvidia-ctk").touch(mode=0o644)
    with pytest.raises(ProgramMissingError):
        CdiGenerator(node.directory).generate()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("/driver-root/run/nvidia/driver/usr/lib64/libcuda.so.1", "/run/nvidia/driver/usr/lib64/libcuda.so.1"),
        ("--driver-root=/driver-root/run/nvidia/driver", "--driver-root=/run/nvidia/driver"),
        ("/driver-root", "/"),
        ("/driver-rooted/usr", "/driver-rooted/usr"),
        ("libcuda.so.1::/usr/lib64/libcuda.so", "libcuda.so.1::/usr/lib64/libcuda.so"),
        ({"a": ["/driver-root/b", 1, None]}, {"a": ["/b", 1, None]}),
    ],
)
def test_paths_are_the_hosts(value: object, expected: object) -> None:
    """The agent sees the host's root at a directory of its container."""
    assert cdi_generation._on_the_host(value, "/driver-root") == expected


def test_where_the_hosts_root_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = tmp_path / "driver-root"
    (seen / "run/nvidia/driver").mkdir(parents=True)
    assert cdi_generation._seen_as_root(seen) is None
    monkeypatch.setattr(cdi_generation, "_HOST", seen)
    assert cdi_generation._seen_as_root(seen) == seen
    assert cdi_generation._seen_as_root(seen / "run/nvidia/driver") == seen
    monkeypatch.setattr(cdi_generation, "_HOST", tmp_path / "absent")
    assert cdi_generation._seen_as_root(seen) is None


@pytest.fixture
def root() -> None:
    if os.geteuid() != 0:
        pytest.skip("device nodes are made by root only")
