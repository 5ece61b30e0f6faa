"""What a decision amounts to in numbers."""

from dataclasses import replace

from building import EXCLUSIVE, NOW, claim, class_of, gpu_status, node_sharing, policy, result, time_slicing, world
from building.cluster import agents_act, apply, with_claims
from building.from_nothing import World, decide
from building.guards import bound, installed
from building.incremental import Incremental
from gpusharing.api.meta import Condition, ConditionStatus, LabelSelector
from gpusharing.api.names import Sharing
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.api.sharing.policy_status import LagReason
from gpusharing.api.sharing.tenants import Quota, Tenants
from gpusharing.core.figures.figures import Figures
from gpusharing.core.reasons import ConditionType

BOTH = time_slicing(3, exclusive=True)
SEARCH = Tenants(namespaces=LabelSelector(match_labels={"team": "search"}), quota=Quota(time_slicing=1))


def figures(at: World) -> Figures:
    kept = Incremental(at)
    kept.decide(now=NOW)
    return kept.decider.figures


def settled(at: World) -> World:
    """Without a thought to its classes."""
    at = replace(at, guards=installed(), bindings=bound())
    for _ in range(4):
        at = replace(agents_act(apply(at, decide(at, now=NOW))), classes=at.classes)
    return at


def two_gpus(name: str = "n1") -> NodeSharing:
    return node_sharing(name, gpus=[gpu_status(slot, node=name) for slot in range(2)])


def test_a_policy_in_force_and_one_that_lost() -> None:
    idle = settled(world(policies=[policy("p", offers=BOTH), policy("lost", priority=-1)], node_sharings=[two_gpus()]))
    at = with_claims(idle, claim("c1", result("gpu-0-timeslicing")), claim("c2", result("gpu-1")))
    found = figures(at).policies
    assert {one: (policy.won, policy.lost, policy.max_clients) for one, policy in found.items()} == {
        "p": (2, 0, 6),
        "lost": (0, 2, 0),
    }
    assert found["p"].clients == {
        Sharing.EXCLUSIVE: 1,
        Sharing.TIME_SLICING: 1,
        Sharing.MPS: 0,
        Sharing.MIG: 0,
    }
    assert {one.type: (one.status, one.reason) for one in found["p"].conditions} == {
        ConditionType.ACCEPTED: ("True", "Accepted"),
        ConditionType.READY: ("True", "Ready"),
        ConditionType.PROGRESSING: ("False", "Complete"),
        ConditionType.CONFLICTED: ("False", "NoConflict"),
        ConditionType.DEGRADED: ("False", "NotDegraded"),
    }
    assert {state for state, count in found["p"].nodes.items() if count} == {"Ready"}


def test_a_rollout() -> None:
    """Of two nodes, one is in use."""
    at = settled(world(policies=[policy("p", offers=BOTH)], node_sharings=[two_gpus("n1"), two_gpus("n2")]))
    at = settled(with_claims(at, claim("c1", result("gpu-0-timeslicing", pool="n1"))))
    edited = policy("p", generation=2, offers=EXCLUSIVE).model_copy(update={"status": at.policies["p"].status})
    at = replace(at, policies={"p": edited})
    assert figures(at).policies["p"].nodes == dict.fromkeys(["Ready", *LagReason], 0) | {"WaitingForAgent": 2}
    at = settled(at)
    assert figures(at).policies["p"].nodes == dict.fromkeys(["Ready", *LagReason], 0) | {"Ready": 1, "InUse": 1}


def test_a_gpu_that_fails_later() -> None:
    """Its node is as ready as before, says the policy's status."""
    at = settled(world(policies=[policy("p", offers=BOTH)], node_sharings=[two_gpus("n1"), two_gpus("n2")]))
    first, second = at.node_sharings["n1"].status.gpus
    broken = Condition(
        type="Healthy", status=ConditionStatus.FALSE, reason="GpuLost", message="lost", last_transition_time=NOW
    )
    gpus = (first.model_copy(update={"conditions": (broken,)}), second)
    status = at.node_sharings["n1"].status.model_copy(update={"gpus": gpus})
    failing = at.node_sharings["n1"].model_copy(update={"status": status})
    at = replace(at, node_sharings={**at.node_sharings, "n1": failing})
    assert figures(at).policies["p"].nodes == dict.fromkeys(["Ready", *LagReason], 0) | {"Ready": 1, "Failing": 1}


def test_claims_that_wait_and_that_are_denied() -> None:
    """Of a policy with tenants and a quota of one share, on whose GPU three have shares."""
    claims = [
        *(claim(f"c{n}", result("gpu-0-timeslicing", pool="n1/p"), namespace="team") for n in range(2)),
        claim("stranger", result("gpu-0-timeslicing", pool="n1/p"), namespace="other"),
        claim("w1", allocated=False, classes=["p-timeslicing"], namespace="team"),
        claim("w2", allocated=False, classes=["p-timeslicing"], namespace="other"),
        claim("w3", allocated=False, classes=["gpu.nvidia.com"], namespace="other"),
        claim("w4", allocated=False, classes=["gone-timeslicing", "rdma"], namespace="other"),
    ]
    at = settled(
        world(
            policies=[policy("p", tenants=SEARCH)],
            node_sharings=[node_sharing()],
            claims=claims,
            classes=[class_of("p"), class_of("gone")],
            namespaces={"team": {"team": "search"}, "other": {}},
        )
    )
    found = figures(at)
    assert found.pending_claims == {
        ("p", "team", "Denied"): 1,
        ("p", "other", "Denied"): 1,
        ("p", "team", "NotPlaced"): 1,
        ("p", "other", "NotATenant"): 1,
        ("", "other", "NotPlaced"): 1,
    }
    assert found.quota_use.hard == {("p", "team", "TimeSlicing"): 1}


def test_what_goes_is_counted_no_more() -> None:
    waiting = claim("w1", allocated=False, classes=["p-timeslicing"])
    kept = Incremental(
        world(policies=[policy("p")], node_sharings=[node_sharing()], claims=[waiting], classes=[class_of("p")])
    )
    kept.decide(now=NOW)
    assert kept.decider.figures.pending_claims == {("p", "default", "NotPlaced"): 1}
    kept.become(replace(kept.world, policies={}, claims={}))
    kept.decide(now=NOW)
    assert not kept.decider.figures.policies
    assert not kept.decider.figures.pending_claims
