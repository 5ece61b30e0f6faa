"""What CDI specs offer, whoever wrote them."""

import json
import os
import tracemalloc
from pathlib import Path

import pytest

from gpusharing.nvidia import cdi_specs
from gpusharing.nvidia.cdi_specs import OUR_PREFIX, CdiSpecs, Hook, nvidia_device

HOOK = {"hookName": "createRuntime", "path": "/usr/bin/nvidia-cdi-hook", "args": ["nvidia-cdi-hook", "one"]}
OTHER = {"hookName": "createContainer", "path": "/usr/bin/nvidia-cdi-hook", "args": ["nvidia-cdi-hook", "other"]}


def spec(**of_device: object) -> dict[str, object]:
    return {"kind": "nvidia.com/gpu", "devices": [{"name": "GPU-a", "containerEdits": of_device}, {"name": "GPU-b"}]}


def write(directory: Path, content: object, name: str = "nvidia.json") -> None:
    (directory / name).write_text(json.dumps(content))


def test_hooks_of_a_device_and_of_all(tmp_path: Path) -> None:
    write(tmp_path, {**spec(hooks=[HOOK]), "containerEdits": {"hooks": [OTHER]}})
    specs = CdiSpecs((tmp_path,))
    assert specs.hooks_of(nvidia_device("GPU-a")) == {"nvidia-cdi-hook", "one", "other"}
    assert specs.hooks_of(nvidia_device("GPU-b")) == {"nvidia-cdi-hook", "other"}
    assert specs.hooks_of(nvidia_device("GPU-c")) == frozenset()


def test_a_hook_as_it_is_called(tmp_path: Path) -> None:
    nameless = {"hookName": "createRuntime", "args": ["nvidia-cdi-hook", "one"]}
    write(tmp_path, spec(hooks=[nameless, OTHER, {**HOOK, "env": ["NVIDIA_CTK_DEBUG=false"]}]))
    specs = CdiSpecs((tmp_path,))
    assert specs.hook(nvidia_device("GPU-a"), "one") == Hook(
        "/usr/bin/nvidia-cdi-hook", ("nvidia-cdi-hook", "one"), ("NVIDIA_CTK_DEBUG=false",)
    )
    assert specs.hook(nvidia_device("GPU-a"), "three") is None
    assert specs.hook(nvidia_device("GPU-c"), "one") is None


def test_yaml_and_changes_are_read(tmp_path: Path) -> None:
    specs = CdiSpecs((tmp_path / "absent", tmp_path))
    assert not specs.has("nvidia.com/gpu=GPU-a")
    (tmp_path / "nvidia.yaml").write_text("kind: nvidia.com/gpu\ndevices:\n- name: GPU-a\n")
    assert specs.has("nvidia.com/gpu=GPU-a")
    (tmp_path / "nvidia.yaml").unlink()
    assert not specs.has("nvidia.com/gpu=GPU-a")


@pytest.mark.parametrize(
    "content",
    [
        None,
        [],
        {"kind": "nvidia.com/gpu"},
        {"kind": "nvidia.com/gpu", "devices": ["GPU-a"]},
        spec(hooks="what"),
        spec(hooks=[7, {"args": None}]),
        {**spec(), "containerEdits": ["what"]},
    ],
)
def test_broken_specs_offer_what_can_be_read_of_them(tmp_path: Path, content: object) -> None:
    write(tmp_path, content)
    assert CdiSpecs((tmp_path,)).hooks_of(nvidia_device("GPU-a")) == frozenset()


def test_our_own_specs_are_not_read(tmp_path: Path) -> None:
    write(tmp_path, spec(), f"{OUR_PREFIX}uid.json")
    write(tmp_path, spec(), "nvidia.json.tmp")
    assert not CdiSpecs((tmp_path,)).has(nvidia_device("GPU-a"))


GPU = nvidia_device("GPU-a")


def with_nodes(*nodes: str, kind: str = "nvidia.com/gpu") -> dict[str, object]:
    edits = {"deviceNodes": [{"path": node} for node in nodes]}
    return {"cdiVersion": "0.5.0", "kind": kind, "devices": [{"name": "GPU-a", "containerEdits": edits}]}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    return tmp_path / "run"


@pytest.fixture
def etc(tmp_path: Path) -> Path:
    (tmp_path / "etc").mkdir()
    return tmp_path / "etc"


