"""What the operator says of each claim of a node."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from building import (
    DRIVER,
    EXCLUSIVE,
    MINOR,
    claim,
    config,
    decided,
    gpu_config,
    gpu_status,
    interval_config,
    node,
    node_sharing,
    policy,
    prepared,
    result,
    time_slicing,
)
from gpusharing.api.dra import Namespace, Node, ResourceClaim
from gpusharing.api.meta import LabelSelector, NamespaceMeta
from gpusharing.api.sharing.device_settings import DeviceSettings, MemorySettings, SettingSources
from gpusharing.api.sharing.gpu_status import MemoryWallSupport
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.api.sharing.node_spec import ClaimSharing, GpuSharing, NodeSharingSpec, Verdict
from gpusharing.api.sharing.offers import (
    Enforcement,
    Interval,
    MpsMemory,
    MpsOffer,
    MpsThreads,
    Offers,
    TimeSlicingMemory,
    TimeSlicingOffer,
)
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.api.sharing.tenants import Allowance, Tenants
from gpusharing.core.claims import allocation, settings
from gpusharing.core.state.cluster_state import ClusterState, Setup
from gpusharing.core.state.node_view import NodeView
from gpusharing.core.verdicts import tenancy
from gpusharing.core.verdicts.conflicts import Loss
from gpusharing.core.verdicts.quota import NO_EXCESS, Excess
from gpusharing.core.verdicts.tenancy import Registry
from gpusharing.core.verdicts.verdicts import claim_entries

MEDIUM = policy("thirds", generation=3, offers=time_slicing(4, Interval.MEDIUM))
LONG = policy("thirds", generation=4, offers=time_slicing(4, Interval.LONG))
WHOLE = policy("thirds", generation=5, offers=EXCLUSIVE)


def told(view: NodeView, gpus: Sequence[GpuSharing]) -> tuple[ClaimSharing, ...]:
    return claim_entries(view, gpus, Registry({}, {}), {})


def entries(
    claims: Sequence[ResourceClaim], winner: SharingPolicy | None, *, before: Sequence[ClaimSharing] = (), gpus: int = 2
) -> tuple[ClaimSharing, ...]:
    sharing = node_sharing(gpus=gpus, spec=NodeSharingSpec(claims=tuple(before)))
    view = NodeView(driver=DRIVER, sharing=sharing, labels={}, claims=tuple(claims))
    return told(view, tuple(decided(slot, winner) for slot in range(gpus)))


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


def test_what_many_requests_are_refused_for_is_said_once() -> None:
    results = [result("gpu-0-timeslicing", request=f"r{number}") for number in range(32)]
    item = claim("c1", *results, configs=[config(gpu_config({"strategy": "MPS"}))])
    [entry] = entries([item], MEDIUM)
    assert entry.reason == (
        "requests r0, r1, r2 and 29 more: config of the claim: sharing.strategy is MPS, but device gpu-0-timeslicing "
        "is shared by time-slicing: use TimeSlicing, or remove the config"
    )


def test_a_reason_is_as_long_as_the_api_takes_it() -> None:
    results = [result(f"gpu-{number}", request=f"r{number}") for number in range(32)]
    cut = [config(gpu_config(kind="MigDeviceConfig"), requests=[f"r{number}" for number in range(32)])]
    [entry] = entries([claim("c1", *results, configs=cut)], None)
    assert entry.reason is not None
    assert (len(entry.reason), entry.reason[-1]) == (1024, "…")


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
    view = NodeView(driver=DRIVER, sharing=node_sharing(gpus=[status]), labels={}, claims=(SHARED,))
    [entry] = told(view, (decided(0, walls),))
    [settings] = entry.settings
    limit = MemorySettings(limit=4096, enforcement=Enforcement.PREFERRED)
    assert (settings.memory, len(settings.ignored)) == ((limit, 0) if supported else (None, 1))


def test_a_gpu_that_is_gone_takes_only_its_own_settings_along() -> None:
    sharing = node_sharing(gpus=[gpu_status(1)])
    view = NodeView(
        driver=DRIVER,
        sharing=sharing,
        labels={},
        claims=(claim("c1", result("gpu-0-timeslicing"), result("gpu-1-timeslicing")),),
    )
    winner: GpuSharing = decided(1, MEDIUM)
    [entry] = told(view, (winner,))
    assert entry.settings == (sliced("gpu-1-timeslicing", Interval.MEDIUM),)


# --------------------------------------------------------------------------------------------------------- the verdict

SEARCH = policy("search", tenants=Tenants(namespaces=LabelSelector(match_labels={"team": "search"})))
MINE = {"mine": {"team": "search"}}
THEIRS = claim("c1", result(pool="n1/search"), namespace="other", pods=["p1"])


def judged(
    item: ResourceClaim,
    *,
    namespaces: Mapping[str, Mapping[str, str]] = MINE | {"other": {}},
    before: Sequence[ClaimSharing] = (),
    runs: bool = False,
    allow: Allowance | None = None,
    lost: Mapping[str, Loss] | None = None,
    beyond_quota: Excess = NO_EXCESS,
) -> ClaimSharing | None:
    """On a GPU that is for the tenants of policy search."""
    sharing = node_sharing(spec=NodeSharingSpec(claims=tuple(before)), claims=prepared(item) if runs else ())
    view = NodeView(driver=DRIVER, sharing=sharing, labels={}, claims=(item,), namespaces=namespaces)
    gpu = decided(0, SEARCH).model_copy(update={"restricted": True, "allow": allow})
    registry = Registry({"search": SEARCH.spec.tenants.namespaces}, namespaces, beyond_quota)
    told = claim_entries(view, (gpu,), registry, lost or {})
    return told[0] if told else None


def test_who_is_no_tenant_is_denied_and_told_what_to_do() -> None:
    entry = judged(THEIRS)
    assert entry is not None
    assert entry.verdict is Verdict.DENIED
    assert entry.reason == (
        "SharingPolicy search: namespace other is not one of its tenants (spec.tenants.namespaces: team=search), and "
        "device n1/search/gpu-0 is reserved for them; delete pod p1 in namespace other"
    )


def test_a_tenant_is_allowed() -> None:
    entry = judged(claim("c1", result(pool="n1/search"), namespace="mine"))
    assert entry is not None
    assert (entry.verdict, entry.reason) == (Verdict.ALLOWED, None)


BEYOND = {"uid-c1": "the quota permits 1"}


def test_a_tenant_beyond_its_quota_is_denied() -> None:
    mine = claim("c1", result(pool="n1/search"), namespace="mine", pods=["p1"])
    entry = judged(mine, beyond_quota=BEYOND)
    assert entry is not None
    assert (entry.verdict, entry.reason) == (
        Verdict.DENIED,
        "the quota permits 1; delete pod p1 in namespace mine",
    )
    # What is allowed or runs stays so.
    allowed = judged(mine)
    assert allowed is not None
    assert judged(mine, before=[allowed], beyond_quota=BEYOND) == allowed
    assert judged(mine, runs=True, beyond_quota=BEYOND) == allowed
    # What was denied is allowed as soon as it may be.
    assert judged(mine, before=[entry]) == allowed


def test_of_an_unknown_namespace_nothing_is_said() -> None:
    assert judged(THEIRS, namespaces={}) is None


def test_a_namespace_of_too_many_labels_is_unknown() -> None:
    unknown = Namespace(metadata=NamespaceMeta(name="other", labels=None))
    state = ClusterState(Setup(driver=DRIVER, minor=MINOR))
    state.put(NodeSharing, node_sharing())
    state.put(Node, node())
    state.put(Namespace, unknown)
    state.put(ResourceClaim, THEIRS)
    view = state.view("n1")
    assert view is not None
    assert (view.claims, view.namespaces) == ((THEIRS,), {})
    assert judged(THEIRS, namespaces=view.namespaces) is None


def test_who_becomes_a_tenant_is_allowed_then() -> None:
    denied = judged(THEIRS)
    assert denied is not None
    entry = judged(THEIRS, namespaces={"other": {"team": "search"}}, before=[denied])
    assert entry is not None
    assert entry.verdict is Verdict.ALLOWED


def test_an_allocation_that_was_allowed_stays_so_whatever_becomes_of_policies_and_namespaces() -> None:
    allowed = judged(THEIRS, namespaces={"other": {"team": "search"}})
    assert allowed is not None
    assert judged(THEIRS, before=[allowed]) == allowed
    assert judged(THEIRS, namespaces={}, before=[allowed]) == allowed


def test_another_allocation_of_the_same_claim_is_judged_anew() -> None:
    allowed = judged(THEIRS, namespaces={"other": {"team": "search"}})
    assert allowed is not None
    again = judged(claim("c1", result(pool="n1/search", share_id="new"), namespace="other"), before=[allowed])
    assert again is not None
    assert again.verdict is Verdict.DENIED


def test_what_is_prepared_is_not_denied_although_nobody_remembers_why() -> None:
    entry = judged(THEIRS, runs=True)
    assert entry is not None
    assert entry.verdict is Verdict.ALLOWED


def test_more_than_the_policy_allows_is_denied_unless_it_was_allowed_before() -> None:
    much = claim("c1", result("gpu-0-timeslicing", pool="n1/search", consumed={"shares": "2"}), namespace="mine")
    denied = judged(much, allow=Allowance(max_shares=1))
    assert denied is not None
    assert denied.verdict is Verdict.DENIED
    assert "spec.tenants.allow.maxShares" in (denied.reason or "")
    allowed = judged(much)
    assert allowed is not None
    assert judged(much, allow=Allowance(max_shares=1), before=[allowed]) == allowed


def test_what_cannot_be_resolved_any_more_stays_as_it_was() -> None:
    """Such as a memory wall that the node cannot build any more."""
    memory = TimeSlicingMemory(default="4096Mi")
    walls = policy("thirds", offers=Offers(time_slicing=TimeSlicingOffer(max_clients=4, memory=memory)))

    def entry(before: Sequence[ClaimSharing], *, supported: bool) -> ClaimSharing:
        support = MemoryWallSupport(supported=supported, reason=None if supported else "it is too old")
        status = gpu_status(0).model_copy(update={"memory_wall": support})
        sharing = node_sharing(gpus=[status], spec=NodeSharingSpec(claims=tuple(before)))
        [one] = told(NodeView(driver=DRIVER, sharing=sharing, labels={}, claims=(SHARED,)), (decided(0, walls),))
        return one

    allowed = entry([], supported=True)
    assert entry([], supported=False).verdict is Verdict.DENIED
    assert entry([allowed], supported=False) == allowed


def test_who_has_to_give_way_is_denied_even_if_it_was_allowed() -> None:
    item = claim("c1", result(pool="n1/search"), namespace="mine")
    allowed = judged(item)
    assert allowed is not None
    loss = Loss(reason="somebody was first", evicted_from=frozenset())
    entry = judged(item, before=[allowed], lost={"uid-c1": loss})
    assert entry is not None
    assert (entry.verdict, entry.reason) == (Verdict.DENIED, "somebody was first")
    again = judged(item, before=[entry])
    assert again == allowed


@pytest.mark.parametrize("winner", [None, WHOLE])
def test_a_client_of_mps_keeps_what_it_was_given_as_well(winner: SharingPolicy | None) -> None:
    offer = MpsOffer(max_clients=4, memory=MpsMemory(default="8192Mi"), threads=MpsThreads(default=25))
    item = claim("c1", result("gpu-0-mps", consumed={"memory": "8Gi", "threads": "25"}))
    before = entries([item], policy("thirds", offers=Offers(mps=offer)))
    assert before[0].verdict is Verdict.ALLOWED
    assert entries([item], winner, before=before) == before


def test_who_only_looks_changes_nothing() -> None:
    item = claim("c1", result("gpu-0", admin_access=True), configs=[config(interval_config("Short"))])
    [entry] = entries([item], None)
    assert entry.settings == (plain("gpu-0"),)


def test_a_claim_is_denied_what_the_policy_does_not_allow_and_keeps_what_it_allowed() -> None:
    item = claim(configs=[config(interval_config("Short"))])

    def told(*intervals: Interval, before: Sequence[ClaimSharing] = ()) -> ClaimSharing:
        less = decided(0, WHOLE).model_copy(update={"allow": Allowance(intervals=intervals)})
        sharing = node_sharing(gpus=1, spec=NodeSharingSpec(claims=tuple(before)))
        view = NodeView(driver=DRIVER, sharing=sharing, labels={}, claims=(item,))
        [entry] = claim_entries(view, (less,), Registry({}, {}), {})
        return entry

    denied, allowed = told(Interval.LONG), told(Interval.SHORT)
    assert (denied.verdict, allowed.verdict) == (Verdict.DENIED, Verdict.ALLOWED)
    assert "is Short, but tenants.allow.intervals is Long in policy thirds" in (denied.reason or "")
    assert told(Interval.LONG, before=[allowed]) == allowed


def test_a_share_keeps_its_interval_while_its_gpu_goes_to_tenants() -> None:
    search = policy("search", offers=time_slicing(4, Interval.LONG), tenants=SEARCH.spec.tenants)
    before = entries([SHARED], policy("thirds", offers=time_slicing(3, Interval.SHORT)))
    sharing = node_sharing(spec=NodeSharingSpec(claims=tuple(before)), claims=prepared(SHARED))
    view = NodeView(
        driver=DRIVER, sharing=sharing, labels={}, claims=(SHARED,), namespaces={"default": {"team": "search"}}
    )
    moved = decided(0, search).model_copy(update={"restricted": True})
    [entry] = claim_entries(view, (moved,), Registry({"search": search.spec.tenants.namespaces}, view.namespaces), {})
    assert entry.settings == before[0].settings


def test_a_claim_that_makes_the_decision_fail_concerns_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the kind is known: a fault stands for it."""
    objections = tenancy.objections

    def with_a_fault(item: ResourceClaim, *rest: Any) -> list[str]:
        if item.metadata.name == "bad":
            raise ZeroDivisionError
        return objections(item, *rest)

    monkeypatch.setattr(tenancy, "objections", with_a_fault)
    good, bad = claim("good", result("gpu-0-timeslicing")), claim("bad", result("gpu-0-timeslicing"))
    view = NodeView(driver=DRIVER, sharing=node_sharing(), labels={}, claims=(good, bad))
    found = {one.claim: one for one in claim_entries(view, (decided(0, MEDIUM),), Registry({}, {}), {})}
    assert found["default/good"].verdict is Verdict.ALLOWED
    assert (found["default/bad"].verdict, found["default/bad"].settings) == (Verdict.DENIED, ())
    assert "cannot decide on this claim (ZeroDivisionError)" in (found["default/bad"].reason or "")
    # What was judged before stays.
    before = found["default/bad"].model_copy(update={"verdict": Verdict.ALLOWED, "reason": None})
    sharing = node_sharing(spec=NodeSharingSpec(claims=(before,)))

    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(settings, "resolve", broken)
    view = NodeView(driver=DRIVER, sharing=sharing, labels={}, claims=(bad,))
    assert claim_entries(view, (decided(0, MEDIUM),), Registry({}, {}), {}) == (before,)
