"""docs/quickstart-kind.md: its commands, as far as they go without kind, on the oldest Kubernetes that is supported."""

import json
import re
import shlex
from typing import Any, Final

import pytest
import yaml

from harness.controlplane import ControlPlane
from harness.gpu_cluster import MANIFESTS, NAMESPACE
from manifests.rendering import ROOT

pytestmark = pytest.mark.cluster

PAGE: Final = (ROOT / "docs" / "quickstart-kind.md").read_text()
KIND: Final = yaml.safe_load((ROOT / "docs" / "quickstart-kind.yaml").read_text())
COMMANDS: Final = [
    shlex.split(line)
    for block in re.findall(r"^```sh\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    for line in block.splitlines()
]


def files_of(command: list[str]) -> list[str]:
    return [word for word in command if re.match(r"(docs|manifests|charts)/", word)]


def test_the_files_of_its_commands_exist() -> None:
    named = [name for command in COMMANDS for name in files_of(command)]
    assert set(named) == {
        "docs/quickstart-kind.yaml",
        "docs/examples/time-slicing.yaml",
        "manifests/overlays/simulated",
    }
    assert all((ROOT / name).exists() for name in named)


def test_the_images_of_its_commands_are_those_of_the_overlay() -> None:
    loaded, loaded_for_example = (command for command in COMMANDS if command[:2] == ["kind", "load"])
    tags = [command[command.index("--tag") + 1] for command in COMMANDS if command[:2] == ["docker", "build"]]
    assert loaded[-2:] == tags == [f"{_image(MANIFESTS)}", f"{_image(MANIFESTS.parent / 'overlays' / 'simulated')}"]
    for command in (loaded, loaded_for_example):
        assert command[command.index("--name") + 1] == KIND["name"]
    example = (ROOT / "docs/examples/time-slicing.yaml").read_text()
    assert set(re.findall(r"image: (\S+)", example)) == {loaded_for_example[-1]}


def _image(directory: Any) -> str:
    (image,) = yaml.safe_load((directory / "kustomization.yaml").read_text())["images"]
    return f"{image['newName']}:{image['newTag']}"


async def test_a_cluster_of_its_configuration_takes_the_overlay_and_the_example(toolchain: object) -> None:
    runtime = ",".join(f"{version}={on}" for version, on in KIND["runtimeConfig"].items())
    gates = ",".join(f"{gate}={str(on).lower()}" for gate, on in KIND["featureGates"].items())
    # Not for the scheduler: that of a newer version asks for DeviceTaintRules of a version that 1.36 does not have.
    flags = [f"--feature-gates={gates}"]
    async with ControlPlane(emulated_version="1.36", apiserver_flags=flags, runtime_config=runtime) as server:
        assert "devicetaintrules" in await server.kubectl("api-resources", "--api-group=resource.k8s.io")
        (node,) = KIND["nodes"]
        amounts = {"cpu": "4", "memory": "8Gi", "pods": "99"}
        made = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "node-1", "labels": node["labels"]},
            "status": {"allocatable": amounts, "capacity": amounts},
        }
        await server.kubectl("create", "--filename=-", stdin=json.dumps(made))
        for command in COMMANDS:
            if command[:2] == ["kubectl", "apply"]:
                *options, name = command[1:]
                await server.kubectl(*options, ROOT / name)
                await server.kubectl("wait", "--for=condition=Established", "crd", "--all")
        pods = ("pods", f"--namespace={NAMESPACE}", "--selector=app.kubernetes.io/name=gpusharing-agent")
        await server.kubectl("wait", "--for=create", *pods)
        await server.kubectl("wait", "--for=jsonpath={.spec.nodeName}=node-1", *pods)
