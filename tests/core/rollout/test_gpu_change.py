"""Whom a change of a GPU disturbs, and how it comes into force."""

from collections.abc import Sequence
from typing import NamedTuple

import pytest

from building import (
    DRIVER,
    EXCLUSIVE,
    MINOR,
    claim,
    decided,
    gpu_status,
    node_sharing,
    policy,
    reference,
    result,
    time_slicing,
    uuid,
)
from gpusharing.api.dra import AllocationResult
from gpusharing.api.meta import Condition, ConditionStatus, LabelSelector
from gpusharing.api.sharing.gpu_models import GpuModel, MigProfilePlaces
from gpusharing.api.sharing.gpu_status import GpuStatus, MigInstanceStatus, MigMode, PublishedDevice
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.api.sharing.node_spec import Drain, GpuSharing, NodeSharingSpec
from gpusharing.api.sharing.offers import MigOffer, Offers
from gpusharing.api.sharing.plan import Effect
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.api.sharing.rollout import Disruption, Rollout, RolloutMode
from gpusharing.api.sharing.tenants import Tenants
from gpusharing.core.policies.policy import ExaminedPolicy, examine
from gpusharing.core.rollout.gpu_change import GpuChange, NodeRollout, node_rollout
from gpusharing.core.state.node_view import NodeView

WAIT, EVICT, NEVER = (Rollout(disruption=disruption) for disruption in Disruption)
DRAIN = Drain(mode="Evict")
SEARCH = Tenants(namespaces=LabelSelector(match_labels={"team": "search"}))

WHOLE, SHARE, PART = "gpu-0", "gpu-0-timeslicing", "gpu-0-mig-1g10gb-19-0"
SMALL = Offers(mig=MigOffer(profiles=("1g.10gb",)))
LARGE = Offers(mig=MigOffer(profiles=("3g.40gb",)))
LAYOUT = Offers(mig=MigOffer(layout={"1g.10gb": 2}))
TWO = (MigInstanceStatus(profile="1g.10gb", start=0), MigInstanceStatus(profile="1g.10gb", start=1))
HALF_AND_HALF = Offers(mig=MigOffer(layout={"1g.10gb": 1, "3g.40gb": 1}))

PROFILES = (
    MigProfilePlaces(name="1g.10gb", id=19, slices=1, memory=9856, size=1, starts=(0, 1, 2, 3, 4, 5, 6)),
    MigProfilePlaces(name="3g.40gb", id=9, slices=3, memory=40320, size=4, starts=(0, 4)),
)


def p(
    offers: Offers = EXCLUSIVE,
    *,
    name: str = "a",
    generation: int = 1,
    rollout: Rollout = WAIT,
    tenants: Tenants | None = None,
) -> SharingPolicy:
    return policy(name, generation=generation, offers=offers, rollout=rollout, tenants=tenants)


def board(
    *,
    in_force: SharingPolicy | None = None,
    open_: Sequence[str] = (),
    instances: Sequence[MigInstanceStatus] = (),
    mig: MigMode | None = None,
    wrong: str | None = None,
) -> GpuStatus:
    conditions = () if wrong is None else (unhealthy(wrong),)
    update = {
        "policy": reference(in_force) if in_force else None,
        "published": tuple(PublishedDevice(device=device) for device in open_),
        "instances": tuple(instances),
        "mig_mode": mig,
        "conditions": conditions,
    }
    return gpu_status(0).model_copy(update=update)


def unhealthy(message: str, reason: str = "SettingNotApplied") -> Condition:
    # What does not obey is healthy for those who have it already.
    status = ConditionStatus.TRUE if reason == "SettingNotApplied" else ConditionStatus.FALSE
    return Condition(type="Healthy", status=status, reason=reason, message=message, last_transition_time="")


def roll(
    policies: Sequence[SharingPolicy],
    before: Sequence[GpuSharing],
    after: Sequence[GpuSharing],
    *results: AllocationResult,
    status: Sequence[GpuStatus],
    resets: bool = False,
) -> NodeRollout:
    sharing = node_sharing(gpus=status, spec=NodeSharingSpec(gpus=tuple(before)))
    model = GpuModel(model=gpu_status(0).model, switch_resets=resets, profiles=PROFILES)
    report = sharing.status.model_copy(update={"models": (model,)})
    claims = tuple(claim(f"c{number}", one) for number, one in enumerate(results, 1))
    view = NodeView(
        driver=DRIVER,
        sharing=NodeSharing(metadata=sharing.metadata, spec=sharing.spec, status=report),
        labels={},
        claims=claims,
    )
    examined = {one.metadata.name: examine(one, minor=MINOR) for one in policies}
    return node_rollout(examined, view.gpus, {gpu.uuid: gpu for gpu in before}, after)


