"""What an agent believes after a reboot, and after its files were lost: what it finds, not what was once written."""

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import structlog.testing

from agent.claims.conftest import Claims
from agent.rebooting import reboot_without
from agent.walls.preparing import Agent, Ground, offers, sharing_of
from building import DRIVER
from gpusharing import sim
from gpusharing.agent.claims import containers
from gpusharing.agent.claims.forgotten import ForgottenClaims
from gpusharing.agent.claims.reading import ClaimRef, PrepareError
from gpusharing.api.dra import ResourceSlice
from gpusharing.api.meta import WholeMeta
from gpusharing.api.sharing.gpu_status import GpuStatus, Reason
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.api.sharing.node_spec import ClaimSharing, GpuSharing, PolicyReference, Verdict
from gpusharing.api.sharing.node_status import ClaimStatus, NodeSharingStatus
from gpusharing.api.sharing.offers import Interval, Offers, TimeSlicingOffer
from gpusharing.core.claims import allocation
from gpusharing.core.devices.offered import AS_FOUND
from gpusharing.core.publishing.entries import Standing
from gpusharing.kube.clock import as_moment, seconds_since_boot
from gpusharing.sim import faults


def gpus_in_specs(agent: Agent, node: sim.SimNode) -> dict[str, list[str]]:
    """By claim: the device nodes that the container runtime would give its containers now."""
    theirs: dict[str, list[dict[str, Any]]] = {}
    for path in node.cdi.glob("*.json"):
        spec = json.loads(path.read_text())
        for device in spec["devices"]:
            nodes = device["containerEdits"].get("deviceNodes", [])
            theirs.setdefault(f"{spec['kind']}={device['name']}", []).extend(nodes)
    return {
        uid: [
            edit["path"]
            for device in claim.devices
            for name in device.cdi_devices
            for edit in theirs.get(name, [])
            if not edit["path"].startswith("/dev/nvidia-")
        ]
        for uid, claim in agent.records.claims.items()
        if uid in agent.cdi.claims()
    }


async def whole(agent: Agent, claims: Claims, *slots: int) -> list[ClaimRef]:
    refs = [claims.add(f"w{slot}", f"gpu-{slot}") for slot in slots]
    for ref in refs:
        await agent.preparer.prepare(ref)
    return refs


async def reboot(site: Ground, home: Path) -> Agent:
    await site.hardware.reopen()
    return await site.agent(home, None)


async def test_after_a_reboot_nothing_is_there_for_claims_of_before(site: Ground, home: Path, claims: Claims) -> None:
    agent = await site.agent(home, offers())
    [ref] = await whole(agent, claims, 0)
    site.node.reboot()
    agent = await reboot(site, home)
    assert (agent.cdi.claims(), list((home / "state/metadata").iterdir())) == ([], [])
    assert set(agent.records.earlier_claims) == {ref.uid}
    # The slot stays bound: nobody else gets it.
    other = claims.add("other", "gpu-0")
    with pytest.raises(PrepareError, match="is prepared for claim ml/w0 as gpu-0"):
        await agent.preparer.prepare(other)
    prepared = await agent.preparer.prepare(ref)
    assert prepared.devices[0].uuid == site.node.gpus()[0].uuid
    assert (agent.cdi.claims(), agent.records.earlier_claims) == ([ref.uid], {})
    await agent.preparer.unprepare(ref)
    agent.assert_nothing_is_left()


