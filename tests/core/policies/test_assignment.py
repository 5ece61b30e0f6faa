"""Which policy wins which GPU of a node."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import DRIVER, MINOR, decided, gpu_status, policy, reference, time_slicing, uuid
from gpusharing.api.meta import LabelSelector
from gpusharing.api.sharing.gpu_status import GpuStatus
from gpusharing.api.sharing.node_spec import GpuSharing, Loser, LossReason
from gpusharing.api.sharing.policy import SharingPolicy, UnreadablePolicy
from gpusharing.api.sharing.rollout import Rollout, RolloutMode
from gpusharing.api.sharing.tenants import Allowance, Tenants
from gpusharing.core.policies.assignment import assign
from gpusharing.core.policies.policy import examine
from gpusharing.core.policies.selection import Selector

Outcome = Sequence[GpuSharing]
Labels = Mapping[str, str]
NONE: Labels = MappingProxyType({})


def run(
    policies: Sequence[SharingPolicy], *, gpus: int, before: Outcome = (), labels: Labels = MappingProxyType({})
) -> Outcome:
    return decide_on([gpu_status(slot) for slot in range(gpus)], policies, before=before, labels=labels)


def decide_on(
    gpus: Sequence[GpuStatus], policies: Sequence[SharingPolicy], *, before: Outcome, labels: Labels = NONE
) -> Outcome:
    examined = [examine(policy, minor=MINOR) for policy in policies]
    selections = Selector(DRIVER).selections(examined, labels=labels, gpus=gpus)
    return assign(examined, selections=selections, uuids=[gpu.uuid for gpu in gpus], before=before)


def winners(outcome: Outcome) -> list[str | None]:
    return [gpu.policy.name if gpu.policy else None for gpu in outcome]


def losses(outcome: Outcome) -> list[list[tuple[str, str]]]:
    return [[(loser.policy, loser.reason.value) for loser in gpu.losers] for gpu in outcome]


LOWER, LATER = LossReason.LOWER_PRIORITY.value, LossReason.NAME_SORTS_LATER.value
FAILED = LossReason.SELECTOR_FAILED.value

# Matches gpu-1 and gpu-3, has no answer for gpu-0, and does not match the others.
ODD = (
    'device.attributes["resource.kubernetes.io"].pciBusID == "0000:01:00.0" ? device.attributes["x"].y == "z" : '
    'device.attributes["resource.kubernetes.io"].pciBusID in ["0000:02:00.0", "0000:04:00.0"]'
)


class Case(NamedTuple):
    policies: list[SharingPolicy]
    expected: list[str | None]
    lost: Mapping[int, list[tuple[str, str]]] = {}
    """By GPU; the others have no losers."""
    before: Outcome = ()


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(Case([], [None, None]), id="no policies"),
        pytest.param(Case([policy("a")], ["a", "a"]), id="one policy takes all"),
        pytest.param(
            Case([policy("b", priority=1), policy("a")], ["b", "b"], {0: [("a", LOWER)], 1: [("a", LOWER)]}),
            id="the higher priority wins, whatever the names",
        ),
        pytest.param(
            Case([policy("b"), policy("a")], ["a", "a"], {0: [("b", LATER)], 1: [("b", LATER)]}),
            id="among equals the name that sorts first wins",
        ),
        pytest.param(
            Case(
                [policy("c", priority=-1), policy("a"), policy("b")],
                ["a", "a"],
                {slot: [("b", LATER), ("c", LOWER)] for slot in (0, 1)},
            ),
            id="losers in the order of their rank, each with its own reason",
        ),
        pytest.param(
            Case(
                [policy("a", priority=2, max_per_node=1), policy("b", priority=1, max_per_node=1), policy("c")],
                ["a", "b", "c", "c"],
                {0: [("c", LOWER)], 1: [("c", LOWER)]},
            ),
            id="who gets as many as it wants has not lost, who wants all has",
        ),
        pytest.param(
            Case([policy("a", priority=1, max_per_node=3), policy("b", max_per_node=2)], ["a", "a", "a", "b"], {
                slot: [("b", LOWER)] for slot in range(3)
            }),
            id="maxPerNode counts GPUs that no higher priority won",
        ),
        pytest.param(Case([policy("a", max_per_node=2)], ["a", "a", None]), id="maxPerNode as a number"),
        pytest.param(Case([policy("a", max_per_node=9)], ["a", "a", "a"]), id="maxPerNode over the number of GPUs"),
        pytest.param(Case([policy("a", max_per_node="50%")], ["a", "a", None, None]), id="percent"),
        pytest.param(Case([policy("a", max_per_node="50%")], ["a", None, None]), id="percent rounds down"),
        pytest.param(Case([policy("a", max_per_node="99%")], ["a", "a", None]), id="99 % is not all"),
        pytest.param(Case([policy("a", max_per_node="1%")], ["a", None]), id="percent is at least one"),
        pytest.param(Case([policy("a", max_per_node="100%")], ["a", "a"]), id="all of them"),
        pytest.param(
            Case([policy("a", max_per_node=2)], [None, "a", None, "a"], before=[
                decided(1, policy("a")), decided(3, policy("a"))
            ]),
            id="GPUs that it had come first when new ones appear",
        ),
        pytest.param(
            Case([policy("a", max_per_node=1)], [None, "a"], before=[
                decided(1, policy("a", generation=7))
            ]),
            id="also after its spec has changed",
        ),
        pytest.param(
            Case([policy("a", max_per_node=2)], ["a", None, None, "a"], before=[
                decided(3, policy("a")), decided(7, policy("a"))
            ]),
            id="one that is gone is replaced by uuid",
        ),
        pytest.param(
            Case([policy("a", priority=1, max_per_node=1), policy("b")], ["b", "a"], {1: [("b", LOWER)]}, [
                decided(0, policy("b")), decided(1, policy("a"))
            ]),
            id="stability is no reason to lose a GPU",
        ),
        pytest.param(
            Case([policy("a", accepted=False, max_per_node="50%"), policy("b", priority=-1)], ["a", "a", "b", "b"], {
                0: [("b", LOWER)], 1: [("b", LOWER)]
            }, [decided(0, policy("a")), decided(1, policy("a"))]),
            id="a policy that is not accepted keeps what it had, all of it",
        ),
        pytest.param(
            Case([policy("a", accepted=False, max_per_node=1)], ["a", "a", None], before=[
                decided(0, policy("a")), decided(1, policy("a"))
            ]),
            id="also where the edit that is not accepted wants fewer",
        ),
        pytest.param(
            Case([policy("a", accepted=False, nodes={"pool": "x"})], ["a", None], before=[decided(0, policy("a"))]),
            id="or other nodes",
        ),
        pytest.param(
            Case([policy("a", accepted=False), policy("b", priority=1, max_per_node=1)], ["b", "a", None], before=[
                decided(0, policy("a")), decided(1, policy("a"))
            ]),
            id="but it is outranked as before, and is no loser: it wants nothing",
        ),
        pytest.param(Case([policy("a", accepted=False)], [None, None]), id="one that is not accepted gains nothing"),
        pytest.param(Case([policy("a", nodes={"pool": "x"})], [None]), id="other nodes are none of its business"),
        pytest.param(Case([], [None], before=[decided(0, policy("a"))]), id="a deleted policy leaves nothing"),
        pytest.param(
            Case([policy("a", selectors=[ODD])], [None, "a", None, "a"]), id="a policy wins the GPUs that it selects"
        ),
        pytest.param(
            Case([policy("a", selectors=["true", ODD, ODD])], [None, "a", None, "a"]), id="all selectors must match"
        ),
        pytest.param(
            Case([policy("a", selectors=["false", ODD])], [None, None]), id="after one that does not, none is asked"
        ),
        pytest.param(
            Case([policy("a", selectors=[ODD], max_per_node="50%")], [None, "a", None, None]),
            id="percent of those that it selects",
        ),
        pytest.param(
            Case([policy("a", selectors=[ODD]), policy("b")], [None, "a", "b"], {
                0: [("b", FAILED)], 1: [("b", LATER)]
            }),
            id="where a selector fails, the next policy does not get the GPU",
        ),
        pytest.param(
            Case([policy("a", selectors=[ODD])], ["a", "a"], before=[decided(0, policy("a"))]),
            id="a GPU on which its selector fails stays with the policy that had it",
        ),
        pytest.param(
            Case([policy("a", selectors=[ODD], max_per_node=1)], ["a", None], before=[decided(0, policy("a"))]),
            id="and counts: it takes no other one instead",
        ),
        pytest.param(
            Case([policy("a", selectors=[ODD]), policy("b"), policy("c")], ["c", "a"], {
                0: [("b", FAILED)], 1: [("b", LATER), ("c", LATER)]
            }, [decided(0, policy("c"))]),
            id="the last winner keeps it even when another would be next",
        ),
        pytest.param(
            Case([policy("a", selectors=[ODD]), policy("b")], ["gone"], {0: [("b", FAILED)]}, [
                decided(0, policy("gone"))
            ]),
            id="even a policy that is gone: a mistake opens nothing",
        ),
        pytest.param(
            Case([policy("a", priority=-1, selectors=[ODD]), policy("b")], ["b"], before=[decided(0, policy("a"))]),
            id="a failing selector keeps nobody away that ranks higher",
        ),
    ],
)  # fmt: skip
def test_assignments(case: Case) -> None:
    outcome = run(case.policies, gpus=len(case.expected), before=case.before)
    assert winners(outcome) == case.expected
    assert losses(outcome) == [case.lost.get(slot, []) for slot in range(len(case.expected))]


@pytest.mark.parametrize(("labels", "expected"), [({"pool": "x"}, ["a"]), ({"pool": "y"}, ["b"]), ({}, ["b"])])
def test_node_labels_select(labels: dict[str, str], expected: list[str]) -> None:
    assert winners(run([policy("a", nodes={"pool": "x"}, priority=1), policy("b")], gpus=1, labels=labels)) == expected


def test_an_entry_carries_the_winners_offers_and_generation() -> None:
    winner = policy("a", generation=3, offers=time_slicing(8))
    loser = policy("b")
    [entry] = run([winner, loser], gpus=1)
    assert entry == GpuSharing(
        uuid=uuid(0),
        policy=reference(winner),
        priority=0,
        offers=winner.spec.offers,
        losers=(Loser(policy="b", reason=LossReason.NAME_SORTS_LATER),),
    )


@pytest.mark.parametrize(
    ("tenants", "restricted", "allow"),
    [
        pytest.param(Tenants(), False, None, id="everyone, as much as is offered"),
        pytest.param(Tenants(namespaces=LabelSelector(match_labels={"team": "x"})), True, None, id="namespaces"),
        pytest.param(Tenants(allow=Allowance(max_shares=1)), False, Allowance(max_shares=1), id="everyone, and less"),
        pytest.param(Tenants(allow=Allowance(gpu_config=())), False, Allowance(gpu_config=()), id="nothing"),
    ],
)
def test_an_entry_says_whether_it_is_for_tenants_and_what_they_may_ask_for(
    tenants: Tenants, restricted: bool, allow: Allowance | None
) -> None:
    [entry] = run([policy("a", tenants=tenants)], gpus=1)
    assert (entry.restricted, entry.allow) == (restricted, allow)


def test_what_is_not_accepted_leaves_the_offers_in_force() -> None:
    accepted = policy("a", generation=3, offers=time_slicing(8))
    edited = policy("a", generation=4, offers=time_slicing(2), accepted=False)
    [entry] = run([edited], gpus=1, before=run([accepted], gpus=1))
    assert entry == decided(0, accepted)


FIRST = policy("a", priority=5)
SUSPENDED = {
    "not accepted": policy("a", generation=2, priority=-5, accepted=False),
    "unreadable": UnreadablePolicy.of({"name": "a", "generation": 2}),
    "paused": policy("a", generation=2, priority=-5, offers=time_slicing(2), rollout=Rollout(paused=True)),
    "planned": policy("a", generation=2, priority=-5, nodes={"pool": "x"}, rollout=Rollout(mode=RolloutMode.PLAN)),
}


@pytest.mark.parametrize("suspended", SUSPENDED.values(), ids=SUSPENDED)
def test_suspended_policies_keep_what_they_had_with_the_rank_that_they_had(suspended: SharingPolicy) -> None:
    before = run([FIRST], gpus=2)
    # Neither its new priority, nor its offers, nor its nodes count; and of a new GPU it wants nothing.
    outcome = run([suspended, policy("b", priority=4)], gpus=3, before=before)
    assert winners(outcome) == ["a", "a", "b"]
    assert [gpu.model_copy(update={"losers": ()}) for gpu in outcome[:2]] == list(before)
    assert losses(outcome) == [[("b", LOWER)], [("b", LOWER)], []]
    # Who outranked it before does so now.
    assert winners(run([suspended, policy("b", priority=6)], gpus=3, before=before)) == ["b", "b", "b"]


def test_nor_does_an_edit_that_rests_win_by_its_new_priority() -> None:
    before = run([policy("a", priority=1), policy("b", priority=2, max_per_node=1)], gpus=2)
    assert winners(before) == ["b", "a"]
    edited = policy("a", priority=9, accepted=False)
    assert winners(run([edited, policy("b", priority=2)], gpus=2, before=before)) == ["b", "b"]


names = st.sampled_from("abcd")
policies_ = st.lists(
    st.builds(
        policy,
        name=names,
        priority=st.integers(min_value=-1, max_value=1),
        nodes=st.sampled_from([{}, {"pool": "x"}]),
        max_per_node=st.none() | st.integers(min_value=1, max_value=5) | st.sampled_from(["1%", "34%", "50%", "100%"]),
        accepted=st.sampled_from([True, True, False]),
    ),
    unique_by=lambda item: item.metadata.name,
    max_size=4,
)
slots = st.lists(st.integers(min_value=0, max_value=9), unique=True, max_size=8)
before_ = st.dictionaries(st.integers(min_value=0, max_value=9), names).map(
    lambda held: [decided(slot, policy(name)) for slot, name in held.items()]
)
labels_ = st.sampled_from([{}, {"pool": "x"}])


class Situation(NamedTuple):
    policies: list[SharingPolicy]
    slots: list[int]
    before: list[GpuSharing]
    labels: dict[str, str]

    @property
    def uuids(self) -> list[str]:
        return [uuid(slot) for slot in self.slots]

    def decide(self, *, before: Outcome | None = None) -> Outcome:
        return decide_on(
            [gpu_status(slot).model_copy(update={"slot": place}) for place, slot in enumerate(self.slots)],
            self.policies,
            before=self.before if before is None else before,
            labels=self.labels,
        )

    def rank(self, name: str) -> tuple[int, str]:
        return next((-item.spec.priority, name) for item in self.policies if item.metadata.name == name)

    def had(self, name: str) -> set[str]:
        return {gpu.uuid for gpu in self.before if gpu.policy and gpu.policy.name == name} & set(self.uuids)

    def wants(self, item: SharingPolicy) -> bool:
        return examine(item, minor=MINOR).objection is None and item.spec.nodes.matches(self.labels)

    def room(self, item: SharingPolicy) -> int:
        """Said again, without the code's own words."""
        match item.spec.gpus.max_per_node:
            case str(percent):
                return max(1, int(len(self.slots) * int(percent[:-1]) / 100))
            case None:
                return len(self.slots)
            case number:
                return number


