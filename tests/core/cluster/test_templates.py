"""The templates of claims that tenants' namespaces have, whole."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import DRIVER, MINOR, NOW, policy, template_of
from gpusharing.api.dra import Namespace
from gpusharing.api.meta import Key, LabelSelector, NamespaceMeta, key_of
from gpusharing.api.names import Sharing, policy_class
from gpusharing.api.sharing.classes import Classes, TemplateVariant
from gpusharing.api.sharing.offers import ExclusiveOffer, MigOffer, MpsMemory, MpsOffer, MpsThreads, Offers
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.api.sharing.rollout import Rollout
from gpusharing.api.sharing.tenants import Tenants
from gpusharing.api.templates import ResourceClaimTemplate, template_digest
from gpusharing.core import quantities
from gpusharing.core.cluster.templates import TemplateDecider
from gpusharing.core.intents import Create, Delete, Intent, Patch, Stage, Target
from gpusharing.core.policies.policy import examine
from gpusharing.core.reasons import Complaint, DegradedReason
from gpusharing.kube.kinds import RESOURCE_CLAIM_TEMPLATES

TEAM = Tenants(namespaces=LabelSelector(match_labels={"team": "search"}))
MPS = MpsOffer(max_clients=4, memory=MpsMemory(default="8Gi"), threads=MpsThreads(default=25))
OFFERS = Offers(exclusive=ExclusiveOffer(), mps=MPS, mig=MigOffer(profiles=("1g.10gb",)))
OWNER = {"apiVersion": "gpusharing.dev/v1alpha1", "kind": "SharingPolicy", "name": "search", "uid": "uid-search"}
TWO = ("search-exclusive", "search-mps")


def made(*variants: TemplateVariant, name: str = "search", offers: Offers | None = None, **more: Any) -> SharingPolicy:
    classes = Classes(templates=True, template_variants=variants)
    return policy(
        name, tenants=TEAM, offers=offers or Offers(exclusive=ExclusiveOffer(), mps=MPS), classes=classes, **more
    )


def namespace(name: str = "a", team: str = "search", **metadata: Any) -> Namespace:
    return Namespace(metadata=NamespaceMeta(name=name, labels={"team": team}, **metadata))


def decided(
    *policies: SharingPolicy,
    namespaces: Sequence[Namespace] = (namespace(),),
    existing: Sequence[ResourceClaimTemplate] = (),
    classes: Sequence[str] | None = None,
    guards_pending: frozenset[str] = frozenset(),
) -> tuple[Sequence[Intent], Mapping[str, Sequence[Complaint]]]:
    all_classes = {policy_class(item.metadata.name, sharing) for item in policies for sharing in Sharing}
    found = TemplateDecider().decide(
        [examine(item, minor=MINOR) for item in policies],
        {item.metadata.name: item for item in namespaces},
        {key_of(item): item for item in existing},
        classes=all_classes if classes is None else set(classes),
        guards_pending=guards_pending,
        driver=DRIVER,
    )
    return found.intents, found.complaints


def specs(intents: Sequence[Intent]) -> dict[Key, Any]:
    """Of requests that are made, by namespace and name."""
    found: dict[Key, Any] = {}
    for intent in intents:
        assert isinstance(intent, Create)
        [request] = intent.body["spec"]["spec"]["devices"]["requests"]
        assert (intent.target, request["name"]) == (Target.RESOURCE_CLAIM_TEMPLATE, "gpu")
        found[intent.body["metadata"]["namespace"], intent.body["metadata"]["name"]] = request["exactly"]
    return found


def deleted(*templates: ResourceClaimTemplate) -> list[Intent]:
    return [
        Delete(target=Target.RESOURCE_CLAIM_TEMPLATE, stage=Stage.CLASSES, before=item.metadata) for item in templates
    ]


RIGHT = [template_of("search", suffix, namespace="a") for suffix in ("exclusive", "mps")]


def test_each_namespace_of_a_tenant_has_one_for_each_mode() -> None:
    intents, complaints = decided(made(), namespaces=[namespace("a"), namespace("b", "ads"), namespace("c")])
    assert complaints == {}
    assert specs(intents).keys() == {(at, name) for at in ("a", "c") for name in TWO}
    assert intents[1] == Create(
        target=Target.RESOURCE_CLAIM_TEMPLATE,
        stage=Stage.CLASSES,
        body={
            "metadata": {
                "name": "search-mps",
                "namespace": "a",
                "labels": {"gpusharing.dev/policy": "search"},
                "ownerReferences": [OWNER],
            },
            "spec": {
                "spec": {
                    "devices": {
                        "requests": [
                            {
                                "name": "gpu",
                                "exactly": {
                                    "deviceClassName": "search-mps",
                                    "allocationMode": "ExactCount",
                                    "count": 1,
                                },
                            }
                        ]
                    }
                }
            },
        },
    )


@pytest.mark.parametrize(
    ("variant", "asks"),
    [
        (TemplateVariant(name="v", mode=Sharing.EXCLUSIVE), {}),
        (TemplateVariant(name="v", mode=Sharing.MPS, memory="16Gi"), {"memory": "16Gi"}),
        (TemplateVariant(name="v", mode=Sharing.MPS, memory="2048Mi", threads=50), {"memory": "2Gi", "threads": "50"}),
        (TemplateVariant(name="v", mode=Sharing.MPS, shares=2), {"shares": "2"}),
    ],
)
def test_a_variant_asks_for_its_amounts(variant: TemplateVariant, asks: dict[str, str]) -> None:
    intents, _ = decided(made(variant))
    asking = {"capacity": {"requests": asks}} if asks else {}
    class_ = policy_class("search", variant.mode)
    assert specs(intents)["a", "search-v"] == {
        "deviceClassName": class_, "allocationMode": "ExactCount", "count": 1, **asking
    }  # fmt: skip


def test_a_variant_asks_for_its_profile() -> None:
    intents, _ = decided(made(TemplateVariant(name="small", mode=Sharing.MIG, profile="1g.10gb"), offers=OFFERS))
    assert specs(intents)["a", "search-small"]["selectors"] == [
        {"cel": {"expression": 'device.attributes["gpu.nvidia.com"].?profile.orValue("") == "1g.10gb"'}}
    ]


@given(st.integers(1, 999_999), st.sampled_from(["Mi", "Gi", "Ti"]))
def test_amounts_are_written_as_the_api_server_keeps_them(number: int, unit: str) -> None:
    canonical = quantities.canonical(f"{number}{unit}")
    assert quantities.are_equal(canonical, f"{number}{unit}")
    assert int(canonical[:-2]) % 1024


def test_those_that_are_right_stay() -> None:
    assert decided(made(), existing=RIGHT) == ([], {})


def test_what_kubernetes_adds_does_not_count() -> None:
    """Neither its defaults, which we write, nor what a later version may have."""
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "c", "newField": {"a": 1}}, "another": []}]
    assert template_digest({"metadata": {}, "spec": {"devices": {"requests": requests, "third": None}}}) == (
        template_digest(
            {
                "spec": {
                    "devices": {
                        "requests": [
                            {
                                "name": "gpu",
                                "exactly": {"deviceClassName": "c", "allocationMode": "ExactCount", "count": 1},
                            }
                        ]
                    }
                }
            }
        )
    )


def spec(exactly: Mapping[str, Any] = {}, devices: Mapping[str, Any] = {}, **more: Any) -> dict[str, Any]:
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "search-mps", **exactly}}]
    return {"spec": {"devices": {"requests": requests, **devices}}, **more}


OPAQUE = [{"opaque": {"driver": DRIVER, "parameters": {}}}]


@pytest.mark.parametrize(
    "other",
    [
        {},
        spec({"deviceClassName": "gpu.nvidia.com"}),
        spec({"count": 2}),
        spec({"allocationMode": "All"}),
        spec({"adminAccess": True}),
        spec({"selectors": [{"cel": {"expression": "true"}}]}),
        spec({"capacity": {"requests": {"memory": "80Gi"}}}),
        spec({"tolerations": [{"operator": "Exists"}]}),
        spec(devices={"config": OPAQUE}),
        spec(devices={"constraints": [{"matchAttribute": "a/b"}]}),
        spec(devices={"requests": []}),
        spec(devices={"requests": [{"name": "gpu", "firstAvailable": [{"deviceClassName": "search-mps"}]}]}),
        spec(metadata={"labels": {"a": "b"}}),
    ],
)
def test_one_that_says_something_else_is_made_again(other: dict[str, Any]) -> None:
    assert template_digest(spec()) == RIGHT[1].spec
    edited = template_of("search", "mps", namespace="a", spec=other)
    assert decided(made(), existing=[RIGHT[0], edited]) == (deleted(edited), {})


def test_the_label_of_one_that_is_ours_is_put_back() -> None:
    edited = template_of("search", "mps", namespace="a", labelled=False)
    body = {"metadata": {"labels": {"gpusharing.dev/policy": "search"}}}
    patch = Patch(target=Target.RESOURCE_CLAIM_TEMPLATE, stage=Stage.CLASSES, before=edited.metadata, body=body)
    assert decided(made(), existing=[RIGHT[0], edited]) == ([patch], {})


def test_one_with_the_label_alone_may_be_anybodys() -> None:
    intents, complaints = decided(made(), existing=[RIGHT[0], template_of("search", "mps", namespace="a", owned=False)])
    assert (intents, list(complaints)) == ([], ["search"])


@pytest.mark.parametrize(
    ("now", "at"),
    [
        (made(), namespace(team="ads")),
        (policy("search", tenants=TEAM, offers=OFFERS, classes=Classes()), namespace()),
        (policy("search", tenants=TEAM, offers=OFFERS, classes=Classes(create=False)), namespace()),
    ],
)
def test_they_go_with_the_label_and_the_wish(now: SharingPolicy, at: Namespace) -> None:
    assert decided(now, namespaces=[at], existing=RIGHT) == (deleted(*RIGHT), {})


def test_one_goes_with_its_mode_and_its_variant() -> None:
    gone = [template_of("search", "exclusive", namespace="a"), template_of("search", "large", namespace="a")]
    assert decided(made(offers=Offers(mps=MPS)), existing=[*gone, RIGHT[1]]) == (deleted(*gone), {})


def test_many_that_somebody_has_made_with_our_marks_fill_no_queue() -> None:
    forged = [template_of("search", f"forged-{number}", namespace="a") for number in range(1000)]
    intents, _ = decided(made(), existing=[*RIGHT, *forged])
    assert 0 < len(intents) <= 32


def test_one_is_made_with_its_class_and_after_the_guards() -> None:
    assert specs(decided(made(), classes=["search-mps"])[0]).keys() == {("a", "search-mps")}
    assert decided(made(), guards_pending=frozenset({"search"})) == ([], {})
    # What is there stays meanwhile, and what is wrong is taken away.
    wrong = template_of("search", "mps", namespace="a", spec={})
    assert decided(made(), existing=[RIGHT[0], wrong], guards_pending=frozenset({"search"})) == (deleted(wrong), {})


@pytest.mark.parametrize("suspended", [made(accepted=False), made(rollout=Rollout(paused=True))])
def test_those_of_a_policy_that_is_not_in_force_as_it_is_stay_as_they_are(suspended: SharingPolicy) -> None:
    existing = [template_of("search", "gone", namespace="a")]
    assert decided(suspended, namespaces=[namespace(), namespace("b")], existing=existing) == ([], {})


def test_one_that_is_not_ours_is_left_alone_and_reported() -> None:
    foreign = [template_of("search", "mps", namespace=at, labelled=False, owned=False) for at in ("a", "b")]
    others = [template_of("search", "exclusive", namespace=at) for at in ("a", "b")]
    message = "ResourceClaimTemplate search-mps exists and was not made for this policy: delete or rename it in a, b"
    assert decided(made(), namespaces=[namespace("a"), namespace("b")], existing=[*foreign, *others]) == (
        [],
        {"search": [Complaint(DegradedReason.RESOURCE_CLAIM_TEMPLATE_EXISTS, message)]},
    )


def test_of_two_policies_that_want_a_name_the_one_of_higher_rank_gets_it() -> None:
    """A variant of one may be called as a mode of the other."""
    first = made(TemplateVariant(name="x-mps", mode=Sharing.MPS), name="a", priority=1)
    second = made(name="a-x", offers=Offers(mps=MPS))
    intents, complaints = decided(first, second)
    assert specs(intents).keys() == {("a", "a-exclusive"), ("a", "a-mps"), ("a", "a-x-mps")}
    assert specs(intents)["a", "a-x-mps"]["deviceClassName"] == "a-mps"
    assert complaints.keys() == {"a-x"}


def test_nothing_is_made_where_nothing_can_be_or_nobody_knows_whose_it_is() -> None:
    assert decided(made(), namespaces=[namespace(deletion_timestamp=NOW)]) == ([], {})
    unknown = Namespace(metadata=NamespaceMeta(name="a", labels=None))
    assert decided(made(), namespaces=[unknown], existing=[RIGHT[0]]) == ([], {})


def test_only_what_decides_is_kept() -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}
    labels = {f"label-{number}": "x" * 60 for number in range(1000)} | {"gpusharing.dev/policy": "search"}
    config = [{"opaque": {"driver": "d", "parameters": {"a": "x" * 100_000}}}]
    written = {"metadata": {"name": "n", "namespace": "a", "labels": labels, "ownerReferences": [owner] * 1000}}
    large = RESOURCE_CLAIM_TEMPLATES.from_json(written | {"spec": {"spec": {"devices": {"config": config}}}})
    assert len(repr(large)) < 500