@pytest.mark.parametrize("stale_cdi", [True, False])
async def test_reboot_that_renumbers_gpus(site: Ground, home: Path, claims: Claims, *, stale_cdi: bool) -> None:
    """No claim gets the device node of another's GPU, whatever NVIDIA's CDI file says."""
    agent = await site.agent(home, offers())
    gone, *others = [gpu.uuid for gpu in site.node.gpus()]
    refs = await whole(agent, claims, 0, 1, 2)
    reboot_without(site.node, gone, stale_cdi=stale_cdi)
    agent = await reboot(site, home)
    assert agent.cdi.claims() == []
    with pytest.raises(PrepareError, match=f"claim ml/w0: request r0: GPU {gone} .device gpu-0. was not found"):
        await agent.preparer.prepare(refs[0])
    minors = {gpu.uuid: gpu.minor for gpu in site.node.gpus()}
    for ref, uuid in zip(refs[1:], others, strict=False):
        if stale_cdi:
            with pytest.raises(PrepareError, match="run `nvidia-ctk cdi generate`"):
                await agent.preparer.prepare(ref)
        else:
            await agent.preparer.prepare(ref)
            assert gpus_in_specs(agent, site.node)[ref.uid] == [f"/dev/nvidia{minors[uuid]}"]
    assert set(agent.cdi.claims()) == (set() if stale_cdi else {ref.uid for ref in refs[1:]})
    assert set(agent.records.all_claims) == {ref.uid for ref in refs}


async def test_renumbered_while_nobody_has_looked(site: Ground, home: Path, claims: Claims) -> None:
    """A driver that was loaded anew, a moment before the next look at the GPUs."""
    agent = await site.agent(home, offers())
    ref = claims.add("w1", "gpu-1")
    reboot_without(site.node, site.node.gpus()[0].uuid, stale_cdi=True)
    await site.hardware.reopen()
    with pytest.raises(PrepareError, match="which is another GPU now"):
        await agent.preparer.prepare(ref)


@pytest.mark.parametrize("starts", [True, False])
async def test_spec_that_leads_to_another_gpu_now_is_withdrawn(
    site: Ground, home: Path, claims: Claims, *, starts: bool
) -> None:
    """The driver was loaded anew in the same boot. What is prepared stays so, and its spec comes back with NVIDIA's."""
    agent = await site.agent(home, offers())
    ref = (await whole(agent, claims, 1))[0]
    nvidia = next(path for path in site.node.cdi.iterdir() if site.node.gpus()[1].uuid in path.read_text())
    before = nvidia.read_text()
    nvidia.write_text(before.replace("/dev/nvidia1", "/dev/nvidia3"))
    agent = await site.agent(home, None)
    with structlog.testing.capture_logs() as logs:
        await agent.recovery.finish()
    assert (agent.cdi.claims(), set(agent.records.claims)) == ([], {ref.uid})
    # It was told once, and each round tries it again.
    assert logs == []
    nvidia.write_text(before)
    if starts:
        agent = await site.agent(home, None)
    else:
        await agent.recovery.finish()
    assert agent.cdi.claims() == [ref.uid]


async def test_gpu_that_is_missing_after_a_boot_is_lost_until_its_claims_have_gone(
    site: Ground, home: Path, claims: Claims
) -> None:
    agent = await site.agent(home, offers())
    gone, *others = [gpu.uuid for gpu in site.node.gpus()]
    [ref] = await whole(agent, claims, 0)
    reboot_without(site.node, gone, stale_cdi=False)
    for _ in range(2):
        # Also for the next agent of the same boot.
        agent = await reboot(site, home)
        assert agent.gpus.uuids == [gone, *others]
        assert [finding.reason for finding in agent.health.findings(gone)] == [Reason.LOST]
        assert agent.health.withheld(gone, ["gpu-0"])
    await agent.preparer.unprepare(ref)
    await agent.survey.take()
    assert agent.gpus.uuids == others
    # Another reboot without it is nothing to speak of.
    site.node.reboot()
    agent = await reboot(site, home)
    assert agent.gpus.uuids == others


async def test_gpu_that_nobody_holds_may_go(site: Ground, home: Path) -> None:
    agent = await site.agent(home, offers())
    gone, *others = agent.gpus.uuids
    reboot_without(site.node, gone, stale_cdi=False)
    agent = await reboot(site, home)
    assert agent.gpus.uuids == others
    # It comes back into its slot, and nobody else has got it.
    assert agent.records.gpu(gone).slot == 0


