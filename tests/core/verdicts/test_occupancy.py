"""What the operator tells an agent about allocations, and which closing devices it lets go."""

import pytest

from building import DRIVER, LATER, NOW, claim, decided, gpu_status, node_sharing, policy, result, world
from building.from_nothing import decide
from gpusharing.api.dra import ResourceClaim
from gpusharing.api.sharing.gpu_status import MemoryWallSupport, PublishedDevice
from gpusharing.api.sharing.node_spec import IDLE_WAIT, GpuSharing
from gpusharing.api.sharing.offers import ExclusiveOffer, MigOffer, Offers, TimeSlicingMemory, TimeSlicingOffer
from gpusharing.core.intents import PatchStatus, ReplaceSpec
from gpusharing.core.state.fence import TO_ALL, Closed, Fence
from gpusharing.core.state.node_view import NodeView
from gpusharing.core.timestamps import seconds
from gpusharing.core.verdicts.occupancy import closing_pools, next_approval, with_occupancy

SHARE = "gpu-0-timeslicing"


def occupied(*claims: ResourceClaim, published: tuple[PublishedDevice, ...] = (), now: str = LATER) -> GpuSharing:
    status = gpu_status(0).model_copy(update={"published": published})
    view = NodeView(driver=DRIVER, sharing=node_sharing(gpus=[status]), labels={}, claims=claims)
    [gpu] = with_occupancy([decided(0)], view.gpus, fence={}, idle_wait=IDLE_WAIT, now=now)
    return gpu


@pytest.mark.parametrize(
    ("claims", "allocated"),
    [
        ([], []),
        ([claim("a", result(SHARE, share_id="s1"))], [("uid-a", SHARE, "s1")]),
        (
            [claim("b", result(SHARE, share_id="s2")), claim("a", result(SHARE, share_id="s1"))],
            [("uid-a", SHARE, "s1"), ("uid-b", SHARE, "s2")],
        ),
        ([claim("a", result("gpu-0", admin_access=True))], []),
        ([claim("a", result("gpu-1"))], []),
        ([claim("a", result("gpu-0", pool="n2"))], []),
        ([claim("a", result("gpu-0", pool="n1/thirds"))], [("uid-a", "gpu-0", None)]),
        ([claim("a", result("gpu-0", pool="n11/thirds"))], []),
        ([claim("a", result("gpu-0", pool="n1/search"))], [("uid-a", "gpu-0", None)]),
        ([claim("a", result("gpu-0", pool="n2/search"))], []),
        ([claim("a", result("gpu-0", driver="other"))], []),
        ([claim("a", allocated=False)], []),
        ([claim("a", result("gpu-0-mig-1g10gb-19-6"))], [("uid-a", "gpu-0-mig-1g10gb-19-6", None)]),
    ],
)
def test_what_is_allocated(claims: list[ResourceClaim], allocated: list[tuple[str, str, str | None]]) -> None:
    found = occupied(*claims).allocated
    assert [(device.claim, device.device, device.share_id) for device in found] == allocated


def closing(device: str, since: str | None) -> PublishedDevice:
    return PublishedDevice(device=device, closing_since=since)


@pytest.mark.parametrize(
    ("published", "claims", "approved"),
    [
        pytest.param([closing(SHARE, NOW)], [], [SHARE], id="an hour ago"),
        pytest.param([closing(SHARE, "2026-11-18T12:00:01Z")], [], [], id="a second less"),
        pytest.param([closing(SHARE, None)], [], [], id="not closing"),
        pytest.param([closing(SHARE, NOW)], [claim("a", result(SHARE))], [], id="somebody holds it"),
        pytest.param([closing(SHARE, NOW)], [claim("a", result("gpu-0"))], [SHARE], id="somebody holds another"),
        pytest.param(
            [closing(SHARE, NOW)], [claim("a", result(SHARE, admin_access=True))], [SHARE], id="somebody looks"
        ),
        pytest.param([closing(SHARE, NOW), closing("gpu-0", NOW)], [], [SHARE, "gpu-0"], id="two"),
    ],
)
def test_what_may_be_withdrawn(
    published: list[PublishedDevice], claims: list[ResourceClaim], approved: list[str]
) -> None:
    assert list(occupied(*claims, published=tuple(published)).close_approved) == approved


@pytest.mark.parametrize(
    ("since", "expected"),
    [
        pytest.param([None], None, id="nothing closes"),
        pytest.param([NOW], 3600, id="an hour from now"),
        pytest.param([NOW, "2026-11-18T11:30:00Z"], 1800, id="the first of two"),
        pytest.param(["2026-11-18T11:00:00Z"], None, id="over"),
    ],
)
def test_when_the_operator_has_to_look_again(since: list[str | None], expected: float | None) -> None:
    published = tuple(closing(SHARE, moment) for moment in since)
    status = gpu_status(0).model_copy(update={"published": published})
    moment = next_approval([gpu_status(1), status], idle_wait=IDLE_WAIT, now=NOW)
    assert (moment and moment - seconds(NOW)) == expected


