"""What the guards are told, whole; and what they are not told."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import MINOR, policy, time_slicing
from building.guards import bound, installed, variables
from gpusharing.api.meta import LabelSelector, ObjectMeta
from gpusharing.api.sharing.classes import Classes, ExtendedResources
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.api.sharing.rollout import Rollout, RolloutMode
from gpusharing.api.sharing.tenants import Allowance, Tenants
from gpusharing.core.cluster import device_classes
from gpusharing.core.cluster.decided import ClusterDecision
from gpusharing.core.cluster.guards import literals
from gpusharing.core.cluster.guards.closing import CLOSING
from gpusharing.core.cluster.guards.form import GENERATED
from gpusharing.core.cluster.guards.upkeep import (
    MOST_OF_ONE_POLICY,
    MOST_TOGETHER,
    REQUIRED,
    Bindings,
    Guards,
    entries_of,
    update_guards,
)
from gpusharing.core.intents import Patch, Stage, Target
from gpusharing.core.policies.policy import examine
from gpusharing.core.reasons import DegradedReason
from gpusharing.core.state.seen_entries import SeenEntries

TENANTS = Tenants(namespaces=LabelSelector(match_labels={"team": "search"}))
CREATED = Classes(extended_resources=ExtendedResources(time_slicing="example.com/gpu"))
SEARCH = policy("search", offers=time_slicing(exclusive=True), tenants=TENANTS, classes=CREATED)
LIMITED = policy("limited", tenants=Tenants(allow=Allowance(max_threads=50)), classes=Classes())
OPEN = policy("open", classes=Classes())

SEARCH_ENTRY = '"search": [["In", "team=search"]]'
LIMITED_ENTRY = '"limited": {"maxThreads": ["50"]}'


def kept(
    *policies: SharingPolicy,
    guards: Guards | None = None,
    bindings: Bindings | None = None,
    seen: SeenEntries | None = None,
) -> ClusterDecision:
    """`seen`: all that they know, if nothing is said."""
    examined = [examine(item, minor=MINOR) for item in policies]
    return update_guards(
        examined,
        device_classes.plan_classes(examined, {}).classes,
        installed() if guards is None else guards,
        bound() if bindings is None else bindings,
        entries_seen(installed() if guards is None else guards) if seen is None else seen,
    )


def entries_seen(guards: Guards) -> SeenEntries:
    return {name: entries_of(guard) for name, guard in guards.items() if name in REQUIRED}


def told(decided: ClusterDecision) -> dict[str, dict[str, str]]:
    """Of the guards that are written: their generated variables."""
    found: dict[str, dict[str, str]] = {}
    for intent in decided.intents:
        assert isinstance(intent, Patch)
        listed: Sequence[Any] = intent.body["spec"]["variables"]
        generated = {"tenants", "limits", "classes", "resources"}
        found[intent.before.name] = {item["name"]: item["expression"] for item in listed if item["name"] in generated}
    return found


def missing_of(decided: ClusterDecision) -> str:
    """Of the guards, as the policy with tenants says it."""
    [complaint] = decided.complaints["search"]
    assert complaint.reason is DegradedReason.GUARD_MISSING
    return complaint.message.partition(": missing")[0]


def after(decided: ClusterDecision, guards: Guards) -> Guards:
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
    classes = literal(
        '"limited-timeslicing": "limited"', '"search-exclusive": "search"', '"search-timeslicing": "search"'
    )
    assert told(decided) == {
        "gpusharing-allocation": known,
        "gpusharing-claims": known | {"classes": classes},
        "gpusharing-pods": {
            "tenants": literal(SEARCH_ENTRY),
            "classes": classes,
            "resources": literal('"example.com/gpu": "search"'),
        },
    }
    assert decided.complaints == {}
    assert decided.guards_pending == {"limited", "search"}


def test_a_list_is_sent_whole_as_a_merge_replaces_it() -> None:
    guards = installed()
    before = guards["gpusharing-allocation"]
    (patch,) = (intent for intent in kept(SEARCH).intents if intent.before.name == "gpusharing-allocation")  # type: ignore[union-attr]
    texts = variables(before) | {"tenants": literal(SEARCH_ENTRY), "revision": "'3'"}
    assert patch == Patch(
        target=Target.ADMISSION_POLICY,
        stage=Stage.GUARDS,
        before=before.metadata,
        body={"spec": {"variables": [{"name": name, "expression": text} for name, text in texts.items()]}},
    )


def test_what_they_know_they_are_not_told_again() -> None:
    guards = after(kept(LIMITED, SEARCH), installed())
    assert kept(LIMITED, SEARCH, guards=guards) == ClusterDecision()


def test_they_forget_who_is_gone_or_for_everybody_now() -> None:
    guards = after(kept(SEARCH), installed())
    for policies in ([], [policy("search", classes=CREATED)]):
        decided = kept(*policies, guards=guards)
        assert set(told(decided)) == {"gpusharing-allocation", "gpusharing-claims", "gpusharing-pods"}
        assert {text for texts in told(decided).values() for text in texts.values()} == {"{}"}
        assert decided.guards_pending == frozenset()


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
    assert kept(suspended, guards=guards) == ClusterDecision()
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
    assert kept(suspended) == ClusterDecision()


@pytest.mark.parametrize("missing", ["gpusharing-allocation", "gpusharing-claims", "gpusharing-pods"])
def test_without_one_of_them_its_policies_are_pending_and_the_others_told(missing: str) -> None:
    guards = {name: guard for name, guard in installed().items() if name != missing}
    decided = kept(OPEN, SEARCH, guards=guards)
    assert set(told(decided)) == set(guards) - {CLOSING}
    assert missing_of(decided) == f"ValidatingAdmissionPolicy {missing}"
    assert decided.guards_pending == {"search"}


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
    assert missing_of(decided) == "ValidatingAdmissionPolicy gpusharing-allocation"
    assert decided.guards_pending == {"search"}
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
    assert missing_of(decided) == "ValidatingAdmissionPolicy gpusharing-pods"


@pytest.mark.parametrize("missing", ["gpusharing-allocation", "gpusharing-claims", "gpusharing-pods"])
def test_one_that_nothing_binds_is_as_good_as_none(missing: str) -> None:
    decided = kept(OPEN, SEARCH, bindings={name: binding for name, binding in bound().items() if name != missing})
    assert missing_of(decided) == f"ValidatingAdmissionPolicyBinding {missing}"
    assert decided.guards_pending == {"search"}
    # It knows what to do when it is bound again.
    assert set(told(decided)) == set(installed()) - {CLOSING}


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
    assert missing_of(decided) == "ValidatingAdmissionPolicyBinding gpusharing-allocation"
    assert decided.guards_pending == {"search"}


def test_what_the_api_server_adds_is_no_edit() -> None:
    guards = installed()
    wall = guards["gpusharing-allocation"]
    constraints = wall.spec["matchConstraints"]
    rules = [{**rule, "scope": "*"} for rule in constraints["resourceRules"]]
    added = {"matchConstraints": {**constraints, "resourceRules": rules, "namespaceSelector": {}, "objectSelector": {}}}
    assert kept(SEARCH, guards={**guards, wall.metadata.name: replace(wall, spec=wall.spec | added)}).complaints == {}


def test_the_guard_of_namespaces_is_told_where_it_is_installed() -> None:
    decided = kept(SEARCH, guards=installed(with_namespaces=True))
    assert told(decided)["gpusharing-namespaces"] == {"tenants": literal(SEARCH_ENTRY)}
    assert isinstance(decided.intents[0].before, ObjectMeta)  # type: ignore[union-attr]


def large(name: str, characters: int, **more: Any) -> SharingPolicy:
    """Its entry among the tenants takes so many characters."""
    entry = literals.size({name: literals.of([["In", "team="]])})
    # One label as long as this stands for many that the API takes.
    selector = LabelSelector.model_construct(match_labels={"team": "x" * (characters - entry)}, match_expressions=())
    tenants = Tenants(namespaces=selector)
    return policy(name, tenants=tenants, classes=CREATED, **more)


def known(guards: Guards, guard: str, variable: str) -> set[str]:
    return set(literals.read(variables(guards[f"gpusharing-{guard}"])[variable]))


def full(decided: ClusterDecision) -> dict[str, str]:
    return {
        name: item.message
        for name, items in decided.complaints.items()
        for item in items
        if item.reason is DegradedReason.GUARDS_FULL
    }


def test_one_that_is_too_large_is_left_out_of_all_guards_and_mutes_nobody() -> None:
    everywhere = installed(with_namespaces=True)
    at_most, giant = large("a", MOST_OF_ONE_POLICY), large("giant", MOST_OF_ONE_POLICY + 1, priority=9)
    decided = kept(giant, at_most, SEARCH, guards=everywhere)
    guards = after(decided, everywhere)
    for guard in ("allocation", "claims", "pods", "namespaces"):
        assert known(guards, guard, "tenants") == {"a", "search"}
    for guard, variable in (("claims", "classes"), ("pods", "classes"), ("pods", "resources")):
        assert "giant" not in variables(guards[f"gpusharing-{guard}"])[variable]
    assert full(decided) == {
        "giant": "spec.tenants takes 4,097 characters in the admission policies, but one policy may take 4,096: its "
        "reserved GPUs are not allocated to new claims. Use fewer or shorter requirements in spec.tenants.namespaces"
    }
    again = kept(giant, at_most, SEARCH, guards=guards)
    assert again == ClusterDecision(guards_pending=frozenset({"giant"}), complaints=decided.complaints)


def test_what_was_known_of_one_that_has_become_too_large_is_taken_back() -> None:
    guards = after(kept(SEARCH, LIMITED), installed())
    guards = after(kept(large("search", MOST_OF_ONE_POLICY + 1), LIMITED, guards=guards), guards)
    assert known(guards, "allocation", "tenants") == set()
    assert known(guards, "claims", "classes") == {"limited-timeslicing"}
    assert known(guards, "pods", "resources") == set()


def test_the_room_is_given_by_rank() -> None:
    fitting = MOST_TOGETHER // MOST_OF_ONE_POLICY
    crowd = [large(f"p{number:02}", MOST_OF_ONE_POLICY) for number in range(fitting + 2)]
    first = large("z-first", MOST_OF_ONE_POLICY, priority=1)
    decided = kept(*crowd, first, SEARCH)
    guards = after(decided, installed())
    names = [f"p{number:02}" for number in range(fitting - 1)]
    # What is smaller may still have room.
    assert known(guards, "allocation", "tenants") == {"z-first", "search", *names}
    assert full(decided) == dict.fromkeys(
        [f"p{number:02}" for number in range(fitting - 1, fitting + 2)],
        "spec.tenants takes 4,096 characters in the admission policies, but policies of higher rank leave fewer of "
        "90,000: its reserved GPUs are not allocated to new claims. Delete or shorten policies with tenants, "
        "or raise spec.priority",
    )
    # One that is taken back makes room at once, in the same write.
    decided = kept(*crowd[1:], first, SEARCH, guards=guards)
    assert known(after(decided, guards), "allocation", "tenants") == {"z-first", "search", *names[1:], "p20"}


def test_what_is_known_of_suspended_policies_takes_room_first() -> None:
    crowd = [large(f"p{number:02}", MOST_OF_ONE_POLICY) for number in range(MOST_TOGETHER // MOST_OF_ONE_POLICY)]
    guards = after(kept(*crowd), installed())
    paused = [
        item.model_copy(update={"spec": item.spec.model_copy(update={"rollout": Rollout(paused=True)})})
        for item in crowd
    ]
    decided = kept(large("a", MOST_OF_ONE_POLICY, priority=9), *paused, guards=guards)
    assert set(full(decided)) == {"a"}
    assert decided.intents == ()


sizes = st.integers(60, 6_000)
crowds = st.lists(
    st.builds(
        lambda number, size, priority, paused: large(
            f"p{number:02}", size, priority=priority, rollout=Rollout(paused=paused)
        ),
        st.integers(0, 40),
        sizes,
        st.integers(0, 2),
        st.booleans(),
    ),
    max_size=40,
    unique_by=lambda item: item.metadata.name,
)


@given(st.lists(crowds, min_size=1, max_size=3))
def test_whatever_comes_a_policy_is_known_to_all_guards_or_to_none(history: list[list[SharingPolicy]]) -> None:
    guards = installed(with_namespaces=True)
    for policies in history:
        decided = kept(*policies, guards=guards)
        guards = after(decided, guards)
        for guard in guards.values():
            assert all(
                len(variables(guard)[name]) < MOST_TOGETHER + 10 for name in variables(guard) if name in GENERATED
            )
        expected = known(guards, "allocation", "tenants")
        assert {expected == known(guards, guard, "tenants") for guard in ("claims", "pods", "namespaces")} == {True}
        guarded = {item.metadata.name for item in policies if not item.spec.rollout.paused}
        assert guarded - expected == set(full(decided))
        assert kept(*policies, guards=guards).guards_pending == set(full(decided))


def test_a_policy_waits_until_all_that_the_guards_know_of_it_was_seen() -> None:
    written = after(kept(SEARCH, LIMITED, OPEN), installed())
    seen = entries_seen(written)
    assert kept(SEARCH, LIMITED, OPEN, guards=written, seen=seen).guards_pending == frozenset()
    assert kept(SEARCH, LIMITED, OPEN, guards=written, seen={}).guards_pending == {"search", "limited"}
    for name, entries in seen.items():
        for entry in entries:
            unseen = {**seen, name: entries - {entry}}
            whose = {"search", "limited", "open"} & {entry.key, entry.literal.strip('"')}
            # Nobody waits for those of others; and what a policy without tenants has there reserves nothing.
            assert kept(SEARCH, LIMITED, OPEN, guards=written, seen=unseen).guards_pending == whose - {"open"}


def test_a_guard_that_nobody_has_numbered_is_written_again() -> None:
    """Its entries are right: they have been kept while it was installed anew."""
    written = after(kept(SEARCH), installed())
    texts = variables(written["gpusharing-claims"]) | {"revision": "''"}
    listed = [{"name": name, "expression": text} for name, text in texts.items()]
    claims = written["gpusharing-claims"]
    unnumbered = {**written, "gpusharing-claims": replace(claims, spec=claims.spec | {"variables": listed})}
    [patch] = kept(SEARCH, guards=unnumbered).intents
    assert isinstance(patch, Patch)
    assert {"name": "revision", "expression": "'3'"} in patch.body["spec"]["variables"]