situations = st.builds(Situation, policies=policies_, slots=slots, before=before_, labels=labels_)


def won(outcome: Outcome, name: str) -> set[str]:
    return {gpu.uuid for gpu in outcome if gpu.policy and gpu.policy.name == name}


@given(situations)
def test_every_gpu_is_decided_once_in_order(situation: Situation) -> None:
    assert [gpu.uuid for gpu in situation.decide()] == situation.uuids


@given(situations)
def test_nobody_with_room_is_outranked(situation: Situation) -> None:
    outcome = situation.decide()
    for item in situation.policies:
        name = item.metadata.name
        if not situation.wants(item):
            continue
        mine = won(outcome, name)
        assert len(mine) <= situation.room(item)
        for gpu in outcome:
            lost = [loser for loser in gpu.losers if loser.policy == name]
            outranked = gpu.policy is not None and situation.rank(gpu.policy.name) < situation.rank(name)
            has_room = len(mine) < situation.room(item)
            if gpu.uuid not in mine and has_room:
                assert outranked, "it had room, and the GPU went to a lower rank or to nobody"
            # Named as a loser exactly where that was somebody's better rank, and it would have taken the GPU.
            assert len(lost) == (1 if outranked and has_room else 0)


@given(situations)
def test_who_may_not_want_gains_nothing_and_keeps_what_no_better_one_takes(situation: Situation) -> None:
    outcome = situation.decide()
    for item in situation.policies:
        name = item.metadata.name
        if situation.wants(item):
            continue
        mine, had = won(outcome, name), situation.had(name)
        assert not any(loser.policy == name for gpu in outcome for loser in gpu.losers)
        assert mine <= had
        if examine(item, minor=MINOR).objection is None:
            assert mine == set()
            continue
        for gpu in outcome:
            if gpu.uuid in had - mine:
                assert gpu.policy is not None
                assert situation.rank(gpu.policy.name) < situation.rank(name)


