"""The quotas that tenants' namespaces have, whole."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from building import MINOR, NOW, policy
from gpusharing.api.core import ResourceQuota
from gpusharing.api.dra import Namespace
from gpusharing.api.meta import LabelSelector, ObjectMeta
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.api.sharing.rollout import Rollout
from gpusharing.api.sharing.tenants import Quota, Tenants
from gpusharing.core.cluster.quotas import QuotaDecision, quotas
from gpusharing.core.intents import Create, Delete, Patch, Stage, Target
from gpusharing.core.policies.policy import examine
from gpusharing.core.reasons import Complaint, DegradedReason

TEAM = LabelSelector(match_labels={"team": "search"})
TENANTS = Tenants(namespaces=TEAM, quota=Quota(time_slicing=16, mps=0))
HARD = {
    "search-timeslicing.deviceclass.resource.k8s.io/devices": "16",
    "search-mps.deviceclass.resource.k8s.io/devices": "0",
}
OWNER = {"apiVersion": "gpusharing.dev/v1alpha1", "kind": "SharingPolicy", "name": "search", "uid": "uid-search"}
SEARCH = policy("search", tenants=TENANTS)


def namespace(name: str, team: str = "search", **metadata: Any) -> Namespace:
    return Namespace(metadata=ObjectMeta(name=name, labels={"team": team}, **metadata))


def quota(namespace: str, spec: dict[str, Any] | None = None, **metadata: Any) -> ResourceQuota:
    """As we have made it."""
    made: dict[str, Any] = {"labels": {"gpusharing.dev/policy": "search"}, "owner_references": (OWNER,)}
    return ResourceQuota(
        metadata=ObjectMeta(name="gpusharing-search", namespace=namespace, **(made | metadata)),
        spec={"hard": HARD} if spec is None else spec,
    )


def decided(
    *policies: SharingPolicy, namespaces: Sequence[Namespace] = (), existing: Sequence[ResourceQuota] = ()
) -> QuotaDecision:
    return quotas(
        [examine(item, minor=MINOR) for item in policies],
        {item.metadata.name: item for item in namespaces},
        {(item.metadata.namespace, item.metadata.name): item for item in existing},
    )


def test_each_namespace_of_a_tenant_has_one() -> None:
    assert decided(SEARCH, namespaces=[namespace("a"), namespace("b", "ads")]) == (
        [
            Create(
                target=Target.RESOURCE_QUOTA,
                stage=Stage.CLASSES,
                body={
                    "metadata": {
                        "name": "gpusharing-search",
                        "namespace": "a",
                        "labels": {"gpusharing.dev/policy": "search"},
                        "ownerReferences": [OWNER],
                    },
                    "spec": {"hard": HARD},
                },
            )
        ],
        {},
    )


def test_one_that_is_right_stays() -> None:
    assert decided(SEARCH, namespaces=[namespace("a")], existing=[quota("a")]) == ([], {})


@pytest.mark.parametrize(
    ("edited", "spec"),
    [
        (quota("a", {"hard": {"pods": "1"}}), {"hard": {"pods": None} | HARD}),
        (quota("a", {"hard": HARD | {"pods": "1"}}), {"hard": {"pods": None} | HARD}),
        (quota("a", {"hard": HARD, "scopes": ["BestEffort"]}), {"hard": HARD, "scopes": None}),
        (quota("a", labels={}), {"hard": HARD}),
    ],
)
def test_an_edited_one_is_put_right(edited: ResourceQuota, spec: dict[str, Any]) -> None:
    assert decided(SEARCH, namespaces=[namespace("a")], existing=[edited]) == (
        [
            Patch(
                target=Target.RESOURCE_QUOTA,
                stage=Stage.CLASSES,
                before=edited.metadata,
                body={"metadata": {"labels": {"gpusharing.dev/policy": "search"}}, "spec": spec},
            )
        ],
        {},
    )


@pytest.mark.parametrize(
    ("now", "namespaces"),
    [
        (SEARCH, [namespace("a", "ads")]),
        (policy("search", tenants=Tenants(namespaces=TEAM)), [namespace("a")]),
        (policy("search"), [namespace("a")]),
    ],
)
def test_it_goes_with_the_label_or_the_wish(now: SharingPolicy, namespaces: list[Namespace]) -> None:
    made = quota("a")
    assert decided(now, namespaces=namespaces, existing=[made]) == (
        [Delete(target=Target.RESOURCE_QUOTA, stage=Stage.CLASSES, before=made.metadata)],
        {},
    )


@pytest.mark.parametrize(
    "suspended",
    [
        policy("search", tenants=TENANTS, accepted=False),
        policy("search", tenants=TENANTS, rollout=Rollout(paused=True)),
    ],
)
def test_those_of_a_policy_that_is_not_in_force_as_it_is_stay_as_they_are(suspended: SharingPolicy) -> None:
    existing = [quota("a", {"hard": {}}), quota("b")]
    assert decided(suspended, namespaces=[namespace("a"), namespace("c")], existing=existing) == ([], {})


def test_one_that_is_not_ours_is_left_alone_and_reported() -> None:
    foreign = [quota(name, owner_references=()) for name in ("a", "b", "c", "d")]
    named = [namespace(item.metadata.namespace) for item in foreign]
    message = (
        "ResourceQuota gpusharing-search is there already and not of this policy: rename or delete it in a, b, c "
        "and 1 more"
    )
    assert decided(SEARCH, namespaces=named, existing=foreign) == (
        [],
        {"search": [Complaint(DegradedReason.QUOTA_NOT_OURS, message)]},
    )


def test_nothing_is_made_where_nothing_can_be_or_for_what_is_going() -> None:
    ending = namespace("a", deletion_timestamp=NOW)
    assert decided(SEARCH, namespaces=[ending]) == ([], {})
    going = SEARCH.model_copy(update={"metadata": replace(SEARCH.metadata, deletion_timestamp=NOW)})
    assert decided(going, namespaces=[namespace("b")]) == ([], {})
