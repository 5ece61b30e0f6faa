"""What CDI specs offer, whoever wrote them."""

import json
from pathlib import Path

import pytest

from gpusharing.agent.cdi_specs import OUR_PREFIX, CdiSpecs, Hook, nvidia_device

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
