"""Two ways of holding one GPU at the same time: who has to give way, and who is left alone."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import DRIVER, claim, node_sharing, prepared, result
from building import taint_rule as rule
from gpusharing.api import names
from gpusharing.api.dra import DeviceTaintRule, ResourceClaim
from gpusharing.core.intents import Create, Delete
from gpusharing.core.state.node_view import NodeView, Place
from gpusharing.core.verdicts.conflicts import losses
from gpusharing.core.verdicts.taint_rules import rule_intents

WHOLE, SHARE, MPS = "gpu-0", "gpu-0-timeslicing", "gpu-0-mps"
ONE, OTHER_ONE, HALF = "gpu-0-mig-1g10gb-19-0", "gpu-0-mig-1g10gb-19-4", "gpu-0-mig-3g40gb-9-4"
TOLERATED = ({"operator": "Exists"},)
FOR_A_WHILE = ({"operator": "Exists", "tolerationSeconds": 60},)


def at(minute: int) -> str:
    return f"2026-11-18T12:{minute:02}:00Z"


def view(
    *claims: ResourceClaim, runs: Sequence[ResourceClaim] = (), rules: Sequence[DeviceTaintRule] | None = ()
) -> NodeView:
    return NodeView(
        driver=DRIVER,
        sharing=node_sharing(gpus=2, claims=prepared(*runs)),
        labels={},
        claims=claims,
        taint_rules=None if rules is None else tuple(rules),
    )


def lost(looked_at: NodeView) -> dict[str, list[str]]:
    """By the names of the claims that lose: the devices from which they are driven."""
    return {uid.removeprefix("uid-"): sorted(map(str, loss.evicted_from)) for uid, loss in losses(looked_at).items()}


EARLY, LATE = claim("early", result(SHARE), allocated_at=at(1)), claim("late", result(WHOLE), allocated_at=at(2))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (SHARE, SHARE),
        (MPS, MPS),
        (ONE, OTHER_ONE),
        (WHOLE, "gpu-1"),
        (WHOLE, "gpu-1-timeslicing"),
        # What overlaps without beginning at the same place is the agent's to see.
        ("gpu-0-mig-1g10gb-19-5", HALF),
        # Nobody has such a device.
        (WHOLE, "nonsense"),
    ],
)
def test_what_goes_together_is_nobodys_loss(first: str, second: str) -> None:
    assert lost(view(claim("a", result(first)), claim("b", result(second)))) == {}


@pytest.mark.parametrize(
    ("first", "second"),
    [(WHOLE, SHARE), (SHARE, MPS), (MPS, WHOLE), (SHARE, ONE), (WHOLE, HALF), (OTHER_ONE, HALF)],
)
@pytest.mark.parametrize("swap", [False, True])
def test_of_two_ways_the_later_one_gives_way(first: str, second: str, *, swap: bool) -> None:
    earlier, later = (second, first) if swap else (first, second)
    claims = [
        claim("z-early", result(earlier), allocated_at=at(1), made_at=at(9)),
        claim("a-late", result(later), allocated_at=at(2), made_at=at(0)),
    ]
    assert lost(view(*claims)) == {"a-late": [f"n1/{later}"]}
    assert lost(view(*claims[::-1])) == {"a-late": [f"n1/{later}"]}


def test_without_a_moment_of_allocation_the_claim_that_was_made_first_stays() -> None:
    assert lost(view(claim("a", result(WHOLE), made_at=at(2)), claim("b", result(SHARE), made_at=at(1)))) == {
        "a": ["n1/gpu-0"]
    }


def test_of_the_same_moment_the_uid_decides() -> None:
    assert lost(view(claim("b", result(WHOLE)), claim("a", result(SHARE)))) == {"b": ["n1/gpu-0"]}


def test_who_is_prepared_stays_however_late_it_came() -> None:
    assert lost(view(EARLY, LATE, runs=[LATE])) == {"early": ["n1/gpu-0-timeslicing"]}


def test_what_was_prepared_under_the_same_uid_is_another_allocation() -> None:
    before = claim("late", result("gpu-1"))
    assert lost(view(EARLY, LATE, runs=[before])) == {"late": ["n1/gpu-0"]}


def test_two_that_run_are_left_to_the_node() -> None:
    assert lost(view(EARLY, LATE, runs=[EARLY, LATE])) == {}


def test_all_who_share_stay_with_the_first_of_them() -> None:
    another = claim("another", result(SHARE), allocated_at=at(3))
    assert lost(view(EARLY, LATE, another)) == {"late": ["n1/gpu-0"]}
    assert lost(view(EARLY, LATE, another, runs=[another])) == {"late": ["n1/gpu-0"]}


def test_all_who_share_go_where_a_whole_gpu_stays() -> None:
    another = claim("another", result(SHARE), allocated_at=at(3))
    both = {"another": ["n1/gpu-0-timeslicing"], "early": ["n1/gpu-0-timeslicing"]}
    assert lost(view(EARLY, LATE, another, runs=[LATE])) == both


def test_a_loser_is_in_nobodys_way_on_its_other_gpus() -> None:
    both = claim("both", result(WHOLE), result("gpu-1", request="b"), allocated_at=at(2))
    third = claim("third", result("gpu-1-mps"), allocated_at=at(3))
    assert lost(view(EARLY, both, third)) == {"both": ["n1/gpu-0"]}


def test_a_claim_is_not_in_its_own_way() -> None:
    assert lost(view(claim("a", result(WHOLE), result(SHARE, request="b")))) == {}


def test_pools_and_other_drivers_and_nodes() -> None:
    elsewhere = [
        claim("node", result(WHOLE, pool="n2")),
        claim("driver", result(WHOLE, driver="other")),
    ]
    assert lost(view(EARLY, *elsewhere)) == {}
    tenant = claim("tenant", result(WHOLE, pool="n1/search"), allocated_at=at(2))
    assert lost(view(EARLY, tenant)) == {"tenant": ["n1/search/gpu-0"]}


def test_who_only_looks_is_in_nobodys_way() -> None:
    assert lost(view(EARLY, claim("admin", result(WHOLE, admin_access=True)))) == {}


# ------------------------------------------------------------------------------------------ whom an eviction would hit


def test_a_whole_gpu_that_two_have_cannot_be_taken_from_one_of_them() -> None:
    one, two = claim("one", result(WHOLE), allocated_at=at(1)), claim("two", result(WHOLE), allocated_at=at(2))
    assert lost(view(one, two)) == {"two": []}
    assert lost(view(one, two, runs=[two])) == {"one": []}


@pytest.mark.parametrize(("tolerations", "driven"), [((), []), (FOR_A_WHILE, []), (TOLERATED, ["n1/gpu-0"])])
def test_who_looks_at_the_device_is_not_driven_away(
    tolerations: Sequence[dict[str, object]], driven: list[str]
) -> None:
    looks = claim("looks", result(WHOLE, admin_access=True, tolerations=tolerations))
    assert lost(view(EARLY, LATE, looks)) == {"late": driven}


@pytest.mark.parametrize(
    ("toleration", "goes"),
    [
        ({"operator": "Exists"}, False),
        ({"key": names.CONFLICT_TAINT, "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": names.CONFLICT_TAINT, "effect": "NoExecute"}, False),
        ({"key": names.CONFLICT_TAINT, "operator": "Exists", "effect": "NoSchedule"}, True),
        ({"key": names.CONFLICT_TAINT, "value": "x"}, True),
        ({"key": "other", "operator": "Exists"}, True),
        ({"operator": "Exists", "tolerationSeconds": 0}, True),
    ],
)
def test_a_loser_that_tolerates_the_taint_is_not_driven_away_by_it(
    toleration: dict[str, object], *, goes: bool
) -> None:
    tolerant = claim("late", result(WHOLE, tolerations=[toleration]), allocated_at=at(2))
    assert lost(view(EARLY, tolerant)) == {"late": ["n1/gpu-0"] if goes else []}


def test_without_taint_rules_people_have_to_act() -> None:
    later = claim("late", result(WHOLE), allocated_at=at(2), pods=["p2", "p1"], namespace="team")
    [loss] = losses(view(EARLY, later, rules=None)).values()
    assert loss.evicted_from == frozenset()
    assert loss.reason == (
        "device n1/gpu-0 conflicts with n1/gpu-0-timeslicing on the same GPU, which is allocated to claim "
        "default/early: delete pods p1, p2 in namespace team"
    )


# ----------------------------------------------------------------------------------------------------------- the rules


def test_a_rule_names_exactly_the_device_and_its_maker() -> None:
    [intent] = rule_intents(view(), [Place("n1", "gpu-0")])
    assert isinstance(intent, Create)
    name = intent.body["metadata"].pop("name")
    assert name.startswith("gpusharing-conflict-")
    assert intent.body == {
        "metadata": {
            "labels": {"app.kubernetes.io/managed-by": "gpusharing-operator"},
            "ownerReferences": [
                {"apiVersion": "gpusharing.dev/v1alpha1", "kind": "NodeSharing", "name": "n1", "uid": "uid-n1"}
            ],
        },
        "spec": {
            "deviceSelector": {"driver": DRIVER, "pool": "n1", "device": "gpu-0"},
            "taint": {"key": "gpusharing.dev/conflict", "effect": "NoExecute"},
        },
    }


def test_nothing_is_done_twice_and_what_is_done_is_taken_away() -> None:
    made = rule(WHOLE)
    assert rule_intents(view(rules=[made]), [Place("n1", WHOLE)]) == []
    [gone] = rule_intents(view(rules=[made]), [])
    assert isinstance(gone, Delete)
    assert gone.before == made.metadata


def test_a_rule_that_somebody_has_changed_is_made_anew() -> None:
    made = rule(WHOLE)
    changed = replace(made, spec=replace(made.spec, taint={"key": "gpusharing.dev/conflict", "effect": "NoSchedule"}))
    [gone] = rule_intents(view(rules=[changed]), [Place("n1", WHOLE)])
    assert isinstance(gone, Delete)
    assert len(rule_intents(view(), [Place("n1", WHOLE)])) == 1


def test_an_eviction_that_has_begun_goes_on_although_the_loser_was_prepared_meanwhile() -> None:
    assert lost(view(EARLY, LATE, runs=[LATE], rules=[rule(WHOLE)])) == {"late": ["n1/gpu-0"]}


def test_an_eviction_is_over_when_the_device_was_given_back() -> None:
    assert lost(view(EARLY, rules=[rule(WHOLE)])) == {}
    assert lost(view(LATE, rules=[rule(WHOLE)])) == {}


# ---------------------------------------------------------------------------------------------------------- properties

_devices = st.sampled_from([WHOLE, SHARE, MPS, ONE, OTHER_ONE, HALF, "gpu-1", "gpu-1-mps"])


@st.composite
def crowds(draw: st.DrawFn) -> NodeView:
    claims = [
        claim(
            f"c{number}",
            *(
                result(device, request=f"r{index}", admin_access=draw(st.sampled_from([None, None, True])))
                for index, device in enumerate(draw(st.lists(_devices, min_size=1, max_size=2, unique=True)))
            ),
            allocated_at=draw(st.sampled_from([None, at(1), at(2)])),
        )
        for number in range(draw(st.integers(1, 5)))
    ]
    runs = [one for one in claims if draw(st.integers(0, 3)) == 0]
    rules = [rule(device) for device in draw(st.lists(_devices, max_size=1))]
    return view(*claims, runs=runs, rules=rules)


@given(crowds(), st.randoms())
def test_the_order_of_claims_does_not_matter(crowd: NodeView, random: Random) -> None:
    claims = list(crowd.claims)
    random.shuffle(claims)
    assert losses(replace(crowd, claims=tuple(claims))) == losses(crowd)


@given(crowds())
def test_without_the_losers_there_is_no_conflict_left_unless_it_runs(crowd: NodeView) -> None:
    losers = losses(crowd)
    left = tuple(one for one in crowd.claims if one.metadata.uid not in losers)
    assert losses(replace(crowd, claims=left)) == {}


@given(crowds())
def test_nobody_is_driven_from_a_device_but_losers(crowd: NodeView) -> None:
    losers = losses(crowd)
    driven = {place for loss in losers.values() for place in loss.evicted_from}
    for one in crowd.claims:
        held = (
            {Place(r.pool, r.device) for r in one.status.allocation.devices.results} if one.status.allocation else set()
        )
        assert one.metadata.uid in losers or not held & driven


@given(crowds())
def test_who_runs_loses_only_to_a_rule_that_is_there(crowd: NodeView) -> None:
    tainted = {rule.spec.device_selector["device"] for rule in crowd.taint_rules or ()}
    running = {status.uid: {one.device for one in status.settings} for status in crowd.sharing.status.claims}
    assert all(running[uid] & tainted for uid in losses(crowd) if uid in running)