def test_a_directory_wins_over_those_behind_it(run: Path, etc: Path) -> None:
    """As for the runtime: a spec by hand of long ago beside the one that a service keeps."""
    write(etc, {**with_nodes("/dev/nvidia7"), "containerEdits": {"env": ["A=etc"]}})
    write(run, {**with_nodes("/dev/nvidia0"), "containerEdits": {"env": ["A=run"]}})
    specs = CdiSpecs((run, etc))
    found = specs.device(GPU)
    assert found is not None
    assert found.nodes == {"/dev/nvidia0"}
    assert specs.nvidia_common() == {"cdiVersion": "0.5.0", "containerEdits": {"env": ["A=run"]}}
    (run / "nvidia.json").unlink()
    found = specs.device(GPU)
    assert found is not None
    assert found.nodes == {"/dev/nvidia7"}


@pytest.mark.parametrize("twice", ["run", "etc"])
def test_a_name_that_one_directory_has_twice_is_nobodys(run: Path, etc: Path, twice: str) -> None:
    """The runtime drops it altogether, also where another directory has it once."""
    for directory in (run, etc):
        write(directory, with_nodes("/dev/nvidia0"))
    specs = CdiSpecs((run, etc))
    assert specs.has(GPU)
    write({"run": run, "etc": etc}[twice], with_nodes("/dev/nvidia0"), "again.json")
    assert not specs.has(GPU)


def test_nvidias_own_device_is_better_than_one_that_was_generated(run: Path) -> None:
    specs = CdiSpecs((run,))
    assert specs.gpu("GPU-a") == GPU
    write(run, with_nodes("/dev/nvidia0", kind="gpusharing.dev/gpu"), "gpusharing.dev-gpu.json")
    assert specs.gpu("GPU-a") == "gpusharing.dev/gpu=GPU-a"
    write(run, with_nodes("/dev/nvidia0"))
    assert specs.gpu("GPU-a") == GPU


@pytest.mark.parametrize("kind", ["management.nvidia.com/gpu", "nvidia.com/gpu.shared", "xnvidia.com/gpu", "a.b/gpu"])
def test_other_kinds_are_not_ours(run: Path, kind: str) -> None:
    write(run, with_nodes("/dev/nvidia0", kind=kind))
    assert not CdiSpecs((run,)).has(GPU)


def test_files_of_other_drivers_cost_nothing_and_are_forgotten(run: Path) -> None:
    """One for each of their claims: 3,000 of them took 80 MiB."""
    write(run, with_nodes("/dev/nvidia0"))
    edits = {"env": [f"V{number}={'x' * 100}" for number in range(40)]}
    for number in range(500):
        write(run, {"kind": "k8s.compute-domain.nvidia.com/claim", "devices": [{"name": "x", "containerEdits": edits}]},
              f"k8s.compute-domain.nvidia.com-claim_{number}.json")  # fmt: skip
    tracemalloc.start()
    specs = CdiSpecs((run,))
    assert specs.has(GPU)
    kept, _ = tracemalloc.get_traced_memory()
    assert kept / 500 < 1000
    for file in run.glob("k8s*"):
        file.unlink()
    assert specs.has(GPU)
    left, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert left < kept / 3


def test_only_what_changed_is_read_again(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(run, with_nodes("/dev/nvidia0"))
    write(run, {"kind": "other.com/gpu"}, "other.json")
    os.utime(run, ns=(1, 1))
    specs = CdiSpecs((run,))
    assert specs.has(GPU)
    read: list[str] = []
    real = cdi_specs._spec

    def noted(path: Path) -> object:
        read.append(path.name)
        return real(path)

    monkeypatch.setattr(cdi_specs, "_spec", noted)
    monkeypatch.setattr(cdi_specs, "_paths", lambda _: pytest.fail("listed again"))
    assert specs.has(GPU)
    assert read == []
    # Written over, in place.
    (run / "nvidia.json").write_text(json.dumps(with_nodes("/dev/nvidia1")))
    found = specs.device(GPU)
    assert found is not None
    assert found.nodes == {"/dev/nvidia1"}
    assert read == ["nvidia.json"]


def test_monstrous_files_are_not_read(run: Path) -> None:
    with (run / "nvidia.json").open("wb") as file:
        file.truncate(1024**3)
    os.mkfifo(run / "pipe.json")
    (run / "deep.json").write_text('{"kind": "nvidia.com/gpu", "devices": ' + "[" * 100_000)
    (run / "directory.json").mkdir()
    assert not CdiSpecs((run,)).has(GPU)