# --------------------------------------------------------------------------------------------------- lost files


def reported(agent: Agent, *refs: ClaimRef, boot_id: str | None = None) -> NodeSharing:
    """What the agent has said, and the operator of it."""
    gpus = [
        GpuStatus(uuid=uuid, slot=agent.records.gpu(uuid).slot, minor=0, model="H100", memory="81559Mi", attributes={})
        for uuid in agent.gpus.uuids
    ]
    told = [ClaimStatus(uid=ref.uid, claim=ref.display_name) for ref in refs]
    status = NodeSharingStatus(boot_id=boot_id or agent.records.boot.id, gpus=tuple(gpus), claims=tuple(told))
    return sharing_of(status, gpus=tuple(GpuSharing(uuid=uuid) for uuid in agent.gpus.uuids))


async def forgetful(
    site: Ground,
    home: Path,
    sharing: NodeSharing,
    slices: tuple[ResourceSlice, ...] = (),
    offered: Offers | None = None,
) -> Agent:
    """An agent whose state directory was lost, after its first round."""
    shutil.rmtree(home / "state", ignore_errors=True)
    agent = Agent(site, home)
    await agent.survey.take()
    assert agent.gpus.uuids == []
    await agent.recovery.renew()
    await agent.recovery.settle()
    before = set(agent.cdi.claims())
    await agent.recovery.learn(sharing, slices, take_survey=agent.survey.take)
    await agent.decide(offered or offers())
    assert set(agent.cdi.claims()) == before
    await agent.recovery.readopt(sharing)
    return agent


async def test_lost_state_directory(site: Ground, home: Path, claims: Claims) -> None:
    agent = await site.agent(home, offers())
    refs = await whole(agent, claims, 2, 0)
    sharing = reported(agent, *refs)
    specs = {path.name: path.read_bytes() for path in (home / "cdi").iterdir()}
    prepared = dict(agent.records.claims)
    agent = await forgetful(site, home, sharing)
    assert {path.name: path.read_bytes() for path in (home / "cdi").iterdir()} == specs
    assert agent.records.claims == prepared
    assert agent.records.lost_state
    other = claims.add("other", "gpu-2")
    with pytest.raises(PrepareError, match="is prepared for claim ml/w2"):
        await agent.preparer.prepare(other)


async def test_lost_claim_of_a_mode_that_is_not_offered_any_more(site: Ground, home: Path, claims: Claims) -> None:
    """It keeps what it was given, which nobody but the NodeSharing knows."""
    agent = await site.agent(home, offers())
    ref = claims.add("share", "gpu-0-timeslicing", shareID="s", consumedCapacity={"shares": "1", "memory": "4Gi"})
    prepared = await agent.preparer.prepare(ref)
    sharing = reported(agent, ref)
    told = ClaimStatus(uid=ref.uid, claim=ref.display_name, settings=(prepared.devices[0].settings,))
    status = sharing.status.model_copy(update={"claims": (told,)})
    sharing = sharing.model_copy(update={"status": status})
    agent = await forgetful(site, home, sharing, offered=AS_FOUND)
    assert dict(agent.records.claims) == {ref.uid: prepared}


async def test_lost_state_and_cdi_directory(site: Ground, home: Path, claims: Claims) -> None:
    """The NodeSharing knows it all the same, but only of this boot."""
    agent = await site.agent(home, offers())
    refs = await whole(agent, claims, 1)
    sharing = reported(agent, *refs)
    shutil.rmtree(home / "cdi")
    again = await forgetful(site, home, sharing)
    assert set(again.records.claims) == {refs[0].uid}
    shutil.rmtree(home / "cdi")
    later = await forgetful(site, home, reported(agent, *refs, boot_id="earlier"))
    assert later.records.claims == {}


