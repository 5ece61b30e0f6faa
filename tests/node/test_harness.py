import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from harness import images, supervisor
from harness.allocatable import missing_devices
from harness.cluster import Cluster
from harness.commands import run
from harness.eventually import eventually
from harness.leftovers import traces_of
from harness.workloads import claim, claim_spec, pod, policy

pytestmark = pytest.mark.node


def _pod(name: str, node: str = "node-1") -> str:
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "nodeSelector": {"kubernetes.io/hostname": node},
            "containers": [
                {"name": "shell", "image": images.SHELL, "command": ["sh", "-c", "echo started; sleep 1000"]},
            ],
        },
    }
    return json.dumps(pod)


async def _run_pod(cluster: Cluster, name: str, node: str = "node-1") -> None:
    await cluster.kubectl("create", "--filename=-", stdin=_pod(name, node))
    await cluster.kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=60s")


async def test_pod_runs_with_logs_and_exec(node_cluster: Cluster) -> None:
    await _run_pod(node_cluster, "talks")
    assert await node_cluster.kubectl("logs", "talks") == "started\n"
    assert "sleep 1000" in await node_cluster.kubectl("exec", "talks", "--", "ps")
    await node_cluster.kubectl("delete", "pod", "talks")


async def test_pod_survives_a_killed_kubelet(node_cluster: Cluster) -> None:
    await _run_pod(node_cluster, "stays")
    await node_cluster.node.kubelet.kill()
    assert not node_cluster.node.kubelet.running
    await node_cluster.node.kubelet.start()
    await _run_pod(node_cluster, "comes")

    assert await node_cluster.kubectl("logs", "stays") == "started\n"
    assert (await node_cluster.kubectl("get", "pod", "stays", "--output=jsonpath={..restartCount}")) == "0"
    await node_cluster.kubectl("delete", "pod", "stays", "comes")


async def test_sockets_of_plugins_have_room(node_cluster: Cluster) -> None:
    root = node_cluster.node.kubelet_root
    for path in ("plugins/gpu.nvidia.com/dra.sock", "plugins_registry/gpu.nvidia.com-reg.sock"):
        assert len(os.fsencode(root / path)) <= 107
    assert (root / "plugins_registry").is_dir()


async def test_processes_on_the_node_see_the_mounts_of_pods(node_cluster: Cluster, tmp_path: Path) -> None:
    await _run_pod(node_cluster, "mounts")
    process = node_cluster.node.process(["cat", "/proc/self/mounts"], log=tmp_path / "mounts.log")

    async def mounts_are_seen() -> None:
        assert f"{node_cluster.node.kubelet_root}/pods/" in process.last_lines(1000)

    async with process:
        await eventually(mounts_are_seen)
    await node_cluster.kubectl("delete", "pod", "mounts")


async def test_two_nodes_side_by_side(toolchain: Path) -> None:
    started = time.monotonic()
    async with Cluster(node_names=["node-1", "node-2"]) as cluster:
        seconds = time.monotonic() - started
        print(f"control plane with two nodes: {seconds:.1f} s")
        assert seconds < 60
        for name in cluster.nodes:
            await _run_pod(cluster, f"on-{name}", name)
            assert await cluster.kubectl("logs", f"on-{name}") == "started\n"


@pytest.mark.parametrize(("later", "remains"), [(0, True), (-1, False)])
async def test_a_namespace_is_left_if_somebody_of_then_is_in_it(later: int, remains: bool) -> None:
    """Others, beside us, get the numbers of namespaces that have gone."""
    program = await asyncio.create_subprocess_exec("unshare", "--net", "sleep", "60")
    try:

        async def has_its_own() -> None:
            assert any(name.startswith("net:") for name in traces_of(program.pid).namespaces)

        await eventually(has_its_own)
        traces = traces_of(program.pid)
        ((_, began),) = traces.processes
        of_another = replace(traces, processes=frozenset(), cgroups=frozenset(), taken=int(began) + later)
        assert bool(of_another.remaining()) == remains
    finally:
        program.kill()
        await program.wait()


async def _started(directory: Path, *options: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "harness.up", f"--dir={directory}", *options, cwd=Path(__file__).parents[1],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip


@pytest.mark.usefixtures("images")  # built before, outside of its timeout
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL, None], ids=["Ctrl-C", "kill", "cluster-down"])
async def test_nothing_is_left(toolchain: Path, tmp_path: Path, end: signal.Signals | None) -> None:
    sysctls = [Path("/proc/sys/vm/overcommit_memory"), Path("/proc/sys/kernel/panic")]
    before = [sysctl.read_text() for sysctl in sysctls]
    program = await _started(tmp_path, *(["--foreground"] if end else []))
    assert program.stdout
    assert b"its GPUs can be allocated" in await program.stdout.readline()
    holder = supervisor.process_of(tmp_path)
    assert holder is not None
    kubectl: list[str | Path] = [tmp_path / "bin" / "kubectl", f"--kubeconfig={tmp_path}/kubeconfig"]
    offers = {"mps": {"maxClients": 2, "memory": {"default": "8Gi"}, "threads": {"default": 25}}}
    objects = [
        policy("shared", offers=offers),
        claim("left", claim_spec("mps.gpu.nvidia.com")),
        pod("left", claim="left"),
    ]
    # Nobody waits for them: it is said that pods can get them.
    slices = json.loads(await run([*kubectl, "get", "resourceslices", "--output=json"]))["items"]
    assert missing_devices(slices, "node-1", gpus=2) == ""
    listed = {"apiVersion": "v1", "kind": "List", "items": objects}
    kubeconfig = await run([*kubectl, "config", "view", "--output=json"])
    await run([*kubectl, "create", "--filename=-"], stdin=json.dumps(listed))
    await run([*kubectl, "wait", "--for=condition=Ready", "pod/left", "--timeout=60s"])
    listed_in_top = await run([tmp_path / "bin" / "gpusharing", "top", f"--kubeconfig={tmp_path}/kubeconfig"])
    assert "left" in listed_in_top
    directories = [logs.resolve().parent for logs in (tmp_path / "logs").iterdir()]
    assert len(directories) == 2
    traces = traces_of(holder, *directories)
    # MPS' daemon, which outlives its agent on purpose.
    names = [Path(f"/proc/{pid}/comm").read_text() for pid, _ in traces.processes]  # noqa: ASYNC240 (not of a disk)
    assert any(name.startswith("nvidia-cuda-mps") for name in names)
    assert any(cgroup.exists() for cgroup in traces.cgroups)

    server = f'"{urlsplit(json.loads(kubeconfig)["clusters"][0]["cluster"]["server"]).hostname}"'
    assert server in await run(["ip", "-json", "address"])
    if end:
        program.send_signal(end)
    else:
        again = await _started(tmp_path)
        told, _ = await again.communicate()
        assert told.decode().startswith(f"Nothing to do: process {holder} keeps it running.\n")
        down = [sys.executable, "-m", "harness.down", f"--dir={tmp_path}"]
        assert await run(down) == f"The cluster of {tmp_path} has ended.\n"
    await program.wait()

    async def nothing_remains() -> None:
        assert traces.remaining() == []
        assert server not in await run(["ip", "-json", "address"])

    await eventually(nothing_remains)
    assert [sysctl.read_text() for sysctl in sysctls] == before
