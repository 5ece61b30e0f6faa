"""Claims whose records are damaged while nobody looks: whoever runs is not disturbed, and people are told."""

from pathlib import Path

import pytest

from agent.on_cluster import Claim, GpuNode, opaque
from building import interval_config
from gpusharing.sim import Timeslice
from harness.controlplane import ControlPlane
from harness.eventually import eventually

pytestmark = pytest.mark.cluster

ALL = {
    "exclusive": {},
    "timeSlicing": {"maxClients": 4, "interval": "Medium"},
    "mps": {"maxClients": 4, "memory": {"default": "8192Mi", "max": "16384Mi"}, "threads": {"default": 25}},
    "mig": {"profiles": ["3g.40gb"]},
}
DAMAGE = (b"", b"{", b'{"format":1,"bootID":"x","content":{},"checksum":"0"}', b"\xff" * 64)


def record(node: GpuNode, claim: Claim) -> Path:
    return node.state / "claims" / f"{claim.uid}.json"


async def known_again(node: GpuNode, *claims: Claim) -> None:
    async def check() -> None:
        assert node.prepared() == {claim.uid for claim in claims}
        assert not list((node.state / "claims").glob("*.quarantined"))

    await eventually(check)


async def claims_of_all_kinds(node: GpuNode) -> list[Claim]:
    """One on each GPU."""
    await node.decide(ALL, ALL, ALL, ALL)
    consumed = {"shares": "1", "memory": "8Gi", "threads": "25"}
    claims = [
        await node.claim(node.whole(0), config=[opaque(interval_config("Long"))]),
        await node.claim(node.shared(1)),
        await node.claim(node.shared(2, device="gpu-2-mps", consumedCapacity=consumed)),
        await node.claim(node.whole(3, device="gpu-3-mig-3g40gb-9-4")),
    ]
    answers = await node.kubelet.prepare(*claims)
    assert [answer.error for answer in answers.values()] == [""] * 4

    async def reported() -> None:
        told = (await node.sharing())["status"]["claims"]
        assert {claim["uid"] for claim in told} == {claim.uid for claim in claims}

    await eventually(reported)
    return claims


async def test_what_runs_keeps_what_it_has(installed: ControlPlane) -> None:
    async with GpuNode(installed, gpus="H100-80GB:4") as node:
        claims = await claims_of_all_kinds(node)
        gpus, specs = node.sim.gpus(), node.specs()
        assert gpus[0].timeslice is Timeslice.LONG
        await node.agent.kill()
        for claim, damage in zip(claims, DAMAGE, strict=True):
            record(node, claim).write_bytes(damage)
        await node.agent.start()
        await known_again(node, *claims)
        assert (node.sim.gpus(), node.specs()) == (gpus, specs)

        # As if nothing had been.
        assert [answer.error for answer in (await node.kubelet.prepare(*claims)).values()] == [""] * 4
        assert (node.sim.gpus(), node.specs()) == (gpus, specs)
        assert set((await node.kubelet.unprepare(*claims)).values()) == {""}
        assert node.specs() == {}
        assert node.sim.gpus()[3].gpu_instances == ()


async def test_while_it_is_not_known_nothing_is_touched(installed: ControlPlane) -> None:
    """The API server is away: nobody can say what the claims hold."""
    async with GpuNode(installed, gpus="H100-80GB:4") as node:
        claims = await claims_of_all_kinds(node)
        gpus, specs = node.sim.gpus(), node.specs()
        await node.agent.kill()
        for claim, damage in zip(claims, DAMAGE, strict=True):
            record(node, claim).write_bytes(damage)
        nowhere = node.directory / "nowhere.kubeconfig"
        nowhere.write_text(node.kubeconfig.read_text().replace(installed.url, "https://127.0.0.1:1"))
        deaf = node.process("deaf", kubeconfig=nowhere)
        async with deaf:
            assert (node.sim.gpus(), node.specs()) == (gpus, specs)
            # A pod that ends is enough to know.
            assert await node.kubelet.unprepare(claims[0]) == {claims[0].uid: ""}
            assert (node.sim.gpus(), set(node.specs())) == (gpus, specs.keys() - {claims[0].uid})
        await node.agent.start()
        await known_again(node, *claims[1:])
        assert node.sim.gpus()[1:] == gpus[1:]


async def test_claims_that_have_gone_meanwhile_are_cleaned_up(installed: ControlPlane) -> None:
    async with GpuNode(installed, gpus="H100-80GB:4") as node:
        claims = await claims_of_all_kinds(node)
        await node.agent.kill()
        for claim in claims:
            record(node, claim).write_bytes(b"")
        (record(node, claims[0]).with_name("never-heard-of.json")).write_bytes(b"")
        await node.deallocate(claims[1])
        await node.admin.call("DELETE", claims[3].path)
        await node.agent.start()
        await known_again(node, claims[0], claims[2])

        async def undone() -> None:
            assert node.specs().keys() == {claims[0].uid, claims[2].uid}
            assert node.sim.gpus()[3].gpu_instances == ()

        await eventually(undone)


async def trusted(node: GpuNode) -> tuple[str, str]:
    """Status and message."""
    conditions = (await node.sharing() or {}).get("status", {}).get("conditions", [])
    [found] = [one for one in conditions if one["type"] == "StateTrusted"] or [{"status": "", "message": ""}]
    return found["status"], found["message"]


async def test_what_nobody_can_find_out_again_is_told(installed: ControlPlane) -> None:
    async with GpuNode(installed, gpus="H100-80GB") as node:
        claim = await node.claim(node.whole(), config=[opaque(interval_config("Long"))])
        assert not (await node.kubelet.prepare(claim))[claim.uid].error
        [journal] = (node.state / "journal").iterdir()
        await node.agent.kill()
        for copy in (journal, node.mps / ".journal" / journal.name):
            copy.write_bytes(b"{")
        await node.agent.start()
        aside = f"{journal}.quarantined"

        async def told() -> None:
            status, message = await trusted(node)
            assert status == "False"
            assert f"damaged or written by a newer agent, and put aside: {aside}; " in message
            events = await node.admin.call("GET", "/apis/events.k8s.io/v1/events")
            notes = [one["note"] for one in events["items"] if one["regarding"].get("name") == node.name]
            assert len([note for note in notes if aside in note]) == 1

        await eventually(told)
        assert node.sim.gpus()[0].timeslice is Timeslice.LONG
        await node.agent.kill()
        journal.with_name(f"{journal.name}.quarantined").unlink()
        await node.agent.start()

        async def trusted_again() -> None:
            assert await trusted(node) == ("True", "")

        await eventually(trusted_again)