async def test_specs_of_an_earlier_boot_are_nobodys(site: Ground, home: Path, claims: Claims) -> None:
    agent = await site.agent(home, offers())
    await whole(agent, claims, 1)
    shutil.rmtree(home / "state")
    began = site.node.proc / "stat"
    began.chmod(0o644)
    began.write_text(f"btime {int((home / 'cdi').stat().st_mtime) + 60}\n")
    agent = await site.agent(home, None)
    assert (agent.cdi.claims(), agent.records.lost_claims) == ([], frozenset())


SOURCES = ("status", "slices", "specs", "nobody")


@pytest.mark.parametrize("source", SOURCES)
async def test_slots_that_are_not_in_the_order_of_minors(site: Ground, home: Path, claims: Claims, source: str) -> None:
    agent = await site.agent(home, offers())
    uuids = [gpu.uuid for gpu in site.node.gpus()]
    slots = {uuid: slot for slot, uuid in enumerate(reversed(uuids))}
    shutil.rmtree(home / "state")
    records = Agent(site, home).records
    await records.give_slots(slots)
    agent = await site.agent(home, offers())
    assert [agent.gpus.uuid_at(slot) for slot in range(4)] == uuids[::-1]
    refs = await whole(agent, claims, 0, 1, 2, 3)
    sharing = reported(agent, *refs)
    slices: tuple[ResourceSlice, ...] = ()
    if source != "status":
        sharing = sharing_of(spec_of(sharing))
    if source == "slices":
        devices = [_device(f"gpu-{slot}", uuid) for uuid, slot in slots.items()]
        devices += [_device("gpu-1-mig-1g10gb-19-0", uuids[0])]
        slices = (ResourceSlice(metadata=WholeMeta(name="s"), spec={"devices": devices}),)
    if source in {"slices", "nobody"}:
        shutil.rmtree(home / "cdi")
    agent = await forgetful(site, home, sharing, slices)
    assert [agent.gpus.uuid_at(slot) for slot in range(4)] == (uuids if source == "nobody" else uuids[::-1])


@pytest.mark.parametrize("is_here", [True, False])
async def test_gpu_without_a_record_waits_for_its_slot_although_it_was_seen(
    site: Ground, home: Path, claims: Claims, *, is_here: bool
) -> None:
    uuids = [gpu.uuid for gpu in site.node.gpus()]
    await Agent(site, home).records.give_slots({uuid: slot for slot, uuid in enumerate(reversed(uuids))})
    before = await site.agent(home, offers())
    refs = await whole(before, claims, 0, 1, 2, 3)
    sharing = reported(before, *refs)
    for directory in ("gpus", "claims"):
        shutil.rmtree(home / "state" / directory)
    if not is_here:
        site.node.inject(faults.GpuLost(uuids[0]))
    agent = Agent(site, home)
    await agent.survey.take()
    assert agent.gpus.uuids == []
    await agent.recovery.learn(sharing, (), take_survey=agent.survey.take)
    assert [agent.gpus.uuid_at(slot) for slot in range(4)] == uuids[::-1]


def spec_of(sharing: NodeSharing) -> NodeSharingStatus:
    """Nothing is left of what the agent has said."""
    return sharing.status.model_copy(update={"gpus": (), "claims": ()})


def _device(name: str, uuid: str) -> dict[str, Any]:
    return {"name": name, "attributes": {"uuid": {"string": uuid}}}


