"""What people are told with the write of a node's spec, and that nobody is told twice."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given

from building import DRIVER, EXCLUSIVE, NOW, claim, decided, node_sharing, policy, result, time_slicing, world
from building.cluster import agents_act, apply
from building.from_nothing import World, decide
from building.worlds import worlds
from gpusharing.api.dra import ResourceClaim
from gpusharing.api.meta import LabelSelector, key_of
from gpusharing.api.sharing.node_spec import Drain, GpuSharing, NodeSharingSpec
from gpusharing.api.sharing.offers import MigOffer, Offers
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.api.sharing.tenants import Tenants
from gpusharing.core.events.on_write import notices
from gpusharing.core.intents import Intent, RecordEvent, ReplaceSpec
from gpusharing.core.state.node_view import NodeView

THIRDS = policy("thirds", offers=time_slicing(3))
WHOLE = policy("thirds", generation=2, offers=EXCLUSIVE)
BOTH = policy("thirds", generation=2, offers=time_slicing(3, exclusive=True))
CUT = policy("cut", offers=Offers(mig=MigOffer(profiles=("1g.10gb",))))
TENANTS = Tenants(namespaces=LabelSelector(match_labels={"team": "search"}))

SHARE = claim("c1", result("gpu-0-timeslicing"), pods=["p1"])
INSTANCE = claim("c1", result("gpu-0-mig-1g10gb-19-0"))


def told(intents: Sequence[Intent]) -> list[str]:
    return [
        f"{notice.target} {notice.about.name} {notice.reason}"
        for intent in intents
        if isinstance(intent, ReplaceSpec)
        for notice in intent.notices
    ]


def changing(item: ResourceClaim, before: GpuSharing, after: GpuSharing) -> tuple[RecordEvent, ...]:
    view = NodeView(
        driver=DRIVER, sharing=node_sharing(spec=NodeSharingSpec(gpus=(before,))), labels={}, claims=(item,)
    )
    return notices(view, NodeSharingSpec(gpus=(after,)), {})


def other_layout(winner: SharingPolicy) -> GpuSharing:
    return decided(0, winner).model_copy(update={"offers": Offers(mig=MigOffer(layout={"3g.40gb": 2}))})


@pytest.mark.parametrize(
    ("item", "before", "after", "drains"),
    [
        (SHARE, decided(0, THIRDS), decided(0, WHOLE), True),
        (SHARE, decided(0, THIRDS), decided(0, None), True),
        (SHARE, decided(0, THIRDS), decided(0, BOTH), False),
        (SHARE, decided(0, WHOLE), decided(0, None), False),
        (SHARE, decided(0, THIRDS), decided(0, THIRDS).model_copy(update={"restricted": True}), True),
        (claim("c1"), decided(0, None), decided(0, THIRDS), True),
        (claim("c1"), decided(0, None), decided(0, WHOLE), False),
        (claim("c1", result(admin_access=True)), decided(0, None), decided(0, THIRDS), False),
        (claim("c1", result("gpu-1")), decided(0, None), decided(0, THIRDS), False),
        # As found, this GPU is whole: who has an instance of it is in the way.
        (INSTANCE, decided(0, CUT), decided(0, None), True),
        (INSTANCE, decided(0, CUT), decided(0, WHOLE), True),
        (INSTANCE, decided(0, CUT), other_layout(CUT), True),
        (claim("c1", result("nonsense")), decided(0, CUT), decided(0, WHOLE), False),
    ],
)
def test_who_holds_what_is_not_offered_any_more_is_told(
    item: ResourceClaim, before: GpuSharing, after: GpuSharing, *, drains: bool
) -> None:
    assert bool(changing(item, before, after)) == drains


def test_the_claim_and_its_pods_are_told_and_by_whom() -> None:
    to_claim, to_pod = changing(SHARE, decided(0, THIRDS), decided(0, WHOLE))
    assert (to_claim.target, to_claim.about) == ("ResourceClaim", SHARE.metadata)
    assert (to_pod.target, to_pod.about.name, to_pod.about.namespace, to_pod.about.uid) == (
        "Pod",
        "p1",
        "default",
        "uid-p1",
    )
    assert to_claim.note == to_pod.note
    assert to_claim.note == (
        "device n1/gpu-0-timeslicing is no longer offered by SharingPolicy thirds: its claims keep it, and it is not "
        "allocated to new claims; the change takes effect when the last claim releases it"
    )


def test_of_hundreds_of_pods_the_first_are_told() -> None:
    crowded = claim("c1", result("gpu-0-timeslicing"), pods=[f"p{number}" for number in range(100)])
    assert len(changing(crowded, decided(0, THIRDS), decided(0, WHOLE))) == 9


def test_an_eviction_is_told_when_it_begins_and_only_then() -> None:
    draining = decided(0, WHOLE).model_copy(update={"drain": Drain(mode="Evict")})
    first, _ = changing(SHARE, decided(0, WHOLE), draining)
    assert (first.warning, first.action) == (True, "Evict")
    assert first.note == (
        "device n1/gpu-0-timeslicing is no longer offered by SharingPolicy thirds; pods using it are being evicted"
    )
    assert changing(SHARE, draining, draining.model_copy(update={"losers": ()})) == ()


def restricted() -> World:
    """A claim of a namespace that is no tenant, on a GPU that is for tenants."""
    search = policy("search", tenants=TENANTS)
    stranger = claim("c1", result("gpu-0-timeslicing", pool="n1/search"), namespace="other", pods=["p1"])
    return world(policies=[search], node_sharings=[node_sharing()], claims=[stranger], namespaces={"other": {}})


def test_a_denied_claim_is_told_to_it_its_pods_and_its_policy_once() -> None:
    at = restricted()
    intents = decide(at, now=NOW)
    assert told(intents) == [
        "ResourceClaim c1 ClaimDenied",
        "Pod p1 ClaimDenied",
        "SharingPolicy search ClaimDenied",
    ]
    at = apply(at, intents)
    # Something else changes on the node.
    another = claim("c2", result("gpu-0-timeslicing", pool="n1/search"), namespace="other")
    at = replace(at, claims={**at.claims, key_of(another): another})
    assert told(decide(at, now=NOW)) == ["ResourceClaim c2 ClaimDenied", "SharingPolicy search ClaimDenied"]


def test_who_shares_a_gpu_by_policy_learns_that_somebody_has_to_give_way_on_it() -> None:
    at = world(
        policies=[BOTH],
        node_sharings=[node_sharing()],
        claims=[claim("a", result("gpu-0")), claim("b", result("gpu-0-timeslicing"))],
    )
    assert told(decide(at, now=NOW)) == ["ResourceClaim b ClaimDenied", "SharingPolicy thirds ClaimDenied"]


@given(worlds())
def test_no_node_records_an_event_twice(at: World) -> None:
    """A claim of two nodes, which no scheduler makes, may be denied on both: the recorder knows the second one."""
    seen: list[tuple[str, ...]] = []
    for _ in range(3):
        intents = decide(at, now=NOW)
        seen += [
            (intent.before.metadata.name, event.target, event.about.uid, event.reason, event.occurrence)
            for intent in intents
            if isinstance(intent, ReplaceSpec)
            for event in intent.notices
        ]
        at = agents_act(apply(at, intents))
    assert len(seen) == len(set(seen))
