"""What the agent remembers: the same after every restart, and nothing that a reboot has undone."""

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.samples import prepared_claim, prepared_device
from gpusharing.agent.state.files import Boot, Envelopes
from gpusharing.agent.state.models import Generation, GpuJournal, GpuRecord, GpuSettings, MadeInstance, PreparedClaim
from gpusharing.agent.state.records import Records
from gpusharing.api.sharing.node_spec import GpuSharing, PolicyReference
from gpusharing.api.sharing.offers import Interval

EARLIER = Boot("earlier", None)


@given(starts=st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=6), max_size=6))
def test_slot_stays_with_its_gpu_and_new_gpus_get_the_lowest_that_no_gpu_ever_had(starts: list[list[str]]) -> None:
    """Boards come, go and come back between starts of the agent, in any order."""
    expected: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as directory:
        for boards in starts:
            records = Records(Path(directory))
            for uuid in boards:
                expected.setdefault(uuid, len(expected))
                assert records.gpu(uuid).slot == expected[uuid]
            asyncio.run(records.flush())


async def test_slot_of_a_lost_record_that_claims_know(tmp_path: Path) -> None:
    """The names of devices that containers have must go on speaking of their GPU."""
    records = Records(tmp_path)
    slots = {uuid: records.gpu(uuid).slot for uuid in "abc"}
    await records.flush()
    for uuid in "bc":
        device = prepared_device(f"gpu-{slots[uuid]}", uuid=uuid)
        records.put_claim(prepared_claim(uuid, device))
        (tmp_path / "gpus" / f"{uuid}.json").unlink()
    records = Records(tmp_path)
    # They are found in another order than at first, and with a new one between.
    assert [records.gpu(uuid).slot for uuid in "cdba"] == [slots["c"], 3, slots["b"], slots["a"]]


async def test_slot_of_a_lost_record_is_free_again(tmp_path: Path) -> None:
    records = Records(tmp_path)
    for uuid in "abc":
        records.gpu(uuid)
    await records.flush()
    (tmp_path / "gpus" / "b.json").write_text("broken")
    records = Records(tmp_path)
    assert [records.gpu(uuid).slot for uuid in "acbd"] == [0, 2, 1, 3]


async def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    records = Records(tmp_path)
    claim, other = prepared_claim("one"), prepared_claim("two")
    decided = GpuSharing(uuid="a", policy=PolicyReference(name="thirds", generation=3))
    records.put_claim(claim)
    records.put_claim(other)
    records.drop_claim(other.uid)
    await records.put_gpu("a", GpuRecord(slot=4, decided=decided, published_configured=True))
    journal = GpuJournal(settings=GpuSettings(time_slice=Interval.SHORT, compute_mode="Prohibited"))
    records.put_journal("a", journal)
    records.put_journal("b", journal)
    records.put_journal("b", GpuJournal())
    await records.put_generation("n1", 17)
    await records.put_generation("n1/thirds", 3)

    again = Records(tmp_path)
    assert again.claims == {claim.uid: claim}
    assert again.gpu("a") == GpuRecord(slot=4, decided=decided, published_configured=True)
    assert again.journal("a") == journal
    assert again.journal("b") == GpuJournal()
    assert again.changed_gpus == ["a"]
    assert again.generation("n1") == 17
    assert again.generation("n1/thirds") == 3
    assert again.generation("n1/others") == 0


def test_reboot_has_set_gpus_back_and_left_the_rest(tmp_path: Path) -> None:
    Envelopes(tmp_path / "journal", GpuJournal, boot=EARLIER, survives_reboot=True).write(
        "a", GpuJournal(instances=(MadeInstance(profile_id=19, start=0),))
    )
    made = prepared_claim("one", prepared_device("gpu-0-mig-1g10gb-19-0", mig_uuid="MIG-1"))
    Envelopes(tmp_path / "claims", PreparedClaim, boot=EARLIER, survives_reboot=True).write(made.uid, made)
    Envelopes(tmp_path / "gpus", GpuRecord, boot=EARLIER, survives_reboot=True).write("a", GpuRecord(slot=3))
    Envelopes(tmp_path / "pool", Generation, boot=EARLIER, survives_reboot=True).write(
        "generation", Generation(value=9)
    )

    records = Records(tmp_path)
    assert records.changed_gpus == []
    assert list((tmp_path / "journal").iterdir()) == []
    assert (dict(records.claims), dict(records.earlier_claims)) == ({}, {made.uid: made})
    assert records.claims_on(made.devices[0].uuid) == []
    assert records.holders_of(made.devices[0].uuid) == [(made, made.devices[0])]
    assert records.gpu("a").slot == 3
    assert records.generation("n1") == 9


def test_who_only_looks_does_not_hold_the_gpu(tmp_path: Path) -> None:
    records = Records(tmp_path)
    holder, watcher = prepared_claim("holder"), prepared_claim("watcher", admin=True)
    records.put_claim(holder)
    records.put_claim(watcher)
    assert records.claims_on(holder.devices[0].uuid) == [(holder, holder.devices[0])]
    assert records.claims_on("another") == []


async def test_what_did_not_reach_the_disk_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = Records(tmp_path)

    def full(self: object, key: str, content: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(Envelopes, "write", full)
    with pytest.raises(OSError, match="No space"):
        records.put_claim(prepared_claim("one"))
    with pytest.raises(OSError, match="No space"):
        await records.put_generation("n1", 2)
    assert not records.claims
    assert records.generation("n1") == 0
