"""How an agent starts, when it refuses to, and how it ends."""

import asyncio
import os
import signal
import subprocess
from pathlib import Path

import pytest
from grpclib.client import Channel, UnaryUnaryMethod

from agent.on_cluster import DRIVER, GpuNode, opaque
from building import interval_config
from gpusharing.agent.kubelet.pb import registration_pb2
from gpusharing.sim import Timeslice
from harness.controlplane import ControlPlane
from harness.eventually import PATIENCE, eventually

pytestmark = pytest.mark.cluster


async def test_kubelet_learns_where_the_driver_is(gpu_node: GpuNode) -> None:
    channel = Channel(path=str(gpu_node.registration))
    service = "/pluginregistration.Registration"
    get_info = UnaryUnaryMethod(
        channel, f"{service}/GetInfo", registration_pb2.InfoRequest, registration_pb2.PluginInfo
    )
    info = await get_info(registration_pb2.InfoRequest(), timeout=PATIENCE)
    assert (info.type, info.name, info.endpoint) == ("DRAPlugin", DRIVER, str(gpu_node.endpoint))
    # The kubelet takes the first that it knows.
    assert list(info.supported_versions) == [
        "v1.DRAPlugin",
        "v1beta1.DRAPlugin",
        "v1.DRAResourceHealth",
        "v1alpha1.DRAResourceHealth",
    ]

    notify = UnaryUnaryMethod(
        channel,
        f"{service}/NotifyRegistrationStatus",
        registration_pb2.RegistrationStatus,
        registration_pb2.RegistrationStatusResponse,
    )
    await notify(registration_pb2.RegistrationStatus(plugin_registered=True), timeout=PATIENCE)
    await notify(registration_pb2.RegistrationStatus(plugin_registered=False, error="no thanks"), timeout=PATIENCE)
    channel.close()
    assert gpu_node.log("registered with the kubelet")
    assert [entry["error"] for entry in gpu_node.log("registration refused by the kubelet")] == ["no thanks"]


def _run(node: GpuNode, **changes: str | Path) -> tuple[int, str]:
    """Exit code and output of an agent that ends by itself."""
    command = [str(argument) for argument in node.arguments(**changes)]
    result = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False
    )
    return result.returncode, result.stdout


