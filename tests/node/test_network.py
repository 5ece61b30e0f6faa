"""Pods of a cluster with a network: they reach each other and the API server, and the kubelet's probes reach them."""

import json
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from harness import images
from harness.cluster import Cluster
from harness.eventually import eventually

pytestmark = pytest.mark.node


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(toolchain: Path) -> AsyncIterator[Cluster]:
    async with Cluster(node_names=["node-1", "node-2"], with_pod_network=True) as cluster:
        yield cluster


def _server(name: str, port: int = 80, **spec: Any) -> dict[str, Any]:
    """A pod that answers with its name, and is ready when the kubelet has asked it."""
    script = f"echo {name} >/tmp/name; exec httpd -f -p {port} -h /tmp"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {
                    "name": "server",
                    "image": images.SHELL,
                    "command": ["sh", "-c", script],
                    "readinessProbe": {"httpGet": {"path": "/name", "port": port}, "periodSeconds": 1},
                },
            ],
            **spec,
        },
    }


async def _run(cluster: Cluster, *pods: dict[str, Any]) -> list[str]:
    """Their addresses, when they are ready."""
    await cluster.kubectl(
        "create", "--filename=-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": pods})
    )
    names = [f"pod/{pod['metadata']['name']}" for pod in pods]
    await cluster.kubectl("wait", "--for=condition=Ready", *names, "--timeout=60s")
    return [await cluster.kubectl("get", name, "--output=jsonpath={.status.podIP}") for name in names]


async def _said(address: str) -> str:
    """By the pod that has this address, to this machine; nothing if it does not answer."""
    try:
        async with aiohttp.ClientSession() as session, session.get(f"http://{address}/name") as response:
            return await response.text()
    except aiohttp.ClientError:
        return ""


async def _delete(cluster: Cluster, *names: str) -> None:
    await cluster.kubectl("delete", "pod", *names)


async def test_pods_of_all_nodes_reach_each_other(cluster: Cluster) -> None:
    pods = [_server(f"on-{node}", nodeName=node) for node in cluster.nodes]
    addresses = await _run(cluster, *pods)

    assert len(set(addresses)) == 2
    for asking in cluster.nodes:
        for node, address in zip(cluster.nodes, addresses, strict=True):
            said = await cluster.kubectl("exec", f"on-{asking}", "--", "wget", "-q", "-O-", f"http://{address}/name")
            assert said == f"on-{node}\n"
    await _delete(cluster, "on-node-1", "on-node-2")


async def test_this_machine_reaches_pods(cluster: Cluster) -> None:
    (address,) = await _run(cluster, _server("asked"))
    assert await _said(address) == "asked\n"
    through_api_server = await cluster.kubectl("get", "--raw", "/api/v1/namespaces/default/pods/asked/proxy/name")
    assert through_api_server == "asked\n"
    await _delete(cluster, "asked")


async def test_pods_reach_the_api_server_at_its_service(cluster: Cluster) -> None:
    inside, beside = _server("inside"), _server("beside", 8088, hostNetwork=True, nodeName="node-1")
    for pod in (inside, beside):
        pod["spec"]["volumes"] = [{"name": "programs", "hostPath": {"path": str(cluster.programs)}}]
        pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "programs", "mountPath": "/programs"}]
    await _run(cluster, inside, beside)
    for name in ("inside", "beside"):
        # With the address and the token that each pod has, and the authority that signed the server's certificate.
        said = await cluster.kubectl("exec", name, "--", "/programs/kubectl", "auth", "whoami", "--output=json")
        assert json.loads(said)["status"]["userInfo"]["username"] == "system:serviceaccount:default:default"
    await _delete(cluster, "inside", "beside")


async def test_a_pod_that_does_not_answer_is_restarted(cluster: Cluster) -> None:
    pod = _server("silent")
    (container,) = pod["spec"]["containers"]
    container["livenessProbe"] = {"httpGet": {"path": "/no-such-file", "port": 80}, "periodSeconds": 1}
    await cluster.kubectl("create", "--filename=-", stdin=json.dumps(pod))

    async def is_restarted() -> None:
        assert await cluster.kubectl("get", "pod/silent", "--output=jsonpath={..restartCount}") not in ("", "0")

    await eventually(is_restarted)
    await _delete(cluster, "silent")


async def test_two_clusters_at_once(cluster: Cluster) -> None:
    async with Cluster(node_names=["node-1"], with_pod_network=True) as other:
        own, of_other = await _run(cluster, _server("twin")), await _run(other, _server("twin"))
        assert own != of_other
        assert len(_links()) >= 2
        own_link = _link_of(cluster)
        await _delete(cluster, "twin")

    async def other_link_is_gone() -> None:
        assert _link_of(other) == ""

    await eventually(other_link_is_gone)
    assert _link_of(cluster) == own_link != ""


async def test_pods_have_their_network_after_a_power_cut(cluster: Cluster) -> None:
    pod = _server("back", nodeName="node-2")
    await _run(cluster, pod)
    await cluster.nodes["node-2"].switch_off()
    await cluster.nodes["node-2"].switch_on()

    async def serves_again() -> None:
        assert await cluster.kubectl("get", "pod/back", "--output=jsonpath={..restartCount}") == "1"
        address = await cluster.kubectl("get", "pod/back", "--output=jsonpath={.status.podIP}")
        assert await _said(address) == "back\n"

    await eventually(serves_again)
    await _delete(cluster, "back")


def _links() -> list[dict[str, Any]]:
    listed = subprocess.run(["ip", "-json", "address"], capture_output=True, text=True, check=True)
    return [link for link in json.loads(listed.stdout) if link["ifname"].startswith("gs-")]


def _link_of(cluster: Cluster) -> str:
    """The interface of this machine with the address of the cluster's servers."""
    found = [
        link["ifname"] for link in _links() for address in link["addr_info"] if address["local"] == cluster.address
    ]
    return found[0] if found else ""