def pools(
    *published: PublishedDevice, pool: str | None = "n1", offers: Offers | None = None, restricted: bool = False
) -> dict[str, tuple[set[str], set[str], set[str]]]:
    """What the closing guard has to know: by pool, what to close, what is closing, what is open."""
    status = gpu_status(0).model_copy(update={"published": published, "pool": pool})
    view = NodeView(driver=DRIVER, sharing=node_sharing(gpus=[status]), labels={}, claims=())
    entry = decided(0, policy(offers=offers or Offers(exclusive=ExclusiveOffer())))
    found = closing_pools([entry.model_copy(update={"restricted": restricted})], view.gpus)
    return {name: (set(one.to_close), set(one.closing), set(one.open)) for name, one in found.items()}


def test_what_the_closing_guard_is_to_refuse() -> None:
    share, whole, part = closing(SHARE, NOW), closing("gpu-0", NOW), closing("gpu-0-mig-1g10gb-19-6", NOW)
    assert pools(share, closing("gpu-0", None)) == {"n1": ({SHARE}, {SHARE}, {"gpu-0"})}
    # It is offered, and closes so that the scheduler has less to look at.
    assert pools(whole) == {"n1": (set(), {"gpu-0"}, set())}
    assert pools(whole, share, restricted=True) == {"n1": ({"0"}, {"gpu-0", SHARE}, set())}
    assert pools(part)["n1"][0] == {"gpu-0-mig"}
    # An older agent does not say where it publishes; another one speaks of another node, or of another's GPU.
    assert pools(share, pool=None) == {}
    assert pools(share, pool="n2") == {}
    assert pools(closing("gpu-1-timeslicing", NOW)) == {}


FENCED = {"n1": (Closed(NOW, TO_ALL, (SHARE,)),)}


@pytest.mark.parametrize(
    ("fence", "held", "approved"),
    [
        pytest.param(FENCED, False, True, id="closed to all"),
        pytest.param(FENCED, True, False, id="somebody holds it"),
        pytest.param({"n2": FENCED["n1"]}, False, False, id="another pool"),
        pytest.param({"n1": (Closed(NOW, LATER, (SHARE,)),)}, False, False, id="closed to older claims only"),
        pytest.param({}, False, False, id="not closed yet"),
    ],
)
def test_behind_the_guard_it_may_be_withdrawn_at_once(fence: Fence, held: bool, approved: bool) -> None:
    published = (closing(SHARE, "2026-11-18T12:00:00.5Z"),)
    status = gpu_status(0).model_copy(update={"published": published, "pool": "n1"})
    claims = (claim("a", result(SHARE)),) if held else ()
    view = NodeView(driver=DRIVER, sharing=node_sharing(gpus=[status]), labels={}, claims=claims)
    [gpu] = with_occupancy([decided(0)], view.gpus, fence=fence, idle_wait=IDLE_WAIT, now=NOW)
    assert gpu.close_approved == ((SHARE,) if approved else ())
    assert gpu.close_approved_since == (("2026-11-18T12:00:00.5Z",) if approved else ())


def test_offers_are_resolved_for_each_gpu_and_the_policy_says_what_was_refused() -> None:
    walls = {"memory_wall": MemoryWallSupport(supported=True)}
    small = gpu_status(0).model_copy(update={"memory": "8Gi"} | walls)
    large = gpu_status(1).model_copy(update={"mig_profiles": ("1g.10gb", "3g.40gb")} | walls)
    old = large.model_copy(
        update={"uuid": "GPU-old", "slot": 2, "memory_wall": MemoryWallSupport(supported=False, reason="R580 is old")}
    )
    offers = Offers(
        exclusive=ExclusiveOffer(),
        time_slicing=TimeSlicingOffer(max_clients=4, memory=TimeSlicingMemory(default="16Gi")),
        mig=MigOffer(profiles=("1g.10gb",)),
    )
    before = world(policies=[policy(offers=offers)], node_sharings=[node_sharing(gpus=[small, large, old])])
    intents = decide(before, now=NOW)
    [spec] = [intent.spec for intent in intents if isinstance(intent, ReplaceSpec)]
    [status] = [intent.status for intent in intents if isinstance(intent, PatchStatus)]
    assert spec.gpus[0].offers == Offers(exclusive=ExclusiveOffer())
    assert [refusal.reason for refusal in spec.gpus[0].refused] == ["MemoryTooSmall", "UnknownMigProfile"]
    assert spec.gpus[1].refused == ()
    assert [refusal.reason for refusal in spec.gpus[2].refused] == ["MemoryWallUnsupported"]
    assert spec.gpus[2].offers == Offers(exclusive=ExclusiveOffer(), mig=offers.mig)
    [degraded] = [condition for condition in status.conditions if condition.type == "Degraded"]
    assert (degraded.status, degraded.reason) == ("True", "MemoryTooSmall")
    assert "offers.timeSlicing.memory.default: 16Gi is more than the 8192Mi" in degraded.message
    assert "GPU-old of n1: offers.timeSlicing.memory.enforcement is Required, but memory limits" in degraded.message
    assert "(R580 is old)" in degraded.message
