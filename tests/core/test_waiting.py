"""Claims that nobody can serve because a policy has no GPUs."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from building import NOW, claim, class_of, node, node_sharing, policy, time_slicing, world
from building.cluster import apply, with_policies
from gpusharing.api.dra import ResourceClaim
from gpusharing.core.decide import decide
from gpusharing.core.intents import Intent, Tell
from gpusharing.core.world import World

NOWHERE = policy("nowhere", nodes={"pool": "x"}, offers=time_slicing(3))
WAITS = claim("c1", allocated=False, classes=["nowhere-timeslicing"], made_for="p1")


def told(intents: Sequence[Intent]) -> list[str]:
    return [f"{intent.target} {intent.about.name}" for intent in intents if isinstance(intent, Tell)]


def at(*claims: ResourceClaim) -> World:
    return world(
        policies=[NOWHERE],
        node_sharings=[node_sharing()],
        claims=claims,
        classes=[class_of("nowhere"), class_of("gone")],
    )


def test_claim_and_pod_are_told_which_policy_has_nothing_and_why() -> None:
    intents = decide(at(WAITS), now=NOW)
    assert told(intents) == ["ResourceClaim c1", "Pod p1"]
    [notice, _] = [intent for intent in intents if isinstance(intent, Tell)]
    assert notice.reason == "PolicyHasNoGpus"
    assert notice.note == (
        "device class nowhere-timeslicing is for GPUs of SharingPolicy nowhere, which has none: NoMatchingNodes: "
        "no node with GPUs matches spec.nodes: label a node, or wait for its agent to report"
    )


def after(before: World) -> World:
    """With the classes as they were: whether they are right is not what this is about."""
    return replace(apply(before, decide(before, now=NOW)), classes=before.classes)


def test_once() -> None:
    assert told(decide(after(at(WAITS)), now=NOW)) == []


def test_and_again_when_there_is_another_reason() -> None:
    edited = policy("nowhere", generation=2, accepted=False)
    assert told(decide(with_policies(after(at(WAITS)), edited), now=NOW)) == ["ResourceClaim c1", "Pod p1"]


@pytest.mark.parametrize(
    "item",
    [
        claim("c1", classes=["nowhere-timeslicing"]),
        claim("c1", allocated=False, classes=["timeslicing.gpu.nvidia.com"]),
        claim("c1", allocated=False, classes=["gone-timeslicing"]),
        claim("c1", allocated=False),
    ],
)
def test_others_are_not_told(item: ResourceClaim) -> None:
    assert told(decide(at(item), now=NOW)) == []


def test_where_there_are_gpus_it_is_the_schedulers_to_say() -> None:
    somewhere = world(
        policies=[NOWHERE],
        nodes=[node("n1", pool="x")],
        node_sharings=[node_sharing()],
        claims=[WAITS],
        classes=[class_of("nowhere")],
    )
    assert told(decide(somewhere, now=NOW)) == []
