"""Classes, guards and quotas together: in which order they come, and what a policy says of what is in the way."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from building import LATER, NOW, node_sharing, policy, world
from building.cluster import agents_act, apply
from building.from_nothing import World, decide
from building.guards import bound, installed
from building.incremental import Incremental
from core.cluster.test_device_classes import device_class
from gpusharing.api.dra import Namespace
from gpusharing.api.meta import ConditionStatus, LabelSelector, NamespaceMeta
from gpusharing.api.sharing.classes import Classes
from gpusharing.api.sharing.policy_status import SharingPolicyStatus
from gpusharing.api.sharing.tenants import Quota, Tenants
from gpusharing.core.intents import Create, PatchStatus, Target

SEARCH = policy(
    "search",
    tenants=Tenants(namespaces=LabelSelector(match_labels={"team": "search"}), quota=Quota(time_slicing=4)),
    classes=Classes(),
)
TENANT = Namespace(metadata=NamespaceMeta(name="search", labels={"team": "search"}))


def at_first(*, guards: bool = True) -> World:
    found = world(policies=[SEARCH, policy("open", classes=Classes())], node_sharings=[node_sharing("n1", gpus=1)])
    return replace(
        found, namespaces={"search": TENANT}, guards=installed() if guards else {}, bindings=bound() if guards else {}
    )


def conditions(status: SharingPolicyStatus) -> Mapping[str, tuple[ConditionStatus, str]]:
    return {condition.type: (condition.status, condition.reason) for condition in status.conditions}


def test_nobody_is_let_in_before_the_guards_know() -> None:
    first = decide(at_first(), now=NOW)
    made = {intent.body["metadata"]["name"] for intent in first if isinstance(intent, Create)}
    # The open policy waits for nobody.
    assert made == {"open-timeslicing", "gpusharing-search"}
    status = next(
        intent.status for intent in first if isinstance(intent, PatchStatus) and intent.before.metadata.name == "search"
    )
    assert status.nodes is not None
    second = decide(apply(at_first(), first), now=NOW)
    made = {intent.body["metadata"]["name"] for intent in second if isinstance(intent, Create)}
    assert made == {"search-timeslicing"}


def test_the_guards_are_written_first_of_all() -> None:
    intents = decide(at_first(), now=NOW)
    guards = [intent.stage for intent in intents if getattr(intent, "target", None) is Target.ADMISSION_POLICY]
    assert len(guards) == 3
    assert set(guards) == {min(intent.stage for intent in intents)}


def settled(at: World) -> World:
    for _ in range(4):
        at = agents_act(apply(at, decide(at, now=NOW)))
    assert decide(at, now=LATER) == []
    return at


def test_a_policy_is_ready_when_the_guards_know_it() -> None:
    at = settled(at_first())
    assert conditions(at.policies["search"].status)["Ready"] == (ConditionStatus.FALSE, "LostAllGpus")
    alone = settled(replace(at_first(), policies={"search": SEARCH}))
    assert conditions(alone.policies["search"].status) == {
        "Accepted": (ConditionStatus.TRUE, "Accepted"),
        "Ready": (ConditionStatus.TRUE, "Ready"),
        "Progressing": (ConditionStatus.FALSE, "Complete"),
        "Conflicted": (ConditionStatus.FALSE, "NoConflict"),
        "Degraded": (ConditionStatus.FALSE, "NotDegraded"),
    }
    guards = replace(alone, guards=installed())
    forgotten = apply(guards, decide(guards, now=LATER)).policies["search"].status
    assert conditions(forgotten)["Ready"] == (ConditionStatus.FALSE, "WaitingForGuards")


def test_without_guards_a_policy_with_tenants_says_so_and_opens_no_door() -> None:
    at = settled(replace(at_first(guards=False), policies={"search": SEARCH}))
    assert at.classes == {}
    status = at.policies["search"].status
    assert conditions(status)["Ready"] == (ConditionStatus.FALSE, "WaitingForGuards")
    assert conditions(status)["Degraded"] == (ConditionStatus.TRUE, "GuardMissing")
    (message,) = (item.message for item in status.conditions if item.type == "Degraded")
    assert message == (
        "ValidatingAdmissionPolicy gpusharing-allocation, ValidatingAdmissionPolicyBinding gpusharing-allocation, "
        "ValidatingAdmissionPolicy gpusharing-claims and 3 more: missing, changed, or not readable for the operator. "
        "Apply manifests/base. Until then the scheduler may allocate reserved GPUs to any claim, but agents prepare "
        "them for tenants only, and no device classes are created"
    )
    # Whoever has no tenants has no need of them.
    open_ = settled(replace(at_first(guards=False), policies={"open": policy("open", classes=Classes())}))
    assert conditions(open_.policies["open"].status)["Degraded"] == (ConditionStatus.FALSE, "NotDegraded")
    assert set(open_.classes) == {"open-timeslicing"}


def test_it_is_kept_up_to_date() -> None:
    """What changes beside nodes is decided on as if from nothing, and said by the policies that it concerns."""
    at = at_first()
    kept = Incremental(at)
    foreign = device_class("open-timeslicing", "TimeSlicing", of=None)
    steps: list[Callable[[World], World]] = [
        lambda of: replace(of, guards={}),
        lambda of: replace(of, guards=installed()),
        lambda of: replace(of, bindings={}),
        lambda of: replace(of, bindings=bound()),
        lambda of: replace(of, classes={**of.classes, "open-timeslicing": foreign}),
        lambda of: replace(of, namespaces={}),
        lambda of: replace(of, quotas={}, namespaces={"search": TENANT}),
        lambda of: replace(of, policies={"search": of.policies["search"]}),
    ]
    for step in steps:
        for _ in range(3):
            assert kept.decide(now=NOW) == decide(at, now=NOW)
            at = agents_act(apply(at, decide(at, now=NOW)))
            kept.become(at)
        at = step(at)
        kept.become(at)
    assert kept.decide(now=NOW) == decide(at, now=NOW)


def test_classes_that_are_there_stay_when_the_guards_go() -> None:
    at = settled(replace(at_first(), policies={"search": SEARCH}))
    without = settled(replace(at, guards={}))
    assert without.classes == at.classes


def test_a_policy_says_what_is_in_the_way_of_its_classes() -> None:
    foreign = device_class("open-timeslicing", "TimeSlicing", of=None)
    at = settled(
        replace(at_first(), policies={"open": policy("open", classes=Classes())}, classes={"open-timeslicing": foreign})
    )
    assert at.classes == {"open-timeslicing": foreign}
    assert conditions(at.policies["open"].status)["Degraded"] == (ConditionStatus.TRUE, "DeviceClassExists")
    assert conditions(at.policies["open"].status)["Ready"] == (ConditionStatus.TRUE, "Ready")
