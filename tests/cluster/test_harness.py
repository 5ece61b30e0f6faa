import asyncio
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.commands import CommandError
from harness.controlplane import ControlPlane
from harness.eventually import eventually
from harness.leftovers import traces_of
from harness.processes import Process, ProcessFailedError

pytestmark = pytest.mark.cluster

_HOLD_CONTROL_PLANE = """
import asyncio, signal
from harness.controlplane import ControlPlane

# A shell's background jobs, and their children, begin life deaf to it.
signal.signal(signal.SIGINT, signal.default_int_handler)

async def main():
    async with ControlPlane() as control_plane:
        print(control_plane.directory, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_two_side_by_side_are_ready_soon(toolchain: Path) -> None:
    started = time.monotonic()
    async with ControlPlane() as one, ControlPlane() as other:
        seconds = time.monotonic() - started
        print(f"two control planes: {seconds:.1f} s")
        assert seconds < 60

        await one.kubectl("create", "namespace", "only-here")
        with pytest.raises(CommandError, match="not found"):
            await other.kubectl("get", "namespace", "only-here")


async def test_components_have_their_own_rights(control_plane: ControlPlane) -> None:
    scheduler = await control_plane.user_kubeconfig("system:kube-scheduler")
    await control_plane.kubectl("get", "pods", "--all-namespaces", kubeconfig=scheduler)
    with pytest.raises(CommandError, match="forbidden"):
        await control_plane.kubectl("get", "secrets", "--all-namespaces", kubeconfig=scheduler)


@pytest.mark.parametrize(
    "arguments",
    [
        "ns",
        "services --field-selector=metadata.name=kubernetes",
        "svc/kubernetes",
        "serviceaccount default --namespace=kube-system --show-managed-fields",
        "serviceaccounts --all-namespaces",
        "clusterroles --selector=kubernetes.io/bootstrapping=rbac-defaults",
        "devicetaintrules",
    ],
)
async def test_get_tells_what_kubectl_tells(control_plane: ControlPlane, arguments: str) -> None:
    async def both_tell_the_same() -> None:
        told = json.loads(await control_plane.kubectl("get", *arguments.split(), "--output=json"))
        found = await control_plane.get(*arguments.split())
        if told["kind"] == "List":
            assert found["items"] == told["items"]
        else:
            assert found == told

    # What other tests have deleted may go between the two.
    await eventually(both_tell_the_same)


async def test_get_finds_what_has_come_since(control_plane: ControlPlane) -> None:
    with pytest.raises(CommandError, match="not have such a resource"):
        await control_plane.get("walls")
    names = {"plural": "walls", "singular": "wall", "kind": "Wall"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "walls.harness.test"},
        "spec": {"group": "harness.test", "scope": "Namespaced", "names": names, "versions": [version]},
    }
    await control_plane.kubectl("create", "--filename=-", stdin=json.dumps(definition))
    await control_plane.kubectl("wait", "--for=condition=Established", "crd/walls.harness.test")

    async def is_found() -> None:
        try:
            assert (await control_plane.get("walls"))["items"] == []
        except CommandError as error:
            raise AssertionError(str(error)) from error

    await eventually(is_found)
    with pytest.raises(CommandError, match="not found"):
        await control_plane.get("wall", "one")
    await control_plane.kubectl("delete", "crd/walls.harness.test")


async def test_kubelet_writes_only_its_own_node(control_plane: ControlPlane) -> None:
    for name in ("own", "other"):
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
        await control_plane.kubectl("create", "--filename=-", stdin=json.dumps(node))
    kubelet = await control_plane.user_kubeconfig("system:node:own", "system:nodes")

    await control_plane.kubectl("label", "node", "own", "example.test/by=kubelet", kubeconfig=kubelet)
    with pytest.raises(CommandError, match="only its own Node object"):
        await control_plane.kubectl("label", "node", "other", "example.test/by=kubelet", kubeconfig=kubelet)
    await control_plane.kubectl("delete", "node", "own", "other")


async def test_service_account_token_says_the_node(control_plane: ControlPlane) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "bound"}}
    await control_plane.kubectl("create", "--filename=-", stdin=json.dumps(node))
    agent = await control_plane.service_account_kubeconfig("default", "default", node="bound")

    review = json.loads(await control_plane.kubectl("auth", "whoami", "--output=json", kubeconfig=agent))
    user = review["status"]["userInfo"]
    assert user["username"] == "system:serviceaccount:default:default"
    assert user["extra"]["authentication.kubernetes.io/node-name"] == ["bound"]
    await control_plane.kubectl("delete", "node", "bound")


async def test_older_version_is_emulated(toolchain: Path) -> None:
    control_plane = ControlPlane(
        emulated_version="1.36",
        feature_gates={"DRAConsumableCapacity": True},
        runtime_config="resource.k8s.io/v1beta2=true",
    )
    async with control_plane:
        version = json.loads(await control_plane.kubectl("get", "--raw", "/version"))
        assert version["emulationMinor"] == "36"
        await control_plane.kubectl("get", "--raw", "/apis/resource.k8s.io/v1beta2")


async def test_killed_component_starts_again_where_it_was(toolchain: Path) -> None:
    async with ControlPlane() as control_plane:
        for component in (control_plane.etcd, control_plane.apiserver, control_plane.scheduler):
            await component.kill()
            assert not component.running
            await component.start()
        await control_plane.kubectl("get", "namespace", "default")


async def test_failure_shows_the_end_of_the_log(toolchain: Path) -> None:
    with pytest.raises(ProcessFailedError, match="unknown flag: --no-such-flag"):
        await ControlPlane(apiserver_flags=["--no-such-flag"]).__aenter__()


async def test_process_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    ready = tmp_path / "ready"

    async def is_ready() -> bool:
        return ready.exists()

    script = f"trap '' TERM; touch {ready}; while :; do sleep 1; done"
    process = Process(["sh", "-c", script], log=tmp_path / "stubborn.log", ready=is_ready, stop_within=0.2)
    async with process:
        assert process.running
    assert not process.running


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
async def test_nothing_is_left(toolchain: Path, end: signal.Signals) -> None:
    holder = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _HOLD_CONTROL_PLANE, cwd=Path(__file__).parents[1],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert holder.stdout
    directory = Path((await holder.stdout.readline()).decode().strip())
    traces = traces_of(holder.pid, directory)
    assert len(traces.processes) >= 6

    holder.send_signal(end)
    await holder.wait()

    async def nothing_remains() -> None:
        assert traces.remaining() == []

    await eventually(nothing_remains)