async def test_agent_that_cannot_run_says_why(installed: ControlPlane, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    cases: dict[str, tuple[dict[str, str | Path], str]] = {
        "no kubeconfig": ({"kubeconfig": tmp_path / "absent"}, f"kubeconfig {tmp_path}/absent: FileNotFoundError"),
        "no driver": ({"driver_root": tmp_path}, f"libnvidia-ml.so.1 of the GPU driver is in none of {tmp_path}"),
        "long kubelet root": ({"kubelet_root": tmp_path / ("x" * 90)}, "longer than 107 bytes: set a shorter"),
        "state directory is a file": ({"state_dir": tmp_path / "file"}, f"File exists: '{tmp_path}/file'"),
        "CDI directory is a file": ({"cdi_dir": tmp_path / "file"}, f"File exists: '{tmp_path}/file'"),
    }
    async with GpuNode(installed, start=False) as node:
        # Each has a lock of its own, so that they may be tried at the same time.
        states = {name: {"state_dir": tmp_path / f"state of {name}"} for name in cases}
        results = await asyncio.gather(
            *(asyncio.to_thread(_run, node, **(states[name] | changes)) for name, (changes, _) in cases.items())
        )
        for (name, (_, message)), (code, output) in zip(cases.items(), results, strict=True):
            assert code == 1, (name, output)
            assert message in output, (name, output)
            # One line for people, not a stack.
            assert "agent cannot run" in output, (name, output)
            assert "Traceback" not in output, (name, output)
        assert await node.slices() == []


async def test_second_agent_of_a_node_refuses(gpu_node: GpuNode) -> None:
    code, output = await asyncio.to_thread(_run, gpu_node)
    assert code == 1
    assert f"another agent holds {gpu_node.state}/lock: there can be one on a node" in output
    # The first one goes on, also with its sockets.
    assert gpu_node.agent.running
    await gpu_node.decide(None, None)
    claim = await gpu_node.claim(gpu_node.whole())
    assert not (await gpu_node.kubelet.prepare(claim))[claim.uid].error


async def test_sigterm_ends_it_soon_and_removes_its_sockets(gpu_node: GpuNode) -> None:
    # A kubelet keeps its connections open.
    connections = [Channel(path=str(path)) for path in (gpu_node.endpoint, gpu_node.registration)]
    for connection in connections:
        await connection.__connect__()
    await gpu_node.agent.stop()
    assert not gpu_node.endpoint.exists()
    assert not gpu_node.registration.exists()
    assert len(gpu_node.log("stopped")) == 1
    for connection in connections:
        connection.close()


async def test_sigterm_while_nvidia_smi_hangs(installed: ControlPlane) -> None:
    async with GpuNode(installed) as node:
        await node.decide({"timeSlicing": {"maxClients": 2, "interval": "Long"}})
        node.sim.nvidia_smi.unlink()
        node.sim.nvidia_smi.write_text(f"#!/bin/sh\ntouch {node.directory}/hangs\nsleep 60\n")
        node.sim.nvidia_smi.chmod(0o755)
        claim = await node.claim(node.shared())
        call = asyncio.create_task(node.kubelet.prepare(claim))

        async def hangs() -> None:
            assert (node.directory / "hangs").exists()

        await eventually(hangs)
        # Who does not end within ten seconds, half of what nvidia-smi is given, is killed and says nothing more.
        await node.agent.stop()
        assert len(node.log("stopped")) == 1
        await asyncio.wait({call})
        assert call.exception() is not None


async def test_sockets_that_a_killed_agent_left_are_taken_over(gpu_node: GpuNode) -> None:
    await gpu_node.agent.kill()
    assert gpu_node.registration.exists()
    await gpu_node.agent.start()
    await gpu_node.decide(None, None)
    claim = await gpu_node.claim(gpu_node.whole())
    assert not (await gpu_node.kubelet.prepare(claim))[claim.uid].error


async def test_kubelet_is_served_although_the_api_server_is_away(installed: ControlPlane) -> None:
    """Pods that end need no API server, and those that start again have their devices already."""
    async with GpuNode(installed) as node:
        await node.decide(None, None)
        long = [opaque(interval_config("Long"))]
        claim, gone = await node.claim(node.whole(0), config=long), await node.claim(node.whole(1))
        assert not any(answer.error for answer in (await node.kubelet.prepare(claim, gone)).values())
        await node.agent.kill()
        # As if it had died before it was done with these. A third spec is left of an earlier boot.
        node.sim.set_timeslice(node.sim.gpus()[0].uuid, Timeslice.DEFAULT)
        specs = node.specs()
        ours = node.cdi / f"gpusharing.dev-claim_{claim.uid}.json"
        stray = ours.rename(node.cdi / "gpusharing.dev-claim_no-such-claim.json")
        os.utime(stray, (0, 0))
        nowhere = node.directory / "nowhere.kubeconfig"
        nowhere.write_text(node.kubeconfig.read_text().replace(installed.url, "https://127.0.0.1:1"))
        deaf = node.process("deaf", kubeconfig=nowhere)
        async with deaf:

            async def recovered() -> None:
                assert node.specs() == specs
                assert node.time_slices()[0] is Timeslice.LONG

            await eventually(recovered)
            assert await node.kubelet.unprepare(gone) == {gone.uid: ""}
            assert node.prepared() == {claim.uid}
            answer = (await node.kubelet.prepare(claim))[claim.uid]
            assert f"claim default/{claim.name} cannot be read: GET" in answer.error

            async def waits() -> None:
                assert "watch broken" in deaf.last_lines()

            await eventually(waits)


async def test_signal_during_the_start(installed: ControlPlane) -> None:
    async with GpuNode(installed, start=False) as node:
        for delay in (0.5, 0.8):
            command = [str(argument) for argument in node.arguments()]
            process = await asyncio.create_subprocess_exec(
                *command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            await asyncio.sleep(delay)
            process.terminate()
            assert await asyncio.wait_for(process.wait(), PATIENCE) in (0, -signal.SIGTERM)
            assert not node.registration.exists()
