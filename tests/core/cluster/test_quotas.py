"""The quotas that tenants' namespaces have, whole."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import MINOR, NOW, policy
from building.quantities import STORED, stored
from gpusharing.api.core import ResourceQuota
from gpusharing.api.dra import Namespace
from gpusharing.api.meta import LabelSelector, NamespaceMeta, OwnedMeta
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.api.sharing.rollout import Rollout
from gpusharing.api.sharing.tenants import Quota, Tenants
from gpusharing.core.cluster.in_namespaces import NamespaceDecider
from gpusharing.core.cluster.quotas import QuotaDecider
from gpusharing.core.intents import Create, Delete, Intent, Patch, Stage, Target
from gpusharing.core.policies.policy import examine
from gpusharing.core.reasons import Complaint, DegradedReason
from gpusharing.kube.kinds import NAMESPACES

TEAM = LabelSelector(match_labels={"team": "search"})
TENANTS = Tenants(namespaces=TEAM, quota=Quota(time_slicing=16, mps=0))
HARD = {
    "search-timeslicing.deviceclass.resource.k8s.io/devices": "16",
    "search-mps.deviceclass.resource.k8s.io/devices": "0",
}
OWNER = {"apiVersion": "gpusharing.dev/v1alpha1", "kind": "SharingPolicy", "name": "search", "uid": "uid-search"}
SEARCH = policy("search", tenants=TENANTS)


def namespace(name: str, team: str = "search", **metadata: Any) -> Namespace:
    return Namespace(metadata=NamespaceMeta(name=name, labels={"team": team}, **metadata))


def quota(namespace: str, spec: dict[str, Any] | None = None, **metadata: Any) -> ResourceQuota:
    """As we have made it."""
    made: dict[str, Any] = {"labels": {"gpusharing.dev/policy": "search"}, "owner_references": (OWNER,)}
    return ResourceQuota(
        metadata=OwnedMeta(name="gpusharing-search", namespace=namespace, **(made | metadata)),
        spec={"hard": HARD} if spec is None else spec,
    )


def decided(
    *policies: SharingPolicy, namespaces: Sequence[Namespace] = (), existing: Sequence[ResourceQuota] = ()
) -> tuple[Sequence[Intent], Mapping[str, Sequence[Complaint]]]:
    found = QuotaDecider().decide(
        [examine(item, minor=MINOR) for item in policies],
        {item.metadata.name: item for item in namespaces},
        {(item.metadata.namespace, item.metadata.name): item for item in existing},
    )
    return found.intents, found.complaints


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


amounts = st.sampled_from([amount for amount in STORED if amount <= 1_000_000]) | st.integers(0, 1_000_000)


@pytest.mark.parametrize("amount", STORED)
def test_the_model_of_the_api_server_writes_as_it_does(amount: int) -> None:
    assert stored(amount) == STORED[amount]


@given(amounts, amounts)
def test_one_is_right_if_it_has_the_amount_however_the_api_server_writes_it(wanted: int, there: int) -> None:
    limited = policy("search", tenants=Tenants(namespaces=TEAM, quota=Quota(mps=wanted)))
    existing = quota("a", {"hard": {"search-mps.deviceclass.resource.k8s.io/devices": stored(there)}})
    intents, _ = decided(limited, namespaces=[namespace("a")], existing=[existing])
    assert bool(intents) == (wanted != there)


@pytest.mark.parametrize("nonsense", [None, [], "many", "", 16, "1" * 100])
def test_what_is_no_quantity_is_put_right(nonsense: Any) -> None:
    limited = policy("search", tenants=Tenants(namespaces=TEAM, quota=Quota(mps=1)))
    existing = quota("a", {"hard": {"search-mps.deviceclass.resource.k8s.io/devices": nonsense}})
    intents, _ = decided(limited, namespaces=[namespace("a")], existing=[existing])
    assert len(intents) == 1


def test_only_the_namespace_that_changes_is_decided_on_again(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def noted(self: Any, things: Any) -> Any:
        seen.append(things.namespace.metadata.name)
        return in_namespace(self, things)

    in_namespace = NamespaceDecider._in_namespace
    monkeypatch.setattr(NamespaceDecider, "_in_namespace", noted)
    decider, policies = QuotaDecider(), [examine(SEARCH, minor=MINOR)]
    namespaces = {name: namespace(name) for name in ("a", "b", "c")}
    existing = {(name, "gpusharing-search"): quota(name) for name in namespaces}
    steps: list[tuple[list[str], Callable[[], object]]] = [
        (["a", "b", "c"], lambda: None),
        ([], lambda: None),
        (["b"], lambda: namespaces.update(b=namespace("b", "ads"))),
        (["c"], lambda: existing.pop(("c", "gpusharing-search"))),
        (["a", "b", "c"], lambda: policies.append(examine(policy("other"), minor=MINOR))),
    ]
    for decided_on, change in steps:
        change()
        seen.clear()
        found = decider.decide(policies, namespaces, existing)
        assert seen == decided_on
        assert found == QuotaDecider().decide(policies, namespaces, existing)


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


def test_nobody_knows_whose_tenant_a_namespace_with_too_many_labels_is() -> None:
    """It gets no quota, and none is taken from it."""
    labels = {"team": "search"} | {f"label-{number}": "" for number in range(256)}
    unknown = NAMESPACES.from_json({"metadata": {"name": "a", "labels": labels}})
    assert unknown.metadata.labels is None
    assert decided(SEARCH, namespaces=[unknown], existing=[]) == ([], {})
    assert decided(SEARCH, namespaces=[unknown], existing=[quota("a")]) == ([], {})


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
        "ResourceQuota gpusharing-search exists and was not made for this policy: delete or rename it in a, b, c "
        "and 1 more"
    )
    assert decided(SEARCH, namespaces=named, existing=foreign) == (
        [],
        {"search": [Complaint(DegradedReason.RESOURCE_QUOTA_EXISTS, message)]},
    )


def test_nothing_is_made_where_nothing_can_be() -> None:
    ending = namespace("a", deletion_timestamp=NOW)
    assert decided(SEARCH, namespaces=[ending]) == ([], {})