class Case(NamedTuple):
    before: SharingPolicy | None
    """Who had the GPU, and how. None: nobody."""
    after: SharingPolicy | None
    held: Sequence[str | AllocationResult]
    effect: Effect
    in_the_way: int = 0
    """So many of those who hold it."""
    status: GpuStatus = board()
    resets: bool = False
    drain: Drain | None = None
    """As it was written before."""


def change(case: Case) -> GpuChange:
    known = {one.metadata.name: one for one in (case.before, case.after) if one}
    held = [result(one) if isinstance(one, str) else one for one in case.held]
    before = decided(0, case.before).model_copy(update={"drain": case.drain})
    rollout = roll(
        [*known.values()], [before], [decided(0, case.after)], *held, status=[case.status], resets=case.resets
    )
    return rollout.changes[0]


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(Case(p(), p(time_slicing()), [], Effect.NONE), id="an idle GPU"),
        pytest.param(Case(p(), p(time_slicing(exclusive=True)), [WHOLE], Effect.NONE), id="another way beside it"),
        pytest.param(Case(p(time_slicing(4)), p(time_slicing(2)), [SHARE] * 4, Effect.NONE), id="fewer clients"),
        pytest.param(Case(p(), p(name="b"), [WHOLE], Effect.NONE), id="another policy, the same tenants: a label"),
        pytest.param(Case(p(), p(time_slicing()), [WHOLE], Effect.WAITS, 1), id="the way in which it is held goes"),
        pytest.param(Case(p(time_slicing()), p(), [SHARE] * 3, Effect.WAITS, 3), id="all who hold it"),
        pytest.param(Case(p(), p(time_slicing(), rollout=EVICT), [WHOLE], Effect.EVICTS, 1), id="evicted"),
        pytest.param(
            Case(p(rollout=EVICT), p(time_slicing(), name="b"), [WHOLE], Effect.WAITS, 1),
            id="who wins the GPU says how gently",
        ),
        pytest.param(Case(p(), p(time_slicing(), rollout=NEVER), [WHOLE], Effect.UNCHANGED_UNTIL_IDLE, 1), id="never"),
        pytest.param(Case(p(), p(time_slicing(), rollout=NEVER), [], Effect.NONE), id="never, and nobody is there"),
        pytest.param(
            Case(p(), p(time_slicing(exclusive=True), rollout=NEVER), [WHOLE], Effect.NONE),
            id="never, and nobody is in the way",
        ),
        pytest.param(
            Case(p(rollout=NEVER), None, [WHOLE], Effect.NONE), id="offered as found: whoever has all of it keeps it"
        ),
        pytest.param(Case(p(time_slicing(), rollout=WAIT), None, [SHARE], Effect.WAITS, 1), id="given away to nobody"),
        pytest.param(
            Case(p(), p(time_slicing()), [result(WHOLE, admin_access=True)], Effect.NONE), id="who only looks"
        ),
        pytest.param(Case(p(), p(time_slicing()), [result(WHOLE, pool="n2")], Effect.NONE), id="on another node"),
        pytest.param(Case(p(), p(time_slicing()), ["gpu-1"], Effect.NONE), id="another GPU"),
        # Tenants.
        pytest.param(Case(p(), p(tenants=SEARCH), [WHOLE], Effect.WAITS, 1), id="into a pool of tenants"),
        pytest.param(Case(p(), p(tenants=SEARCH), [], Effect.CLOSES_FIRST), id="into a pool of tenants, idle"),
        pytest.param(
            Case(p(tenants=SEARCH), p(), [result(WHOLE, pool="n1/a")], Effect.WAITS, 1), id="out of the tenants' pool"
        ),
        pytest.param(
            Case(p(tenants=SEARCH), p(tenants=SEARCH, generation=2), [result(WHOLE, pool="n1/a")], Effect.NONE),
            id="in the pool where they are",
        ),
        pytest.param(
            Case(p(tenants=SEARCH), p(name="b", tenants=SEARCH), [result(WHOLE, pool="n1/a")], Effect.WAITS, 1),
            id="pools are named by their policies",
        ),
        # MIG.
        pytest.param(Case(p(SMALL), p(SMALL, generation=2), [PART], Effect.NONE), id="profiles that stay"),
        pytest.param(Case(p(SMALL), p(LARGE), [PART], Effect.WAITS, 1), id="profiles that go"),
        pytest.param(Case(p(), p(LAYOUT), [], Effect.REPARTITIONS), id="a layout"),
        pytest.param(
            Case(p(LAYOUT), p(LAYOUT, generation=2), [], Effect.NONE, status=board(instances=TWO)), id="that is there"
        ),
        pytest.param(
            Case(p(LAYOUT), p(LAYOUT), [], Effect.REPARTITIONS, status=board(instances=TWO[:1])), id="half of which is"
        ),
        pytest.param(Case(p(), p(LAYOUT), [WHOLE], Effect.WAITS, 1), id="a layout, and somebody holds the GPU"),
        pytest.param(
            Case(
                p(LAYOUT), p(HALF_AND_HALF), ["gpu-0-mig-1g10gb-19-3"], Effect.REPARTITIONS, status=board(instances=TWO)
            ),
            id="a layout in which the one who is there has a place",
        ),
        pytest.param(
            Case(p(LAYOUT), p(HALF_AND_HALF), [PART], Effect.WAITS, 1, status=board(instances=TWO)),
            id="a layout in which it has none",
        ),
        pytest.param(
            Case(p(SMALL), None, [PART], Effect.WAITS, 1, status=board(mig=MigMode(enabled=True, found=False))),
            id="instances of claims, on a GPU that was found whole",
        ),
        pytest.param(
            Case(None, None, [PART], Effect.NONE, status=board(mig=MigMode(enabled=True, found=True))),
            id="instances that were found",
        ),
        pytest.param(
            Case(
                p(),
                p(SMALL),
                [],
                Effect.REPARTITIONS,
                status=board(mig=MigMode(enabled=False, found=False)),
                resets=True,
            ),
            id="MIG mode, whose switch resets this model",
        ),
        pytest.param(
            Case(p(), p(SMALL), [], Effect.NONE, status=board(mig=MigMode(enabled=False, found=False))),
            id="and that of others does not",
        ),
        pytest.param(
            Case(
                p(SMALL),
                p(),
                [],
                Effect.REPARTITIONS,
                status=board(mig=MigMode(enabled=True, found=False)),
                resets=True,
            ),
            id="MIG mode back to what it was",
        ),
        pytest.param(
            Case(p(SMALL), p(), [], Effect.NONE, status=board(mig=MigMode(enabled=True, found=True)), resets=True),
            id="MIG mode that others switched on stays on",
        ),
    ],
)
def test_whom_a_change_disturbs(case: Case) -> None:
    found = change(case)
    assert (found.effect, len(found.claims)) == (case.effect, case.in_the_way)
    assert (found.after.drain is not None) == (case.effect is Effect.EVICTS)
    costs = case.effect in {Effect.EVICTS, Effect.REPARTITIONS}
    if costs and case.before != case.after:
        assert not found.is_applied


