"""What the operator says of each claim of a node."""

from collections.abc import Sequence

import pytest

from building import (
    DRIVER,
    EXCLUSIVE,
    claim,
    config,
    decided,
    gpu_config,
    gpu_status,
    interval_config,
    node_sharing,
    policy,
    result,
    time_slicing,
)
from gpusharing.api.dra import ResourceClaim
from gpusharing.api.sharing import (
    Allowance,
    ClaimSharing,
    DeviceSettings,
    Enforcement,
    GpuSharing,
    Interval,
    MemorySettings,
    MemoryWallSupport,
    NodeSharingSpec,
    Offers,
    SettingSources,
    SharingPolicy,
    TimeSlicingMemory,
    TimeSlicingOffer,
    Verdict,
)
from gpusharing.core import allocation
from gpusharing.core.claims import claim_entries
from gpusharing.core.world import NodeView

MEDIUM = policy("thirds", generation=3, offers=time_slicing(4, Interval.MEDIUM))
LONG = policy("thirds", generation=4, offers=time_slicing(4, Interval.LONG))
WHOLE = policy("thirds", generation=5, offers=EXCLUSIVE)


def entries(
    claims: Sequence[ResourceClaim], winner: SharingPolicy | None, *, before: Sequence[ClaimSharing] = (), gpus: int = 2
) -> tuple[ClaimSharing, ...]:
    sharing = node_sharing(gpus=gpus, spec=NodeSharingSpec(claims=tuple(before)))
    view = NodeView(sharing=sharing, labels={}, claims=tuple(claims))
    return claim_entries(view, tuple(decided(slot, winner) for slot in range(gpus)), DRIVER)


def sliced(device: str, interval: Interval, request: str = "gpu") -> DeviceSettings:
    sources = SettingSources(interval="policy/thirds")
    return DeviceSettings(request=request, device=device, interval=interval, sources=sources)


def plain(device: str, request: str = "gpu") -> DeviceSettings:
    return DeviceSettings(request=request, device=device)


def test_an_entry_names_the_claim_its_allocation_and_its_settings() -> None:
    item = claim("c1", result("gpu-1-timeslicing"), namespace="team")
    assert entries([item], MEDIUM) == (
        ClaimSharing(
            uid="uid-c1",
            claim="team/c1",
            allocation_hash=allocation.digest(item, DRIVER),
            verdict=Verdict.ALLOWED,
            settings=(sliced("gpu-1-timeslicing", Interval.MEDIUM),),
        ),
    )


def test_entries_are_sorted_so_that_nothing_is_written_for_their_order() -> None:
    items = [claim(name) for name in "bca"]
    assert [entry.uid for entry in entries(items, None)] == ["uid-a", "uid-b", "uid-c"]
    assert entries(items, None) == entries(items[::-1], None)


def test_devices_of_other_nodes_and_drivers_are_left_to_others() -> None:
    item = claim("c1", result("gpu-0"), result("gpu-1", pool="n2"), result("nic-0", driver="nic.example.com"))
    [entry] = entries([item], None)
    assert entry.settings == (plain("gpu-0"),)


@pytest.mark.parametrize("winner", [None, WHOLE, MEDIUM])
def test_a_whole_gpu_is_the_claims_own_whatever_is_offered(winner: SharingPolicy | None) -> None:
    [entry] = entries([claim(configs=[config(interval_config("Short"))])], winner)
    sources = SettingSources(interval="claim")
    assert entry.verdict is Verdict.ALLOWED
    assert entry.settings == (plain("gpu-0").model_copy(update={"interval": Interval.SHORT, "sources": sources}),)


def test_a_denied_claim_says_why_for_each_device() -> None:
    cut = config(gpu_config(kind="MigDeviceConfig"), requests=["a", "b"])
    item = claim("c1", result("gpu-0", request="a"), result("gpu-1", request="b"), result(request="c"), configs=[cut])
    [entry] = entries([item], None)
    why = "config of the claim: MigDeviceConfig names this request, but device {} is not a MIG device"
    how = ": use GpuConfig"
    assert entry.verdict is Verdict.DENIED
    assert entry.reason == f"request a: {why.format('gpu-0')}{how}; request b: {why.format('gpu-1')}{how}"
    assert entry.settings == (plain("gpu-0", "c"),)


def test_a_reason_can_be_written_whatever_the_claim_says() -> None:
    parameters = gpu_config() | {"\ud800" * 5_000: 1}
    [entry] = entries([claim(configs=[config(parameters)])], None)
    assert entry.verdict is Verdict.DENIED
    assert ClaimSharing.model_validate_json(entry.model_dump_json(by_alias=True)) == entry
    assert len(entry.reason or "") < 1_000


SHARED = claim("c1", result("gpu-0-timeslicing"))


