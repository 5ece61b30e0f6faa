"""What the operator tells an agent about allocations, and which closing devices it lets go."""

import pytest

from building import DRIVER, LATER, NOW, claim, decided, gpu_status, node_sharing, policy, result, world
from building.from_nothing import decide
from gpusharing.api.dra import ResourceClaim
from gpusharing.api.sharing.gpu_status import MemoryWallSupport, PublishedDevice
from gpusharing.api.sharing.node_spec import IDLE_WAIT, GpuSharing
from gpusharing.api.sharing.offers import ExclusiveOffer, MigOffer, Offers, TimeSlicingMemory, TimeSlicingOffer
from gpusharing.core.intents import PatchStatus, ReplaceSpec
from gpusharing.core.state.fence import Closed, Fence
from gpusharing.core.state.node_view import NodeView
from gpusharing.core.timestamps import seconds
from gpusharing.core.verdicts.occupancy import closing_pools, next_approval, with_occupancy

SHARE = "gpu-0-timeslicing"


def occupied(*claims: ResourceClaim, published: tuple[PublishedDevice, ...] = (), now: str = LATER) -> GpuSharing:
    status = gpu_status(0).model_copy(update={"published": published})
    view = NodeView(driver=DRIVER, sharing=node_sharing(gpus=[status]), labels={}, claims=claims)
    [gpu] = with_occupancy([decided(0)], view.gpus, fence={}, stored={}, idle_wait=IDLE_WAIT, now=now)
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
    *published: PublishedDevice,
    pool: str | None = "n1",
    offers: Offers | None = None,
    restricted: bool = False,
    held: str | None = None,
    stored: Fence | None = None,
) -> dict[str, tuple[set[str], set[str], set[str]]]:
    """What the closing guard has to know: by pool, what to close, what is published, what is held."""
    status = gpu_status(0).model_copy(update={"published": published, "pool": pool})
    claims = (claim("a", result(held)),) if held else ()
    view = NodeView(driver=DRIVER, sharing=node_sharing(gpus=[status]), labels={}, claims=claims)
    entry = decided(0, policy(offers=offers or Offers(exclusive=ExclusiveOffer())))
    found = closing_pools([entry.model_copy(update={"restricted": restricted})], view.gpus, stored or {})
    return {name: (set(one.to_close), set(one.published), set(one.held)) for name, one in found.items()}


def test_what_the_closing_guard_is_to_refuse() -> None:
    share, whole, part = closing(SHARE, NOW), closing("gpu-0", NOW), closing("gpu-0-mig-1g10gb-19-6", NOW)
    assert pools(share, closing("gpu-0", None)) == {"n1": ({SHARE}, {SHARE, "gpu-0"}, set())}
    # It is offered, and closes so that the scheduler has less to look at; or under another name by now.
    assert pools(whole) == {"n1": (set(), {"gpu-0"}, set())}
    assert pools(whole, closing("gpu-0r1", None)) == {"n1": (set(), {"gpu-0", "gpu-0r1"}, set())}
    assert pools(closing("gpu-0r1-timeslicing", NOW))["n1"][0] == {"gpu-0r1-timeslicing"}
    assert pools(whole, share, restricted=True) == {"n1": ({"0"}, {"gpu-0", SHARE}, set())}
    assert pools(closing("gpu-0r1", NOW), restricted=True)["n1"][0] == {"0r1"}
    assert pools(part)["n1"][0] == {"gpu-0-mig"}
    assert pools(closing("gpu-0r1-mig-1g10gb-19-6", NOW))["n1"][0] == {"gpu-0r1-mig"}
    # An older agent does not say where it publishes; another one speaks of another node, or of another's GPU.
    assert pools(share, pool=None) == {}
    assert pools(share, pool="n2") == {}
    assert pools(closing("gpu-1-timeslicing", NOW)) == {}


def test_of_pools_that_the_guard_has_it_knows_what_is_published_and_held() -> None:
    assert pools(closing("gpu-0", None)) == {}
    assert pools(closing("gpu-0", None), stored=FENCED, held="gpu-0") == {"n1": (set(), {"gpu-0"}, {"gpu-0"})}


FENCED: Fence = {"n1": (Closed(NOW, (SHARE,)),)}


@pytest.mark.parametrize(
    ("items", "published", "held", "restricted", "names"),
    [
        pytest.param(["gpu-0"], [], None, False, ["gpu-0"], id="withdrawn"),
        pytest.param(["0", "1", "10", "gpu-10"], [], None, False, ["0"], id="of this GPU alone"),
        pytest.param(
            ["gpu-0-mig", "gpu-0r1-mig", "0r2"], [], None, False, ["0r2", "gpu-0-mig", "gpu-0r1-mig"], id="all"
        ),
        pytest.param(["gpu-0"], [closing("gpu-0", NOW)], None, False, ["gpu-0"], id="offered again"),
        pytest.param(["gpu-0"], [closing("gpu-0", None)], None, False, ["gpu-0"], id="published again"),
        pytest.param(["gpu-0"], [closing("gpu-0", NOW)], "gpu-0", False, [], id="held all the time"),
        pytest.param(["gpu-0"], [closing("gpu-0", NOW)], "gpu-1", False, ["gpu-0"], id="another is held"),
        pytest.param([SHARE], [closing(SHARE, NOW)], None, False, [], id="not offered any more"),
        pytest.param(["0"], [closing("gpu-0", NOW)], None, True, [], id="of the pool that it leaves"),
    ],
)
def test_an_agent_is_told_which_names_it_is_not_to_use(
    items: list[str], published: list[PublishedDevice], held: str | None, restricted: bool, names: list[str]
) -> None:
    status = gpu_status(0).model_copy(update={"published": tuple(published), "pool": "n1"})
    claims = (claim("a", result(held)),) if held else ()
    view = NodeView(driver=DRIVER, sharing=node_sharing(gpus=[status]), labels={}, claims=claims)
    entry = decided(0, policy(offers=Offers(exclusive=ExclusiveOffer()))).model_copy(update={"restricted": restricted})
    stored = {"n1": (Closed(NOW, tuple(items)),)}
    [gpu] = with_occupancy([entry], view.gpus, fence={}, stored=stored, idle_wait=IDLE_WAIT, now=NOW)
    assert list(gpu.closed_names) == names


@pytest.mark.parametrize(
    ("fence", "held", "approved"),
    [
        pytest.param(FENCED, False, True, id="closed"),
        pytest.param(FENCED, True, False, id="somebody holds it"),
        pytest.param({"n2": FENCED["n1"]}, False, False, id="another pool"),
        pytest.param({"n1": (Closed(NOW, (SHARE,), NOW),)}, False, True, id="published again"),
        pytest.param({"n1": (Closed(NOW, ("gpu-0",)),)}, False, False, id="another device"),
        pytest.param({}, False, False, id="not closed yet"),
    ],
)
def test_behind_the_guard_it_may_be_withdrawn_at_once(fence: Fence, held: bool, approved: bool) -> None:
    published = (closing(SHARE, "2026-11-18T12:00:00.5Z"),)
    status = gpu_status(0).model_copy(update={"published": published, "pool": "n1"})
    claims = (claim("a", result(SHARE)),) if held else ()
    view = NodeView(driver=DRIVER, sharing=node_sharing(gpus=[status]), labels={}, claims=claims)
    [gpu] = with_occupancy([decided(0)], view.gpus, fence=fence, stored=fence, idle_wait=IDLE_WAIT, now=NOW)
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
