from typing import Any

import pytest
from structlog.testing import capture_logs

from building import DRIVER, node_sharing
from gpusharing.api.meta import Identity
from gpusharing.api.sharing.policy import UnreadablePolicy
from gpusharing.controller.watching import guards
from gpusharing.controller.watching.following import WATCHED
from gpusharing.controller.watching.store import Store
from gpusharing.kube.kinds import NODE_SHARINGS, NODES, RESOURCE_CLAIMS, SHARING_POLICIES


class Observed:
    """A store and how often it said that something has changed."""

    def __init__(self) -> None:
        self.changes = 0
        self.store = Store((*WATCHED, *guards.KINDS), on_change=self._changed)

    def _changed(self, _: type[Any], *, before: Any | None, after: Any | None) -> None:
        self.changes += 1
        self.last: list[Any] = [before, after]

    def versions(self) -> dict[str, str]:
        return {node.metadata.name: node.metadata.resource_version for node in self.store.all(NODES)}


@pytest.fixture
def observed() -> Observed:
    return Observed()


def node(version: int, *, name: str = "n1", uid: str = "a") -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": uid, "resourceVersion": str(version)}}


def test_newer_versions_win_whatever_comes_last(observed: Observed) -> None:
    # 10 is newer than 9: versions are numbers.
    for version in (9, 10, 8):
        observed.store.apply(NODES, node(version))
    assert observed.versions() == {"n1": "10"}
    assert observed.changes == 2


def test_what_is_known_already_is_no_change(observed: Observed) -> None:
    observed.store.apply(NODES, node(1))
    observed.store.apply(NODES, node(1))
    observed.store.remove(NODES, node(2, name="other"))
    assert observed.changes == 1


def test_a_change_tells_what_was_and_what_is(observed: Observed) -> None:
    observed.store.apply(NODES, node(1))
    [first] = observed.store.all(NODES)
    assert observed.last == [None, first]
    observed.store.apply(NODES, node(2))
    [second] = observed.store.all(NODES)
    assert observed.last == [first, second]
    observed.store.remove(NODES, node(3))
    assert observed.last == [second, None]


def test_the_half_of_a_node_sharing_that_stays_the_same_stays_the_same_object(observed: Observed) -> None:
    for version, boot in ((1, "a"), (2, "b")):
        metadata = {"name": "n1", "uid": "a", "resourceVersion": str(version)}
        spec = {"gpus": [{"uuid": "GPU-1"}]}
        observed.store.apply(NODE_SHARINGS, {"metadata": metadata, "spec": spec, "status": {"bootID": boot}})
    before, after = observed.last
    assert after.spec is before.spec
    assert (after.metadata.resource_version, after.status.boot_id) == ("2", "b")


def test_the_end_of_a_predecessor_does_not_end_its_successor(observed: Observed) -> None:
    observed.store.apply(NODES, node(1, uid="old"))
    observed.store.apply(NODES, node(3, uid="new"))
    observed.store.remove(NODES, node(2, uid="old"))
    assert observed.versions() == {"n1": "3"}


def test_what_a_write_returned_is_known_at_once(observed: Observed) -> None:
    sharing = node_sharing("n1")
    observed.store.apply(
        NODE_SHARINGS, {"metadata": {"name": "n1", "uid": sharing.metadata.uid, "resourceVersion": "0"}}
    )
    observed.store.apply_written(NODE_SHARINGS, sharing)
    assert list(observed.store.all(NODE_SHARINGS)) == [sharing]
    assert observed.changes == 2


@pytest.mark.parametrize("uid", [None, "uid-of-a-successor"])
def test_a_late_answer_does_not_bring_back_what_is_gone(observed: Observed, uid: str | None) -> None:
    if uid is not None:
        observed.store.apply(NODE_SHARINGS, {"metadata": {"name": "n1", "uid": uid, "resourceVersion": "0"}})
    before = list(observed.store.all(NODE_SHARINGS))
    observed.store.apply_written(NODE_SHARINGS, node_sharing("n1"))
    assert list(observed.store.all(NODE_SHARINGS)) == before


def of_policy(version: int, max_clients: object) -> dict[str, Any]:
    return {
        "metadata": {"name": "thirds", "uid": "p", "resourceVersion": str(version)},
        "spec": {"offers": {"timeSlicing": {"maxClients": max_clients}}},
    }


def test_an_unreadable_object_is_named_and_changes_nothing(observed: Observed) -> None:
    observed.store.apply(NODES, node(1))
    with capture_logs() as logs:
        observed.store.apply(NODES, {"metadata": {**node(2)["metadata"], "labels": 7}})
    assert observed.versions() == {"n1": "1"}
    (entry,) = logs
    assert entry["object"] == "n1"
    assert entry["kind"] == "Node"
    assert "metadata.labels" in entry["error"]


def test_an_unreadable_policy_is_there_all_the_same(observed: Observed) -> None:
    """Whether it was known before or not: what it has must not look as if nobody wanted it."""
    for versions in ((1, 2), (4,)):
        for version in versions[:-1]:
            observed.store.apply(SHARING_POLICIES, of_policy(version, 3))
        with capture_logs() as logs:
            observed.store.apply(SHARING_POLICIES, of_policy(versions[-1], "three"))
        (policy,) = observed.store.all(SHARING_POLICIES)
        assert isinstance(policy, UnreadablePolicy)
        assert policy.metadata.resource_version == str(versions[-1])
        assert "spec.offers.timeSlicing.maxClients" in logs[0]["error"]
        # An older event that comes late makes it readable again as little as one of the same age.
        observed.store.apply(SHARING_POLICIES, of_policy(versions[-1] - 1, 3))
        assert list(observed.store.all(SHARING_POLICIES)) == [policy]
        observed.store.apply(SHARING_POLICIES, of_policy(versions[-1] + 1, 3))
        (policy,) = observed.store.all(SHARING_POLICIES)
        assert not isinstance(policy, UnreadablePolicy)
        observed.store.remove(SHARING_POLICIES, of_policy(9, "three"))
        assert observed.store.count(SHARING_POLICIES) == 0