def test_a_claim_in_use_follows_its_policys_interval() -> None:
    [entry] = entries([SHARED], LONG, before=entries([SHARED], MEDIUM))
    assert entry.settings == (sliced("gpu-0-timeslicing", Interval.LONG),)


@pytest.mark.parametrize("winner", [None, WHOLE])
def test_a_claim_keeps_what_it_was_given_when_its_mode_is_no_longer_offered(winner: SharingPolicy | None) -> None:
    before = entries([SHARED], MEDIUM)
    assert entries([SHARED], winner, before=before) == before
    assert entries([SHARED], winner, before=entries([SHARED], winner, before=before)) == before


def test_it_was_given_nothing_if_it_came_too_late() -> None:
    [entry] = entries([SHARED], WHOLE)
    assert (entry.verdict, entry.settings) == (Verdict.ALLOWED, ())


def test_what_another_allocation_was_given_is_void() -> None:
    before = entries([SHARED], MEDIUM)
    again = claim("c1", result("gpu-0-timeslicing", share_id="second"))
    [entry] = entries([again], WHOLE, before=before)
    assert entry.settings == ()


def test_each_device_of_a_request_keeps_its_own_settings() -> None:
    """A request with count: 2 gives two results of one name."""
    item = claim("c1", result("gpu-0-timeslicing"), result("gpu-1-timeslicing"))
    before = entries([item], MEDIUM)
    assert [settings.device for settings in before[0].settings] == ["gpu-0-timeslicing", "gpu-1-timeslicing"]
    assert entries([item], WHOLE, before=before) == before


def test_two_shares_of_one_gpu_stay_two() -> None:
    item = claim("c1", result("gpu-0-timeslicing", share_id="a"), result("gpu-0-timeslicing", share_id="b"))
    before = entries([item], MEDIUM)
    assert len(before[0].settings) == 2
    assert entries([item], WHOLE, before=before) == before


@pytest.mark.parametrize("supported", [True, False])
def test_an_entry_says_to_what_memory_a_claim_is_held(*, supported: bool) -> None:
    memory = TimeSlicingMemory(default="4096Mi", enforcement=Enforcement.PREFERRED)
    walls = policy("thirds", offers=Offers(time_slicing=TimeSlicingOffer(max_clients=4, memory=memory)))
    support = MemoryWallSupport(supported=supported, reason=None if supported else "it is too old")
    status = gpu_status(0).model_copy(update={"memory_wall": support})
    view = NodeView(sharing=node_sharing(gpus=[status]), labels={}, claims=(SHARED,))
    [entry] = claim_entries(view, (decided(0, walls),), DRIVER)
    [settings] = entry.settings
    limit = MemorySettings(limit=4096, enforcement=Enforcement.PREFERRED)
    assert (settings.memory, len(settings.ignored)) == ((limit, 0) if supported else (None, 1))


def test_a_gpu_that_is_gone_takes_only_its_own_settings_along() -> None:
    sharing = node_sharing(gpus=[gpu_status(1)])
    view = NodeView(
        sharing=sharing, labels={}, claims=(claim("c1", result("gpu-0-timeslicing"), result("gpu-1-timeslicing")),)
    )
    winner: GpuSharing = decided(1, MEDIUM)
    [entry] = claim_entries(view, (winner,), DRIVER)
    assert entry.settings == (sliced("gpu-1-timeslicing", Interval.MEDIUM),)


def test_a_claim_is_denied_what_the_policy_does_not_allow_and_keeps_what_it_allowed() -> None:
    item = claim(configs=[config(interval_config("Short"))])
    view = NodeView(sharing=node_sharing(gpus=1), labels={}, claims=(item,))

    def told(view: NodeView, *intervals: Interval) -> ClaimSharing:
        less = decided(0, WHOLE).model_copy(update={"allow": Allowance(intervals=intervals)})
        [entry] = claim_entries(view, (less,), DRIVER)
        return entry

    denied, allowed = told(view, Interval.LONG), told(view, Interval.SHORT)
    assert (denied.verdict, allowed.verdict) == (Verdict.DENIED, Verdict.ALLOWED)
    assert "is Short, and tenants.allow.intervals has Long in policy thirds" in (denied.reason or "")
    later = node_sharing(gpus=1, spec=NodeSharingSpec(claims=(allowed,)))
    assert told(NodeView(sharing=later, labels={}, claims=(item,)), Interval.LONG) == allowed


def test_claims_in_pools_of_the_node_are_the_nodes() -> None:
    view = NodeView(sharing=node_sharing(gpus=1), labels={}, claims=(claim("c1", result(pool="n1/thirds")),))
    [entry] = claim_entries(view, (decided(0, WHOLE),), DRIVER)
    assert entry.settings == (plain("gpu-0"),)
