"""What the guards are told, whole; and what they are not told."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from building import MINOR, policy, time_slicing
from building.guards import bound, installed, variables
from gpusharing.api.meta import LabelSelector, ObjectMeta
from gpusharing.api.sharing.classes import Classes, ExtendedResources
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.api.sharing.rollout import Rollout, RolloutMode
from gpusharing.api.sharing.tenants import Allowance, Tenants
from gpusharing.core.cluster import device_classes
from gpusharing.core.cluster.guards.upkeep import Bindings, Guards, Upkeep, upkeep
from gpusharing.core.intents import Patch, Stage, Target
from gpusharing.core.policies.policy import examine

TENANTS = Tenants(namespaces=LabelSelector(match_labels={"team": "search"}))
CREATED = Classes(extended_resources=ExtendedResources(time_slicing="example.com/gpu"))
SEARCH = policy("search", offers=time_slicing(exclusive=True), tenants=TENANTS, classes=CREATED)
LIMITED = policy("limited", tenants=Tenants(allow=Allowance(max_threads=50)), classes=Classes())
OPEN = policy("open", classes=Classes())

SEARCH_ENTRY = '"search": [["In", "team=search"]]'
LIMITED_ENTRY = '"limited": {"maxThreads": ["50"]}'


def kept(*policies: SharingPolicy, guards: Guards | None = None, bindings: Bindings | None = None) -> Upkeep:
    candidates = [examine(item, minor=MINOR) for item in policies]
    return upkeep(
        candidates,
        device_classes.plan(candidates, {}).classes,
        installed() if guards is None else guards,
        bound() if bindings is None else bindings,
    )


def told(decided: Upkeep) -> dict[str, dict[str, str]]:
    """Of the guards that are written: their generated variables."""
    found: dict[str, dict[str, str]] = {}
    for intent in decided.intents:
        assert isinstance(intent, Patch)
        listed: Sequence[Any] = intent.body["spec"]["variables"]
        generated = {"tenants", "limits", "classes", "resources"}
        found[intent.before.name] = {item["name"]: item["expression"] for item in listed if item["name"] in generated}
    return found


def after(decided: Upkeep, guards: Guards) -> Guards:
    patched = {
        intent.before.name: replace(
            guards[intent.before.name], spec=guards[intent.before.name].spec | intent.body["spec"]
        )
        for intent in decided.intents
        if isinstance(intent, Patch)
    }
    return {**guards, **patched}


def literal(*entries: str) -> str:
    return "{\n" + ",\n".join(entries) + "\n}"


def test_what_they_are_told() -> None:
    decided = kept(LIMITED, OPEN, SEARCH)
    known = {"tenants": literal(SEARCH_ENTRY), "limits": literal(LIMITED_ENTRY)}
    assert told(decided) == {
        "gpusharing-allocation": known,
        "gpusharing-claims": known
        | {
            "classes": literal(
                '"limited-timeslicing": "limited"', '"search-exclusive": "search"', '"search-timeslicing": "search"'
            ),
        },
        "gpusharing-pods": {
            "tenants": literal(SEARCH_ENTRY),
            "resources": literal(
                '"deviceclass.resource.kubernetes.io/search-exclusive": "search"',
                '"deviceclass.resource.kubernetes.io/search-timeslicing": "search"',
                '"example.com/gpu": "search"',
            ),
        },
    }
    assert decided.missing == ()
    assert decided.untold == {"limited", "search"}


def test_a_list_is_sent_whole_as_a_merge_replaces_it() -> None:
    guards = installed()
    before = guards["gpusharing-allocation"]
    (patch,) = (intent for intent in kept(SEARCH).intents if intent.before.name == "gpusharing-allocation")  # type: ignore[union-attr]
    texts = variables(before) | {"tenants": literal(SEARCH_ENTRY)}
    assert patch == Patch(
        target=Target.ADMISSION_POLICY,
        stage=Stage.GUARDS,
        before=before.metadata,
        body={"spec": {"variables": [{"name": name, "expression": text} for name, text in texts.items()]}},
    )


def test_what_they_know_they_are_not_told_again() -> None:
    guards = after(kept(LIMITED, SEARCH), installed())
    assert kept(LIMITED, SEARCH, guards=guards) == Upkeep(intents=(), missing=(), untold=frozenset())


def test_they_forget_who_is_gone_or_for_everybody_now() -> None:
    guards = after(kept(SEARCH), installed())
    for policies in ([], [policy("search", classes=CREATED)]):
        decided = kept(*policies, guards=guards)
        assert set(told(decided)) == {"gpusharing-allocation", "gpusharing-claims", "gpusharing-pods"}
        assert {text for texts in told(decided).values() for text in texts.values()} == {"{}"}
        assert decided.untold == frozenset()


OTHERS = Tenants(namespaces=LabelSelector(match_labels={"team": "ads"}))


@pytest.mark.parametrize(
    "suspended",
    [
        policy("search", tenants=OTHERS, classes=CREATED, accepted=False),
        policy("search", tenants=OTHERS, rollout=Rollout(paused=True)),
        # For everybody, if it were accepted.
        policy("search", rollout=Rollout(mode=RolloutMode.PLAN)),
    ],
)
def test_a_mistake_changes_nothing_of_what_they_know(suspended: SharingPolicy) -> None:
    guards = after(kept(SEARCH), installed())
    assert kept(suspended, guards=guards) == Upkeep(intents=(), missing=(), untold=frozenset())
    # Nor does it hold up others.
    decided = kept(LIMITED, suspended, guards=guards)
    assert told(decided)["gpusharing-claims"] == {
        "tenants": literal(SEARCH_ENTRY),
        "limits": literal(LIMITED_ENTRY),
        "classes": literal(
            '"limited-timeslicing": "limited"', '"search-exclusive": "search"', '"search-timeslicing": "search"'
        ),
    }
    # And one that was never in force is unknown.
    assert kept(suspended) == Upkeep(intents=(), missing=(), untold=frozenset())


@pytest.mark.parametrize("missing", ["gpusharing-allocation", "gpusharing-claims", "gpusharing-pods"])
def test_without_one_of_them_its_policies_are_untold_and_the_others_told(missing: str) -> None:
    guards = {name: guard for name, guard in installed().items() if name != missing}
    decided = kept(OPEN, SEARCH, guards=guards)
    assert set(told(decided)) == set(guards)
    assert decided.missing == (f"ValidatingAdmissionPolicy {missing}",)
    assert decided.untold == {"search"}


@pytest.mark.parametrize(
    "edit",
    [
        {"validations": []},
        {"failurePolicy": "Ignore"},
        {"variables": []},
        {"matchConstraints": {"matchPolicy": "Exact"}},
        {"matchConditions": [{"name": "never", "expression": "false"}]},
    ],
)
def test_one_that_is_not_as_it_was_installed_is_as_good_as_none(edit: dict[str, Any]) -> None:
    guards = installed()
    wall = guards["gpusharing-allocation"]
    edited = {**guards, "gpusharing-allocation": replace(wall, spec=wall.spec | edit)}
    decided = kept(SEARCH, guards=edited)
    assert decided.missing == ("ValidatingAdmissionPolicy gpusharing-allocation",)
    assert decided.untold == {"search"}
    # What can be told it is told all the same: what it knew before may let more in.
    assert ("gpusharing-allocation" in told(decided)) == ("variables" not in edit)


NEVER = {"matchLabels": {"nobody": "has this"}}


@pytest.mark.parametrize(
    "addition",
    [
        {"excludeResourceRules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]},
        {"namespaceSelector": NEVER},
        {"objectSelector": NEVER},
    ],
    ids=lambda addition: next(iter(addition)),
)
def test_one_that_was_made_to_hold_fewer_is_as_good_as_none(addition: dict[str, Any]) -> None:
    guards = installed()
    pods = guards["gpusharing-pods"]
    narrow = pods.spec | {"matchConstraints": pods.spec["matchConstraints"] | addition}
    decided = kept(SEARCH, guards={**guards, pods.metadata.name: replace(pods, spec=narrow)})
    assert decided.missing == ("ValidatingAdmissionPolicy gpusharing-pods",)


@pytest.mark.parametrize("missing", ["gpusharing-allocation", "gpusharing-claims", "gpusharing-pods"])
def test_one_that_nothing_binds_is_as_good_as_none(missing: str) -> None:
    decided = kept(OPEN, SEARCH, bindings={name: binding for name, binding in bound().items() if name != missing})
    assert decided.missing == (f"ValidatingAdmissionPolicyBinding {missing}",)
    assert decided.untold == {"search"}
    # It knows what to do when it is bound again.
    assert set(told(decided)) == set(installed())


@pytest.mark.parametrize(
    "edit",
    [
        {"validationActions": ["Audit"]},
        {"policyName": "another"},
        {"matchResources": {"namespaceSelector": NEVER}},
        {"paramRef": {"name": "p", "parameterNotFoundAction": "Allow"}},
    ],
    ids=lambda edit: next(iter(edit)),
)
def test_a_binding_that_is_not_as_it_was_installed_is_as_good_as_none(edit: dict[str, Any]) -> None:
    bindings = bound()
    binding = bindings["gpusharing-allocation"]
    decided = kept(SEARCH, bindings={**bindings, binding.metadata.name: replace(binding, spec=binding.spec | edit)})
    assert decided.missing == ("ValidatingAdmissionPolicyBinding gpusharing-allocation",)
    assert decided.untold == {"search"}


def test_what_the_api_server_adds_is_no_edit() -> None:
    guards = installed()
    wall = guards["gpusharing-allocation"]
    constraints = wall.spec["matchConstraints"]
    rules = [{**rule, "scope": "*"} for rule in constraints["resourceRules"]]
    added = {"matchConstraints": {**constraints, "resourceRules": rules, "namespaceSelector": {}, "objectSelector": {}}}
    assert kept(SEARCH, guards={**guards, wall.metadata.name: replace(wall, spec=wall.spec | added)}).missing == ()


def test_the_guard_of_namespaces_is_told_where_it_is_installed() -> None:
    decided = kept(SEARCH, guards=installed(with_namespaces=True))
    assert told(decided)["gpusharing-namespaces"] == {"tenants": literal(SEARCH_ENTRY)}
    assert isinstance(decided.intents[0].before, ObjectMeta)  # type: ignore[union-attr]
