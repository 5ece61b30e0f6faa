"""All objects that decisions use, however they came and went."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import DRIVER, MINOR, claim, class_of, node, node_sharing, policy, result
from building.incremental import put, remove
from gpusharing.api.core import ResourceQuota
from gpusharing.api.dra import Namespace, ResourceClaim
from gpusharing.api.meta import NamespaceMeta, OwnedMeta, key_of
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.core.state.cluster_state import ClusterState, Setup, WaitingGroup

SETUP = Setup(driver=DRIVER, minor=MINOR, has_taint_rules=True)
NODES = ("n1", "n2")


def state(*items: Any) -> ClusterState:
    made = ClusterState(SETUP)
    for item in items:
        put(made, item)
    return made


def with_uid(item: ResourceClaim, uid: str) -> ResourceClaim:
    return replace(item, metadata=replace(item.metadata, uid=uid))


held = st.builds(
    lambda name, uid, node, device, waits: with_uid(
        claim(name, *([] if waits else [result(device, pool=node)]), allocated=not waits, classes=["a-mps"]), uid
    ),
    st.sampled_from(["c1", "c2", "c3"]),
    st.sampled_from(["u1", "u2"]),
    st.sampled_from([*NODES, "n9"]),
    st.sampled_from(["gpu-0", "gpu-1-timeslicing"]),
    st.booleans(),
)


@given(st.lists(st.tuples(st.booleans(), held), max_size=12))
def test_after_any_history_it_is_what_is_there(history: list[tuple[bool, ResourceClaim]]) -> None:
    """Also where a claim was deleted and made again under its name, and nobody told of the deletion."""
    sharings = [item for name in NODES for item in (node(name), node_sharing(name))]
    lived = state(*sharings)
    there: dict[Any, ResourceClaim] = {}
    for stays, item in history:
        if stays:
            put(lived, item)
            there[key_of(item)] = item
        else:
            remove(lived, item)
            there.pop(key_of(item), None)
    made = state(*sharings, *there.values())
    for name in NODES:
        after, expected = lived.view(name), made.view(name)
        assert after is not None
        assert expected is not None
        assert sorted(map(key_of, after.claims)) == sorted(map(key_of, expected.claims))
        assert {hold.uid for hold in after.holds} == {hold.uid for hold in expected.holds}
    assert plain(lived.waiting) == plain(made.waiting)


def plain(waiting: Mapping[WaitingGroup, Mapping[Any, ResourceClaim]]) -> dict[WaitingGroup, dict[Any, str]]:
    return {group: {key: one.metadata.uid for key, one in claims.items()} for group, claims in waiting.items()}


def test_a_claim_that_was_made_again_replaces_its_predecessor() -> None:
    lived = state(node("n1"), node_sharing("n1"), with_uid(claim("c1", result("gpu-0")), "old"))
    lived.take_changes()
    put(lived, with_uid(claim("c1", result("gpu-1-timeslicing")), "new"))
    assert lived.take_changes().nodes == {"n1"}
    view = lived.view("n1")
    assert view is not None
    assert [(hold.uid, hold.result.device) for hold in view.holds] == [("new", "gpu-1-timeslicing")]


QUOTA = ResourceQuota(
    metadata=OwnedMeta(name="gpusharing-a", namespace="team", uid="q", resource_version="1"), spec={"hard": {"x": "1"}}
)
TEAM = Namespace(metadata=NamespaceMeta(name="team", uid="t", resource_version="1"))


@pytest.mark.parametrize(
    ("item", "cluster", "renewed"),
    [
        (replace(QUOTA, metadata=replace(QUOTA.metadata, resource_version="2")), False, True),
        (replace(QUOTA, spec={"hard": {"x": "2"}}), True, False),
        (replace(QUOTA, metadata=replace(QUOTA.metadata, labels={"a": "b"})), True, False),
        (replace(TEAM, metadata=replace(TEAM.metadata, resource_version="2")), False, False),
        (replace(TEAM, metadata=replace(TEAM.metadata, labels={"a": "b"})), True, False),
        (class_of("a"), True, False),
    ],
    ids=["used", "hard", "labels of a quota", "nothing of a namespace", "labels of a namespace", "a class"],
)
def test_what_concerns_the_cluster(item: Any, cluster: bool, renewed: bool) -> None:
    lived = state(QUOTA, TEAM)
    lived.take_changes()
    put(lived, item)
    changes = lived.take_changes()
    assert (changes.cluster, bool(changes.renewed)) == (cluster, renewed)


def test_changes_that_are_given_back_are_taken_with_those_that_came_since() -> None:
    lived = state(node("n1"), node_sharing("n1"), policy("a"))
    changes = lived.take_changes()
    assert not lived.has_changed
    put(lived, policy("b"))
    lived.give_back(changes)
    again = lived.take_changes()
    assert again.nodes == {"n1"}
    assert again.policies == {"a", "b"}


def test_a_heartbeat_is_no_change() -> None:
    lived = state(node("n1"), node_sharing("n1"))
    lived.take_changes()
    put(lived, replace(node("n1"), metadata=replace(node("n1").metadata, resource_version="7")))
    assert not lived.has_changed
    put(lived, replace(node("n1"), not_ready_since="2026-11-18T12:00:00Z"))
    assert lived.take_changes().nodes == {"n1"}


def test_a_policy_that_is_being_deleted_has_gone() -> None:
    there = policy("p")
    going = there.model_copy(update={"metadata": replace(there.metadata, deletion_timestamp="2026-01-01T00:00:00Z")})
    lived = state(there)
    lived.take_changes()
    put(lived, going)
    assert lived.get(SharingPolicy, ("", "p")) is None
    assert lived.take_changes().policies == {"p"}
    put(lived, going)
    assert not lived.has_changed