def test_a_gpu_of_which_nothing_was_decided_disturbs_nobody_by_being_cut() -> None:
    wanted = decided(0, p(LAYOUT))
    rollout = roll([p(LAYOUT)], [], [wanted], status=[board()])
    [found] = rollout.changes
    assert rollout == NodeRollout(
        changes=(
            GpuChange(before=None, after=wanted, effect=Effect.REPARTITIONS, claims=(), policy="a", gpu=found.gpu),
        )
    )
    assert rollout.admitted({"a"}) == (wanted,)


def test_nobody_is_evicted_from_such_a_gpu_before_its_turn() -> None:
    """Its NodeSharing was deleted, say."""
    evicting = p(time_slicing(), rollout=EVICT)
    rollout = roll([evicting], [], [decided(0, evicting)], result(WHOLE), status=[board()])
    assert rollout.asking == {"a"}
    assert [gpu.drain for gpu in rollout.admitted({"a"})] == [None]
    assert [gpu.drain for gpu in rollout.admitted(())] == [DRAIN]


OLD, NEW = p(), p(time_slicing(), generation=2, rollout=EVICT)
DRAINING = decided(0, NEW).model_copy(update={"drain": DRAIN})


class Step(NamedTuple):
    before: GpuSharing
    after: SharingPolicy
    held: Sequence[str]
    status: GpuStatus
    asking: bool
    changing: bool
    failing: bool
    drains: bool
    """If it is admitted."""


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(
            Step(decided(0, OLD), NEW, [WHOLE], board(in_force=OLD, open_=[WHOLE]), True, False, False, True),
            id="before it",
        ),
        pytest.param(
            Step(DRAINING, NEW, [WHOLE], board(in_force=OLD, open_=[WHOLE]), False, True, False, True),
            id="pods are being evicted",
        ),
        pytest.param(
            Step(DRAINING, NEW, [], board(in_force=OLD, open_=[WHOLE]), False, True, False, True),
            id="they have gone, and the agent has not acted",
        ),
        pytest.param(
            Step(DRAINING, NEW, [], board(in_force=NEW), False, True, False, True), id="nothing can be had yet"
        ),
        pytest.param(
            Step(DRAINING, NEW, [], board(in_force=NEW, open_=[SHARE]), False, False, False, False),
            id="it can be had anew: the eviction is over",
        ),
        pytest.param(
            Step(decided(0, NEW), NEW, [SHARE], board(in_force=NEW, open_=[SHARE]), False, False, False, False),
            id="after it",
        ),
        pytest.param(
            Step(decided(0, NEW), NEW, [WHOLE], board(in_force=NEW, open_=[SHARE]), True, False, False, True),
            id="somebody who came late has to ask for a place as well",
        ),
        pytest.param(
            Step(DRAINING, NEW, [], board(in_force=NEW, wrong="no"), False, True, True, True), id="it fails on the way"
        ),
        pytest.param(
            Step(decided(0, NEW), NEW, [], board(in_force=NEW, open_=[SHARE], wrong="no"), False, False, True, False),
            id="it fails with the new spec",
        ),
        pytest.param(
            Step(decided(0, OLD), NEW, [WHOLE], board(in_force=OLD, wrong="no"), True, False, False, True),
            id="it was broken before",
        ),
        pytest.param(
            Step(DRAINING, p(LAYOUT, generation=3, rollout=EVICT), [], board(in_force=NEW), True, True, False, False),
            id="another change on the way",
        ),
        pytest.param(
            Step(
                DRAINING,
                p(time_slicing(), generation=3, rollout=Rollout(disruption=Disruption.EVICT, paused=True)),
                [WHOLE],
                board(in_force=NEW),
                False,
                True,
                False,
                True,
            ),
            id="paused, and what has begun goes on",
        ),
        pytest.param(
            Step(
                decided(0, NEW),
                p(time_slicing(), generation=3, rollout=Rollout(disruption=Disruption.EVICT, mode=RolloutMode.PLAN)),
                [WHOLE],
                board(in_force=NEW, open_=[SHARE]),
                False,
                False,
                False,
                False,
            ),
            id="a plan, and nothing begins",
        ),
    ],
)
def test_what_goes_on_is_read_from_the_world(step: Step) -> None:
    held = [result(device) for device in step.held]
    wanted = step.before if step.after.spec.rollout.paused else decided(0, step.after)
    rollout = roll([step.after], [step.before], [wanted], *held, status=[step.status])
    found = ("a" in rollout.asking, "a" in rollout.changing, "a" in rollout.failing)
    assert found == (step.asking, step.changing, step.failing)
    [admitted] = rollout.admitted(())
    assert (admitted.drain is not None) == step.drains
    if step.asking:
        [held_back] = rollout.admitted({"a"})
        assert held_back == step.before


