"""What the agent has changed on GPUs is restored although its state directory was lost. Nothing else is touched."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from agent.claims.conftest import Claims, site_with
from agent.walls.preparing import Agent, Ground, sharing_of
from gpusharing import sim
from gpusharing.agent.claims.reading import ClaimRef
from gpusharing.agent.publishing.report import describe_node, with_conditions
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.api.sharing.node_spec import GpuSharing
from gpusharing.api.sharing.offers import (
    ExclusiveOffer,
    Interval,
    MigOffer,
    MpsMemory,
    MpsOffer,
    MpsThreads,
    Offers,
    TimeSlicingOffer,
)
from gpusharing.sim import ComputeMode, Timeslice

OFFERS: Final = Offers(
    exclusive=ExclusiveOffer(),
    time_slicing=TimeSlicingOffer(max_clients=4, interval=Interval.LONG),
    mps=MpsOffer(max_clients=4, memory=MpsMemory(default="8Gi"), threads=MpsThreads(default=25)),
    mig=MigOffer(profiles=("1g.10gb",)),
)
DEVICES: Final[dict[str, dict[str, Any]]] = {
    "gpu-0-timeslicing": {"shareID": "s"},
    "gpu-0-mps": {"shareID": "s", "consumedCapacity": {"shares": "1", "memory": "8Gi", "threads": "25"}},
    "gpu-0-mig-1g10gb-19-0": {},
}


async def reported(agent: Agent, before: NodeSharing | None = None) -> NodeSharing:
    """What the agent says of its node, and the operator of its GPUs."""
    before = before or sharing_of(gpus=tuple(GpuSharing(uuid=uuid, offers=OFFERS) for uuid in agent.gpus.uuids))
    described = describe_node(
        before,
        observed_generation=1,
        gpus=agent.gpus,
        records=agent.records,
        settler=agent.settler,
        health=agent.health,
        now="2026-01-01T00:00:00Z",
    )
    status = with_conditions(before, described, (), agent.records, now="2026-01-01T00:00:00Z")
    return before.model_copy(update={"status": status})


def lose_all(state: Path) -> None:
    """The directories of MPS daemons are elsewhere."""
    for path in state.iterdir():
        if path.name != "mps" and path.is_dir():
            shutil.rmtree(path)


def _torn(state: Path) -> None:
    """Of the first GPU: in a journal, or in a record if MIG mode outlives reboots."""
    first = min(state.glob("gpus/*.json"), key=lambda path: json.loads(path.read_bytes())["content"]["slot"])
    for path in state.glob(f"*/{first.name}"):
        path.write_bytes(path.read_bytes()[:-20])


def _emptied(state: Path) -> None:
    for path in state.glob("journal/*.json"):
        path.write_bytes(b"")


LOSSES: Final[dict[str, Callable[[Path], None]]] = {"all": lose_all, "torn": _torn, "emptied": _emptied}


async def restarted(site: Ground, home: Path) -> Agent:
    agent = Agent(site, home)
    await agent.survey.take()
    await agent.recovery.renew()
    await agent.recovery.settle()
    return agent


async def successor(site: Ground, home: Path, sharing: NodeSharing, offered: Offers = OFFERS) -> Agent:
    agent = await restarted(site, home)
    await agent.recovery.learn(sharing, (), take_survey=agent.survey.take)
    await agent.decide(offered)
    await agent.recovery.readopt(sharing)
    return agent


def trusted(sharing: NodeSharing) -> tuple[str, str]:
    (condition,) = [one for one in sharing.status.conditions if one.type == "StateTrusted"]
    return condition.reason, condition.message


async def prepared(site: Ground, home: Path, claims: Claims, device: str) -> tuple[ClaimRef, NodeSharing]:
    agent = await site.agent(home, OFFERS)
    ref = claims.add("train", device)
    claims.devices["train"][0] |= DEVICES[device]
    await agent.preparer.prepare(ref)
    await agent.survey.take()
    return ref, await reported(agent)


@pytest.mark.parametrize("loss", LOSSES)
async def test_a_change_that_was_lost_at_once_is_undone(site: Ground, home: Path, claims: Claims, loss: str) -> None:
    """Nobody has heard of the claim: the agent was killed while it prepared it."""
    before = site.node.gpus()
    agent = await site.agent(home, OFFERS)
    sharing = await reported(agent)
    ref = claims.add("train", "gpu-0-timeslicing")
    claims.devices["train"][0] |= DEVICES["gpu-0-timeslicing"]
    await agent.preparer.prepare(ref)
    assert site.node.gpus() != before
    for directory in ("cdi", "state/claims", "state/metadata"):
        shutil.rmtree(home / directory)
    LOSSES[loss](home / "state")
    agent = await successor(site, home, sharing)
    await agent.settler.settle_due(set(agent.gpus.uuids), within=60)
    assert site.node.gpus() == before


async def test_nothing_is_set_back_before_the_api_has_named_claims(site: Ground, home: Path, claims: Claims) -> None:
    ref, sharing = await prepared(site, home, claims, "gpu-0-mig-1g10gb-19-0")
    while_used = site.node.gpus()
    lose_all(home / "state")
    shutil.rmtree(home / "cdi")
    agent = await successor(site, home, sharing)
    assert set(agent.records.claims) == {ref.uid}
    assert site.node.gpus() == while_used


async def test_a_claim_that_ends_before_the_recovery_has_ended(site: Ground, home: Path, claims: Claims) -> None:
    """The last report still names it."""
    ref, sharing = await prepared(site, home, claims, "gpu-0-timeslicing")
    shutil.rmtree(home / "state/gpus")
    agent = await restarted(site, home)
    await agent.preparer.unprepare(ref)
    await agent.recovery.learn(sharing, (), take_survey=agent.survey.take)
    assert agent.records.lost_claims == frozenset()


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("device", DEVICES)
async def test_lost_changes_are_undone(site: Ground, home: Path, claims: Claims, device: str, loss: str) -> None:
    uuid = site.node.gpus()[0].uuid
    site.node.set_timeslice(uuid, Timeslice.SHORT)
    site.node.set_compute_mode(uuid, ComputeMode.PROHIBITED)
    # What others have set, and nobody has changed.
    site.node.set_timeslice(site.node.gpus()[1].uuid, Timeslice.MEDIUM)
    before = site.node.gpus()
    ref, sharing = await prepared(site, home, claims, device)
    while_used = site.node.gpus()
    assert while_used != before
    LOSSES[loss](home / "state")
    agent = await successor(site, home, sharing)
    assert set(agent.records.claims) == {ref.uid}
    assert site.node.gpus() == while_used
    await agent.settler.settle_due(set(agent.gpus.uuids), within=60)
    reason, message = trusted(await reported(agent, sharing))
    if loss == "all":
        assert reason == "StateLost"
        assert "gpu-1: time slice Medium: if no pod needs it" in message
        # For a claim of MIG, its settings were not changed.
        assert ("gpu-0: time slice Short" in message) == ("mig" in device)
    else:
        assert reason == "Trusted"
    await agent.preparer.unprepare(ref)
    await agent.settler.settle_due(set(agent.gpus.uuids), within=60)
    assert site.node.gpus() == before
    assert agent.records.changed_gpus == []


async def test_what_a_reboot_has_set_back_is_not_touched(site: Ground, home: Path, claims: Claims) -> None:
    uuid = site.node.gpus()[0].uuid
    site.node.set_timeslice(uuid, Timeslice.SHORT)
    ref, sharing = await prepared(site, home, claims, "gpu-0-timeslicing")
    shutil.rmtree(home / "state")
    del claims.devices[ref.name]
    site.node.reboot()
    await site.hardware.reopen()
    agent = await successor(site, home, sharing)
    await agent.settler.settle_due(set(agent.gpus.uuids), within=60)
    assert site.node.gpus()[0].timeslice is Timeslice.DEFAULT


async def test_what_was_restored_is_not_touched_again(site: Ground, home: Path, claims: Claims) -> None:
    """The NodeSharing does not say so yet. Then an administrator has set it, and the state is lost."""
    ref, sharing = await prepared(site, home, claims, "gpu-0-timeslicing")
    before = await site.agent(home, OFFERS)
    await before.preparer.unprepare(ref)
    site.node.set_timeslice(site.node.gpus()[0].uuid, Timeslice.MEDIUM)
    lose_all(home / "state")
    del claims.devices[ref.name]
    agent = await successor(site, home, sharing)
    await agent.settler.settle_due(set(agent.gpus.uuids), within=60)
    assert site.node.gpus()[0].timeslice is Timeslice.MEDIUM


@pytest.mark.parametrize("loss", ["all", "torn"])
async def test_a_lost_mig_mode_that_outlives_a_reboot_is_restored(
    tmp_path: Path, home: Path, claims: Claims, loss: str
) -> None:
    layout = Offers(mig=MigOffer(layout={"1g.10gb": 7}))
    async with site_with("A100-80GB:2", tmp_path, claims) as site:
        # An administrator has set this one.
        await site.hardware.set_mig_mode(site.node.gpus()[1].uuid, enabled=True)
        agent = await site.agent(home, layout)
        await agent.settler.settle_due(set(agent.gpus.uuids), within=60)
        await agent.survey.take()
        sharing = await reported(agent)
        assert [mode(gpu) for gpu in site.node.gpus()] == [True, True]
        LOSSES[loss](home / "state")
        site.node.reboot()
        await site.hardware.reopen()
        agent = await successor(site, home, sharing, Offers(exclusive=ExclusiveOffer()))
        await agent.settler.settle_due(set(agent.gpus.uuids), within=60)
        assert [mode(gpu) for gpu in site.node.gpus()] == [False, True]


def mode(gpu: sim.Gpu) -> bool:
    return gpu.mig_mode is not None and gpu.mig_mode.current


async def test_instances_of_claims_that_are_not_recovered_yet_stay(site: Ground, home: Path, claims: Claims) -> None:
    """Both records are lost, and the journal is not. The containers have no program on the GPU just now."""
    agent = await site.agent(home, OFFERS)
    refs = [claims.add(f"m{start}", f"gpu-0-mig-1g10gb-19-{start}") for start in (0, 1)]
    for ref in refs:
        await agent.preparer.prepare(ref)
    before = site.node.gpus()
    for ref in refs:
        (home / "state/claims" / f"{ref.uid}.json").write_bytes(b"{")
    agent = await successor(site, home, await reported(agent))
    assert set(agent.records.claims) == {ref.uid for ref in refs}
    assert site.node.gpus() == before
    # Once all are known, what nobody needs goes.
    await agent.preparer.unprepare(refs[0])
    assert len(site.node.gpus()[0].gpu_instances) == 1
