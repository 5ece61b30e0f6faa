"""Static MIG layouts, and MIG mode that needs the GPU to itself, through a whole agent on the real API server."""

import pytest

from agent.on_cluster import EXCLUSIVE, GpuNode
from building import boards
from gpusharing import sim
from gpusharing.api.sharing.gpu_status import MigMode
from gpusharing.api.sharing.node_status import NodeSharingStatus
from gpusharing.core.devices import reported_models
from gpusharing.sim import cdi
from harness.controlplane import ControlPlane
from harness.eventually import eventually

pytestmark = pytest.mark.cluster

THREE_G, ONE_G = "gpu-0-mig-3g40gb-9-4", "gpu-0-mig-1g10gb-19-3"
LAYOUT = {"mig": {"layout": {"3g.40gb": 1, "1g.10gb": 1}}}


def instances(node: GpuNode) -> dict[str, str]:
    return {f"{one.profile}@{one.start}": one.compute_instances[0].uuid for one in node.sim.gpus()[0].gpu_instances}


async def refused(node: GpuNode, told: str) -> None:
    async def check() -> None:
        [ready] = [one for one in (await node.sharing())["status"]["conditions"] if one["type"] == "Ready"]
        assert ready["status"] == "False"
        assert told in ready["message"]

    await eventually(check)


async def test_a_layout_is_cut_offered_used_and_taken_away(installed: ControlPlane) -> None:
    async with GpuNode(installed, gpus="H100-80GB") as node:
        await node.decide(LAYOUT)
        devices = await node.offers(ONE_G, THREE_G)
        made = instances(node)
        assert made.keys() == {"3g.40gb@4", "1g.10gb@3"}
        assert devices[THREE_G]["attributes"]["uuid"] == {"string": made["3g.40gb@4"]}
        # They do not exclude each other, so the scheduler need not count.
        assert not any("consumesCounters" in device for device in devices.values())

        claim = await node.claim(node.whole(device=THREE_G))
        assert not (await node.kubelet.prepare(claim))[claim.uid].error
        environment = node.specs()[claim.uid]["devices"][0]["containerEdits"]["env"]
        assert f"GPUSHARING_GPU_0_MIG_3G40GB_9_4={made['3g.40gb@4']}" in environment
        # Another layout waits for whoever is there.
        await node.decide({"mig": {"layout": {"7g.80gb": 1}}})
        await node.offers(draining=THREE_G)
        assert instances(node)["3g.40gb@4"] == made["3g.40gb@4"]
        await node.decide(LAYOUT)
        await node.offers(ONE_G, THREE_G)

        # The next agent finds everything as it is.
        made = instances(node)
        await node.agent.kill()
        await node.agent.start()
        await node.offers(ONE_G, THREE_G)
        assert instances(node) == made

        assert await node.kubelet.unprepare(claim) == {claim.uid: ""}
        assert instances(node) == made
        await node.decide(EXCLUSIVE)
        await node.offers("gpu-0")
        assert instances(node) == {}
        assert node.sim.gpus()[0].mig_mode == sim.MigMode(current=False, pending=False)
        assert not list((node.state / "journal").iterdir())


async def test_a_layout_that_does_not_fit_is_reported_by_name(installed: ControlPlane) -> None:
    async with GpuNode(installed, gpus="H100-80GB") as node:
        await node.decide({"mig": {"layout": {"3g.40gb": 3}}}, policy="thirds")
        await refused(node, "offers.mig.layout of policy thirds does not fit: ask for fewer or smaller instances")
        assert instances(node) == {}


async def test_mig_mode_of_an_ampere_follows_the_policy_while_it_is_idle(installed: ControlPlane) -> None:
    async with GpuNode(installed, gpus="A100-40GB") as node:
        await node.decide(EXCLUSIVE)
        claim = await node.claim(node.whole())
        assert not (await node.kubelet.prepare(claim))[claim.uid].error
        await node.decide({"mig": {"profiles": ["3g.20gb"]}})
        # Not under whoever is there, and not before the last could have come.
        await node.offers(draining="gpu-0")
        assert node.sim.gpus()[0].mig_mode == sim.MigMode(current=False, pending=False)
        assert await node.kubelet.unprepare(claim) == {claim.uid: ""}
        await node.admin.call("DELETE", claim.path)
        halves = ("gpu-0-mig-3g20gb-9-0", "gpu-0-mig-3g20gb-9-4")
        await node.offers(*halves)
        assert node.sim.gpus()[0].mig_mode == sim.MigMode(current=True, pending=True)

        claim = await node.claim(node.whole(device=halves[0]))
        answer = (await node.kubelet.prepare(claim))[claim.uid]
        assert not answer.error
        assert instances(node).keys() == {"3g.20gb@0"}
        assert answer.devices[0].cdi_device_ids[0] == f"nvidia.com/gpu={node.sim.gpus()[0].uuid}"
        assert await node.kubelet.unprepare(claim) == {claim.uid: ""}

        # As NVIDIA's service writes it at the next boot: without a device for what is in MIG mode.
        cdi.write_cdi_spec(node.sim.cdi, node.sim.gpus())
        answer = (await node.kubelet.prepare(claim))[claim.uid]
        assert not answer.error
        assert list(answer.devices[0].cdi_device_ids) == [f"gpusharing.dev/claim={claim.uid}-0"]
        spec = node.specs()[claim.uid]
        assert "NVIDIA_VISIBLE_DEVICES=void" in spec["containerEdits"]["env"]
        nodes = [one["path"] for one in spec["devices"][0]["containerEdits"]["deviceNodes"]]
        assert nodes[-1] == f"/dev/nvidia{node.sim.gpus()[0].minor}"
        assert [path.rstrip("0123456789") for path in nodes[:-1]] == ["/dev/nvidia-caps/nvidia-cap"] * 2
        assert await node.kubelet.unprepare(claim) == {claim.uid: ""}

        await node.decide(EXCLUSIVE)
        await node.offers("gpu-0")
        assert node.sim.gpus()[0].mig_mode == sim.MigMode(current=False, pending=False)


async def test_it_tells_how_its_gpus_can_be_cut_and_whether_it_switched_them(installed: ControlPlane) -> None:
    """The operator tries layouts out on this, and knows by it whom a change disturbs."""
    async with GpuNode(installed, gpus="H100-80GB") as node:

        async def told() -> NodeSharingStatus:
            return NodeSharingStatus.model_validate((await node.sharing() or {}).get("status", {}))

        async def has(expected: MigMode) -> None:
            async def check() -> None:
                assert [gpu.mig_mode for gpu in (await told()).gpus] == [expected]

            await eventually(check)

        await has(MigMode(enabled=False, found=False))
        status, board = await told(), boards.board("H100-80GB")
        found = reported_models.reported(status.gpus[0], status.models)
        assert found.memory_mib == board.memory_mib
        assert found.mig is not None
        assert board.mig is not None
        assert set(found.mig.profiles) == set(board.mig.profiles)
        await node.decide(LAYOUT)
        await has(MigMode(enabled=True, found=False))