def test_a_kept_gpu_stays_as_it_was_and_tells_who_is_waiting() -> None:
    before, after = p(name="b"), p(time_slicing(), rollout=NEVER)
    kept = roll([before, after], [decided(0, before)], [decided(0, after)], result(WHOLE), status=[board()])
    assert kept.admitted(()) == (decided(0, before),)
    assert kept.asking == frozenset()
    gone = roll([before, after], [decided(0, before)], [decided(0, after)], status=[board()])
    assert gone.admitted(()) == (decided(0, after),)


def test_an_eviction_ends_when_the_policy_says_never() -> None:
    never = p(EXCLUSIVE, generation=3, rollout=NEVER)
    kept = roll([never], [DRAINING], [decided(0, never)], result(SHARE), status=[board()])
    assert kept.admitted(()) == (decided(0, NEW),)


def test_a_node_is_held_back_as_a_whole() -> None:
    """With the GPUs of that policy: those of others go on."""
    old, new, other = p(), p(time_slicing(), generation=2, rollout=EVICT), p(name="b", generation=4)
    status = [gpu_status(slot) for slot in range(3)]
    before = [decided(0, old), decided(1, old), decided(2, p(name="b"))]
    wanted = [decided(0, new), decided(1, new), decided(2, other)]
    rollout = roll([new, other], before, wanted, result("gpu-0"), status=status)
    assert rollout.asking == {"a"}
    assert rollout.admitted({"a"}) == (decided(0, old), decided(1, old), decided(2, other))
    evicting = decided(0, new).model_copy(update={"drain": DRAIN})
    assert rollout.admitted(()) == (evicting, decided(1, new), decided(2, other))


def test_claims_are_named() -> None:
    rollout = roll([NEW], [decided(0, OLD)], [decided(0, NEW)], result(WHOLE), status=[board()])
    assert [change.claims for change in rollout.changes] == [("default/c1",)]
    assert rollout.changes[0].after.uuid == uuid(0)


def test_an_unreadable_policy_is_no_candidate_for_a_change() -> None:
    examined: dict[str, ExaminedPolicy] = {}
    view = NodeView(
        driver=DRIVER,
        sharing=node_sharing(gpus=[board()], spec=NodeSharingSpec(gpus=(decided(0, OLD),))),
        labels={},
        claims=(),
    )
    before = {gpu.uuid: gpu for gpu in view.sharing.spec.gpus}
    rollout = node_rollout(examined, view.gpus, before, [decided(0, None)])
    assert rollout.changes[0].policy is None