def test_an_unreadable_object_can_be_deleted(observed: Observed) -> None:
    metadata = {"name": "thirds", "uid": "p", "resourceVersion": "1"}
    observed.store.apply(SHARING_POLICIES, {"metadata": metadata, "spec": {"offers": {"exclusive": {}}}})
    observed.store.remove(SHARING_POLICIES, {"metadata": metadata, "spec": 7})
    assert observed.store.count(SHARING_POLICIES) == 0


def test_a_list_shows_what_was_deleted_unseen_but_not_what_is_newer(observed: Observed) -> None:
    for name, version in (("stays", 1), ("deleted", 2)):
        observed.store.apply(NODES, node(version, name=name, uid=f"uid-{name}"))
    known = observed.store.known(NODES)
    observed.store.apply(NODES, node(11, name="new", uid="uid-new"))
    observed.store.remove_unlisted(NODES, {"uid-stays"}, as_of="10", before=known)
    assert set(observed.versions()) == {"stays", "new"}


def identity(name: str, version: int) -> Identity:
    return Identity(name=name, uid=f"uid-{name}", resource_version=str(version))


def test_a_list_shows_what_is_not_known_or_only_as_it_was(observed: Observed) -> None:
    for name, version in (("same", 9), ("older", 9), ("newer", 10)):
        observed.store.apply(NODES, node(version, name=name, uid=f"uid-{name}"))
    unknown, newer = identity("unknown", 1), identity("older", 10)
    listed = [identity("same", 9), newer, identity("newer", 9), unknown]
    assert observed.store.find_outdated(NODES, listed, before={}) == [newer, unknown]
    # Had it been known before the list was asked for, it would be of another history.
    before = observed.store.known(NODES)
    assert observed.store.find_outdated(NODES, listed, before=before) == [newer, identity("newer", 9), unknown]


def test_nothing_that_was_known_before_a_list_is_newer_than_it(observed: Observed) -> None:
    """Whatever its version says: where history went back, versions of before are high."""
    observed.store.apply(NODES, node(100, name="of another history", uid="uid-other"))
    observed.store.remove_unlisted(NODES, set(), as_of="10", before=observed.store.known(NODES))
    assert observed.versions() == {}


@pytest.mark.parametrize(("answer", "then"), [(node(7), {"n1": "7"}), (None, {})])
def test_what_a_get_has_found_counts_whatever_its_version(
    observed: Observed, answer: dict[str, Any] | None, then: dict[str, str]
) -> None:
    observed.store.apply(NODES, node(100))
    before = observed.store.known(NODES)
    observed.store.apply_answer(NODES, ("", "n1"), answer, before=before)
    assert observed.versions() == then
    # But for what came after it was asked.
    observed.store.apply(NODES, node(101))
    observed.store.apply_answer(NODES, ("", "n1"), answer, before=before)
    assert observed.versions() == {"n1": "101"}


def test_an_event_from_before_a_list_brings_nothing_back(observed: Observed) -> None:
    """It was under way while the list was made, which does not have the object any more."""
    observed.store.apply(NODES, node(3))
    before = observed.store.known(NODES)
    observed.store.remove_unlisted(NODES, set(), as_of="9", before=before)
    observed.store.mark_listed(NODES, as_of="9")
    observed.store.apply_event(NODES, "MODIFIED", node(5))
    assert observed.versions() == {}
    # Other kinds have other lists, and what came after the list is news.
    observed.store.apply_event(SHARING_POLICIES, "ADDED", {**node(5), "spec": {"offers": {"exclusive": {}}}})
    assert observed.store.count(SHARING_POLICIES) == 1
    observed.store.apply_event(NODES, "ADDED", node(10, uid="b"))
    assert observed.versions() == {"n1": "10"}
    # A list or an answer tells what there is, whatever its version.
    observed.store.apply(NODES, node(4, name="n2"))
    assert observed.versions() == {"n1": "10", "n2": "4"}


def test_of_a_claim_only_what_decisions_use_is_stored(observed: Observed) -> None:
    """Anybody may write a mebibyte into one, and there are many."""
    allocated = {
        "devices": {
            "results": [
                {"request": "gpu", "driver": driver, "pool": "n1", "device": "gpu-0"} for driver in (DRIVER, "other")
            ],
            "config": [{"source": "FromClaim", "opaque": {"driver": "other", "parameters": {"a": "x" * 2**20}}}],
        }
    }
    metadata = {"name": "c1", "namespace": "ns", "uid": "u", "resourceVersion": "1"}
    value = {"metadata": metadata, "spec": {}, "status": {"allocation": allocated, "devices": [{"driver": "other"}]}}
    observed.store.apply(RESOURCE_CLAIMS, value)
    claim = observed.store.get(RESOURCE_CLAIMS, "c1", "ns")
    assert claim is not None
    assert claim.status.allocation is not None
    assert [one.driver for one in claim.status.allocation.devices.results] == [DRIVER]
    assert claim.status.allocation.devices.config == ()
    assert claim.status.devices == ()
