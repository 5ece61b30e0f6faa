"""That what manifests/base starts fits the programs: flags, directories, rights."""

import argparse
import json
import shlex
from typing import Any

import pytest

from gpusharing.agent import command as agent_command
from gpusharing.api.crd import DEFINITIONS
from gpusharing.controller import command as operator_command
from harness.controlplane import ControlPlane
from harness.eventually import eventually
from harness.gpu_cluster import MANIFESTS

OURS = "app.kubernetes.io/part-of=gpu-sharing"

pytestmark = pytest.mark.cluster


async def guards(control_plane: ControlPlane) -> dict[str, Any]:
    listed = json.loads(await control_plane.kubectl("get", "validatingadmissionpolicies", "--output=json"))
    return {item["metadata"]["name"]: item for item in listed["items"]}


async def test_everything_is_accepted_and_no_expression_is_doubted(installed: ControlPlane) -> None:
    policies = await guards(installed)
    assert set(policies) == {
        "gpusharing-agent",
        "gpusharing-agent-events",
        "gpusharing-allocation",
        "gpusharing-claims",
        "gpusharing-closing",
        "gpusharing-in-use",
        "gpusharing-kubelets",
        "gpusharing-operator",
        "gpusharing-operator-events",
        "gpusharing-operator-property",
        "gpusharing-operator-taint-rules",
        "gpusharing-pods",
        "gpusharing-tolerations",
    }

    async def checked() -> None:
        # Types are checked by a controller, some time after a guard was written.
        for name, guard in (await guards(installed)).items():
            assert guard["status"].get("observedGeneration") == guard["metadata"]["generation"], name
            assert guard["status"]["typeChecking"] == {}, name

    await eventually(checked)
    crds = (await installed.kubectl("get", "crd", "--output=name", f"--selector={OURS}")).split()
    assert set(crds) == {f"customresourcedefinition.apiextensions.k8s.io/{item.name}" for item in DEFINITIONS}


async def test_the_api_server_keeps_all_of_it_as_it_is_written(installed: ControlPlane) -> None:
    # Otherwise GitOps would apply it again and again.
    assert await installed.kubectl("diff", "--kustomize", MANIFESTS) == ""


async def container(control_plane: ControlPlane, workload: str) -> Any:
    found = await control_plane.kubectl("get", workload, "--namespace=gpusharing-system", "--output=json")
    (only,) = json.loads(found)["spec"]["template"]["spec"]["containers"]
    return only


def parsed(module: Any, container: Any) -> argparse.Namespace:
    command = [*container["command"], *container.get("args", [])]
    parser = argparse.ArgumentParser(exit_on_error=False)
    module.register(parser.add_subparsers())
    assert command[0] == "gpusharing"
    return parser.parse_args(command[1:])


async def test_the_operator_understands_its_flags(installed: ControlPlane) -> None:
    operator = await container(installed, "deployment/gpusharing-operator")
    arguments = parsed(operator_command, operator)
    assert arguments.kubeconfig is None
    assert arguments.listen.port == operator["ports"][0]["containerPort"]


async def test_the_operator_may_hold_the_lease_that_it_asks_for(installed: ControlPlane) -> None:
    operator = await container(installed, "deployment/gpusharing-operator")
    arguments = parsed(operator_command, operator)
    user = "--as=system:serviceaccount:gpusharing-system:gpusharing-operator"
    for verb, name in {"get": f"/{arguments.lease_name}", "patch": f"/{arguments.lease_name}", "create": ""}.items():
        asked = ["auth", "can-i", verb, f"leases.coordination.k8s.io{name}"]
        answer = await installed.kubectl(*asked, f"--namespace={arguments.lease_namespace}", user)
        assert answer == "yes\n"


async def test_a_replica_more_is_ready_before_one_less_is_and_a_drain_leaves_one(installed: ControlPlane) -> None:
    namespace = "--namespace=gpusharing-system"
    found = json.loads(await installed.kubectl("get", namespace, "deployment,poddisruptionbudget", "--output=json"))[
        "items"
    ]
    deployment, budget = (item["spec"] for item in sorted(found, key=lambda item: str(item["kind"])))
    assert deployment["replicas"] > budget["maxUnavailable"]
    assert deployment["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    labels = deployment["template"]["metadata"]["labels"]
    [spread] = deployment["template"]["spec"]["topologySpreadConstraints"]
    assert budget["selector"] == spread["labelSelector"] == deployment["selector"]
    assert deployment["selector"]["matchLabels"].items() <= labels.items()


@pytest.mark.parametrize("workload", ["deployment/gpusharing-operator", "daemonset/gpusharing-agent"])
async def test_probes_ask_for_what_is_served(installed: ControlPlane, workload: str) -> None:
    probed = await container(installed, workload)
    [port] = probed["ports"]
    asked = {probe: probed[probe]["httpGet"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert {probe: (one["path"], one["port"]) for probe, one in asked.items()} == {
        "startupProbe": ("/healthz", port["name"]),
        "livenessProbe": ("/healthz", port["name"]),
        "readinessProbe": ("/readyz", port["name"]),
    }


async def test_the_agent_understands_its_flags_and_its_directories_are_mounted(installed: ControlPlane) -> None:
    agent = await container(installed, "daemonset/gpusharing-agent")
    arguments = parsed(agent_command, agent)
    assert arguments.node_name == "$(NODE_NAME)"
    assert arguments.listen.port == agent["ports"][0]["containerPort"]
    mounts = {mount["mountPath"]: mount.get("readOnly", False) for mount in agent["volumeMounts"]}
    kubelet = str(arguments.kubelet_root)
    written, *read = map(str, arguments.cdi_dirs)
    assert mounts == {
        str(arguments.driver_root): True,
        f"{kubelet}/plugins": False,
        f"{kubelet}/plugins_registry": False,
        written: False,
        **dict.fromkeys(read, True),
        str(arguments.state_dir): False,
        str(arguments.mps_dir): False,
        str(arguments.dev_root): False,
    }, shlex.join(agent["args"])