async def test_nothing_is_prepared_before_the_api_was_read(
    site: Ground, home: Path, claims: Claims, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpusharing.agent.claims.preparing._RECOVERY_PATIENCE", 0.01)
    first = await site.agent(home, offers())
    refs = await whole(first, claims, 0)
    agent = Agent(site, home)
    await agent.survey.take()
    await agent.recovery.renew()
    await agent.recovery.settle()
    with pytest.raises(PrepareError, match="could not read the NodeSharing and"):
        await agent.preparer.prepare(claims.add("new", "gpu-1"))
    # Whoever runs is not disturbed.
    await agent.preparer.prepare(refs[0])


# --------------------------------------------------------------------------- damaged records that nobody tells of


async def damaged(site: Ground, home: Path, claims: Claims, *, named: bool) -> tuple[Agent, ClaimRef]:
    first = await site.agent(home, offers())
    [ref] = await whole(first, claims, 0)
    (home / "state/claims" / f"{ref.uid}.json").write_bytes(b"{")
    if not named:
        shutil.rmtree(home / "state/metadata" / ref.uid)
    agent = await site.agent(home, None)
    assert agent.records.lost_claims == {ref.uid}
    return agent, ref


@pytest.mark.parametrize("named", [True, False])
async def test_not_told_is_not_never_used(
    site: Ground, home: Path, claims: Claims, monkeypatch: pytest.MonkeyPatch, *, named: bool
) -> None:
    """The NodeSharing was deleted meanwhile. Files of the claim know its name; else the operator says it."""
    agent, ref = await damaged(site, home, claims, named=named)
    await agent.recovery.readopt(sharing_of())
    assert set(agent.records.claims) == ({ref.uid} if named else set())
    assert agent.records.lost_claims == (set() if named else {ref.uid})
    assert agent.cdi.claims() == [ref.uid]
    spoken = sharing_of(
        gpus=(GpuSharing(uuid=agent.gpus.uuids[0]),),
        claims=(ClaimSharing(uid=ref.uid, claim=ref.display_name, allocation_hash="x", verdict=Verdict.ALLOWED),),
    )
    await agent.recovery.readopt(spoken)
    assert set(agent.records.claims) == {ref.uid}


@pytest.mark.parametrize("runs", [True, False])
async def test_what_the_operator_does_not_know_either_is_given_back_unless_it_runs(
    site: Ground, home: Path, claims: Claims, monkeypatch: pytest.MonkeyPatch, *, runs: bool
) -> None:
    agent, ref = await damaged(site, home, claims, named=False)
    monkeypatch.setattr(containers, "run_with", lambda uid: runs and uid == ref.uid)
    await agent.recovery.readopt(sharing_of(gpus=(GpuSharing(uuid=agent.gpus.uuids[0]),)))
    assert agent.records.lost_claims == ({ref.uid} if runs else set())
    assert agent.cdi.claims() == ([ref.uid] if runs else [])


# ------------------------------------------------------------------------------------------------- forgotten claims


@pytest.fixture
def clock() -> list[float]:
    """The first is the time, in seconds."""
    return [10_000.0]


def forgotten(agent: Agent, clock: list[float]) -> ForgottenClaims:
    recovery = agent.recovery
    return ForgottenClaims(
        records=agent.records,
        reader=recovery._reader,
        files=recovery._files,
        preparer=agent.preparer,
        clock=lambda: clock[0],
    )


def named_by_the_operator(agent: Agent, *refs: ClaimRef) -> NodeSharing:
    named = [
        ClaimSharing(uid=ref.uid, claim=ref.display_name, allocation_hash="x", verdict=Verdict.ALLOWED) for ref in refs
    ]
    return sharing_of(gpus=tuple(GpuSharing(uuid=uuid) for uuid in agent.gpus.uuids), claims=tuple(named))


async def test_claim_of_before_the_boot_that_has_gone_is_given_back(
    site: Ground, home: Path, claims: Claims, clock: list[float]
) -> None:
    agent = await site.agent(home, offers())
    gone, stays, away = await whole(agent, claims, 0, 1, 2)
    site.node.reboot()
    agent = await reboot(site, home)
    # Deleted with force, deallocated, and one that the API has.
    del claims.devices["w0"]
    claims.devices["w2"] = []
    looking = forgotten(agent, clock)
    # Nobody knows what an operator thinks that has not spoken; and an API that cannot be read says nothing.
    await looking.give_back(sharing_of())
    claims.is_away = True
    await looking.give_back(named_by_the_operator(agent))
    assert set(agent.records.earlier_claims) == {gone.uid, stays.uid, away.uid}
    claims.is_away, clock[0] = False, clock[0] + 60
    await looking.give_back(named_by_the_operator(agent))
    assert set(agent.records.earlier_claims) == {stays.uid}
    await agent.preparer.prepare(claims.add("other", "gpu-0"))


async def test_claim_of_this_boot_is_given_back_once_nothing_can_run(
    site: Ground, home: Path, claims: Claims, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    running = True
    monkeypatch.setattr(containers, "run_with", lambda _: running)
    agent = await site.agent(home, offers())
    [ref] = await whole(agent, claims, 0)
    del claims.devices["w0"]
    looking = forgotten(agent, clock)

    async def minutes_pass(number: int) -> bool:
        for _ in range(number):
            clock[0] += 60
            await looking.give_back(named_by_the_operator(agent))
        return ref.uid in agent.records.claims and agent.cdi.claims() == [ref.uid]

    assert await minutes_pass(60)
    running = False
    assert await minutes_pass(15)
    # A container that fails is started again for a moment.
    running = True
    assert await minutes_pass(1)
    running = False
    assert await minutes_pass(15)
    assert not await minutes_pass(1)
    agent.assert_nothing_is_left()


async def test_container_that_starts_at_the_last_moment_keeps_its_claim(
    site: Ground, home: Path, claims: Claims, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = await site.agent(home, offers())
    [ref] = await whole(agent, claims, 0)
    # It was started while its spec was there.
    monkeypatch.setattr(containers, "run_with", lambda _: not agent.cdi.claims())
    del claims.devices["w0"]
    looking = forgotten(agent, clock)
    for _ in range(20):
        clock[0] += 60
        await looking.give_back(named_by_the_operator(agent))
    assert (set(agent.records.claims), agent.cdi.claims()) == ({ref.uid}, [ref.uid])


async def test_requests_are_few(site: Ground, home: Path, claims: Claims, clock: list[float]) -> None:
    agent = await site.agent(home, offers())
    refs = [claims.add(f"s{number}", "gpu-0", adminAccess=True) for number in range(20)]
    for ref in refs:
        await agent.preparer.prepare(ref)
    looking = forgotten(agent, clock)
    claims.reads = 0
    # Rounds may come many times a second.
    for _ in range(10):
        await looking.give_back(named_by_the_operator(agent))
    assert claims.reads == 8
    clock[0] += 60
    await looking.give_back(named_by_the_operator(agent, *refs))
    assert claims.reads == 8
    # Each has its turn.
    del claims.devices["s19"]
    site.node.reboot()
    for _ in range(3):
        clock[0] += 60
        await looking.give_back(named_by_the_operator(agent))
    assert claims.reads == 8 + 24


def test_containers_are_known_by_their_mounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containers, "_PROCESSES", tmp_path)
    for pid, mounts in (("1", "/ /\n"), ("2", None), ("self", "/var/lib/gpusharing/metadata/self/gpu.json")):
        (tmp_path / pid).mkdir()
        if mounts is not None:
            (tmp_path / pid / "mountinfo").write_text(mounts)
    line = "1 2 8:1 /var/lib/gpusharing/metadata/uid-1/gpu.json /var/run/kubernetes.io/dra-device-attributes/x ro\n"
    (tmp_path / "3").mkdir()
    (tmp_path / "3/mountinfo").write_text(f"0 1 8:1 / / rw\n{line}")
    assert [containers.run_with(uid) for uid in ("uid-1", "uid", "self")] == [True, False, False]


# ------------------------------------------------------------------------------------ what the scheduler may miscount


SHARES = Offers(time_slicing=TimeSlicingOffer(max_clients=2, interval=Interval.MEDIUM))


async def test_prepared_shares_are_counted(site: Ground, home: Path, claims: Claims) -> None:
    """Claims were deleted under running pods, and the scheduler gives their shares to others."""
    agent = await site.agent(home, SHARES)
    refs = [claims.add(f"a{number}", "gpu-0-timeslicing", shareID=f"share-{number}") for number in range(3)]
    for ref in refs[:2]:
        await agent.preparer.prepare(ref)
        del claims.devices[ref.name]
    with pytest.raises(PrepareError) as refused:
        await agent.preparer.prepare(refs[2])
    for part in ("device gpu-0-timeslicing has shares 2", "prepared claims ml/a0, ml/a1", "delete pods whose claims"):
        assert part in str(refused.value)
    # One that leaves makes room.
    await agent.preparer.unprepare(refs[0])
    await agent.preparer.prepare(refs[2])


async def test_shares_of_before_the_boot_are_kept_when_the_offer_has_become_smaller(
    site: Ground, home: Path, claims: Claims
) -> None:
    agent = await site.agent(home, SHARES)
    refs = [claims.add(f"a{number}", "gpu-0-timeslicing", shareID=f"s{number}") for number in range(2)]
    for ref in refs:
        await agent.preparer.prepare(ref)
    await agent.decide(Offers(time_slicing=TimeSlicingOffer(max_clients=2, interval=Interval.SHORT)))
    site.node.reboot()
    agent = await reboot(site, home)
    await agent.decide(Offers(time_slicing=TimeSlicingOffer(max_clients=2, interval=Interval.SHORT)))
    for ref in refs:
        await agent.preparer.prepare(ref)


@pytest.mark.parametrize(("late", "is_refused"), [(-3600, False), (59, False), (61, True)])
async def test_claim_that_is_newer_than_the_closing_of_its_device(
    site: Ground, home: Path, claims: Claims, late: int, *, is_refused: bool
) -> None:
    agent = await site.agent(home, SHARES)
    uuid = site.node.gpus()[0].uuid
    record = agent.records.gpu(uuid)
    assert record.publication
    since = seconds_since_boot() - 600
    entries = tuple(
        dataclasses.replace(entry, standing=Standing.CLOSING, unwanted_since=since, closing_since=since)
        for entry in record.publication.entries
    )
    publication = dataclasses.replace(record.publication, entries=entries)
    await agent.records.put_gpu(uuid, record.model_copy(update={"publication": publication}))
    ref = claims.add("late", "gpu-0-timeslicing", shareID="s")
    claims.created["late"] = as_moment(since + late)
    if is_refused:
        with pytest.raises(PrepareError, match="device gpu-0-timeslicing has been closing since"):
            await agent.preparer.prepare(ref)
    else:
        await agent.preparer.prepare(ref)


async def test_gpu_that_becomes_reserved_needs_a_verdict(site: Ground, home: Path, claims: Claims) -> None:
    """It is still published for everybody, until what is closing has gone."""
    agent = await site.agent(home, offers())
    runs = (await whole(agent, claims, 1))[0]
    agent.gpus.told(
        GpuSharing(uuid=uuid, policy=PolicyReference(name="search", generation=1), offers=offers(), restricted=True)
        for uuid in agent.gpus.uuids
    )
    stranger = claims.add("stranger", "gpu-0")
    agent.verdicts._patience = 0.01
    with pytest.raises(PrepareError, match="tenants of policy search only, and the operator has not said"):
        await agent.preparer.prepare(stranger)
    claim = await agent.recovery._reader.read(stranger)
    entry = ClaimSharing(
        uid=stranger.uid,
        claim=stranger.display_name,
        allocation_hash=allocation.digest(claim, DRIVER),
        verdict=Verdict.DENIED,
        reason="no tenant",
    )
    agent.verdicts.told([entry])
    with pytest.raises(PrepareError, match="denied by the operator: no tenant"):
        await agent.preparer.prepare(stranger)
    agent.verdicts.told([entry.model_copy(update={"verdict": Verdict.ALLOWED})])
    await agent.preparer.prepare(stranger)
    # Whoever runs is not disturbed.
    await agent.preparer.prepare(runs)
