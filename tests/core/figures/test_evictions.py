"""Evictions are counted when they begin, each claim once."""

from dataclasses import replace

from building import EXCLUSIVE, NOW, claim, node_sharing, policy, result, time_slicing, world
from building.cluster import agents_act, apply
from building.from_nothing import World, decide
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.api.sharing.rollout import Disruption, Rollout
from gpusharing.core.figures.evictions import evictions
from gpusharing.core.intents import ReplaceSpec

SHARED = policy("p", offers=time_slicing(3))
CLAIMS = (
    claim("c1", result("gpu-0-timeslicing"), result("gpu-1-timeslicing"), pods=["p1", "p2"]),
    claim("c2", result("gpu-0-timeslicing")),
)


def with_policy(at: World, edited: SharingPolicy) -> World:
    return replace(at, policies={edited.metadata.name: edited})


def in_use() -> World:
    at = world(policies=[SHARED], node_sharings=[node_sharing()], claims=CLAIMS)
    for _ in range(4):
        at = agents_act(apply(at, decide(at, now=NOW)))
    return at


def counted(at: World) -> dict[str, int]:
    """By the write of the only node."""
    return {
        policy: count
        for one in decide(at, now=NOW)
        if isinstance(one, ReplaceSpec)
        for policy, count in evictions(one.notices).items()
    }


def test_once_for_each_claim() -> None:
    evicting = policy("p", generation=2, offers=EXCLUSIVE, rollout=Rollout(disruption=Disruption.EVICT))
    at = with_policy(in_use(), evicting)
    assert counted(at) == {"p": 2}
    at = apply(at, decide(at, now=NOW))
    assert counted(at) == {}


def test_those_that_drain_are_not_evicted() -> None:
    assert counted(with_policy(in_use(), policy("p", generation=2, offers=EXCLUSIVE))) == {}