@given(situations)
def test_nobody_changes_gpus_without_need(situation: Situation) -> None:
    """A GPU that was its own is only left for a better rank, or because maxPerNode is full of such GPUs."""
    outcome = situation.decide()
    for item in situation.policies:
        name = item.metadata.name
        mine, had = won(outcome, name), situation.had(name)
        if not situation.wants(item) or not mine - had:
            continue
        for gpu in outcome:
            if gpu.uuid in had - mine:
                assert gpu.policy is not None
                assert situation.rank(gpu.policy.name) < situation.rank(name)


@given(st.data(), situations)
def test_the_order_of_policies_does_not_matter(data: st.DataObject, situation: Situation) -> None:
    shuffled = data.draw(st.permutations(situation.policies))
    assert situation._replace(policies=shuffled).decide() == situation.decide()


@given(situations)
def test_what_was_decided_stays_decided(situation: Situation) -> None:
    outcome = situation.decide()
    assert situation.decide(before=outcome) == outcome
    assert situation.decide(before=outcome[::-1]) == outcome


@given(situations, st.integers(min_value=10, max_value=20))
def test_a_new_gpu_moves_no_policy_with_a_number(situation: Situation, new: int) -> None:
    for item in situation.policies:
        if isinstance(item.spec.gpus.max_per_node, int):
            alone = situation._replace(policies=[item])
            first = alone.decide()
            second = alone._replace(slots=[new, *situation.slots], before=list(first)).decide()
            assert won(first, item.metadata.name) <= won(second, item.metadata.name)
