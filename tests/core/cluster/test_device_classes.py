"""The device classes that a policy has, whole."""

from dataclasses import replace

import pytest

from building import DRIVER, EXCLUSIVE, MINOR, NOW, policy, time_slicing, world
from building.cluster import apply
from building.from_nothing import decide
from gpusharing.api.dra import DeviceClass, DeviceClassSpec
from gpusharing.api.meta import OwnedMeta, OwnerReference
from gpusharing.api.sharing.classes import Classes, ExtendedResources
from gpusharing.api.sharing.offers import (
    ExclusiveOffer,
    MigOffer,
    MpsMemory,
    MpsOffer,
    MpsThreads,
    Offers,
    TimeSlicingOffer,
)
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.api.sharing.rollout import Rollout, RolloutMode
from gpusharing.core.cluster import device_classes
from gpusharing.core.intents import Create, Delete, Intent, Patch, Stage, Target
from gpusharing.core.policies.policy import examine
from gpusharing.core.reasons import Complaint, DegradedReason

EVERY_WAY = Offers(
    exclusive=ExclusiveOffer(),
    time_slicing=TimeSlicingOffer(max_clients=4),
    mps=MpsOffer(max_clients=4, memory=MpsMemory(default="8Gi"), threads=MpsThreads(default=25)),
    mig=MigOffer(profiles=("1g.10gb",)),
)
CREATED = Classes()


def named(**resources: str) -> Classes:
    return Classes(extended_resources=ExtendedResources(**resources))


def selector(policy: str, sharing: str) -> str:
    return (
        'device.driver == "gpu.nvidia.com" && '
        f'device.attributes["gpusharing.dev"].?policy.orValue("") == "{policy}" && '
        f'device.attributes["gpusharing.dev"].?sharing.orValue("") == "{sharing}" && '
        'device.attributes["gpusharing.dev"].?closing.orValue(false) != true'
    )


def owner(name: str, uid: str | None = None) -> dict[str, str]:
    return {
        "apiVersion": "gpusharing.dev/v1alpha1",
        "kind": "SharingPolicy",
        "name": name,
        "uid": uid or f"uid-{name}",
    }


def device_class(
    name: str, sharing: str, *, of: str | None = "thirds", uid: str | None = None, resource: str | None = None
) -> DeviceClass:
    """As it is kept; `of` None: not ours."""
    selected = ({"cel": {"expression": selector(of or "", sharing)}},)
    metadata = OwnedMeta(
        name=name,
        resource_version="5",
        labels={"gpusharing.dev/policy": of} if of else {},
        owner_references=(OwnerReference(**owner(of, uid)),) if of else (),
    )
    return DeviceClass(metadata=metadata, spec=DeviceClassSpec(selectors=selected, extended_resource_name=resource))


def decided(
    *policies: SharingPolicy, existing: tuple[DeviceClass, ...] = ()
) -> tuple[list[Intent], dict[str, list[Complaint]]]:
    plan = device_classes.plan_classes(
        [examine(item, minor=MINOR) for item in policies], {item.metadata.name: item for item in existing}
    )
    complaints = {name: list(found) for name, found in plan.complaints.items() if found}
    return device_classes.class_intents(plan, DRIVER, guards_pending=frozenset()), complaints


def test_there_is_one_for_each_way_that_is_offered() -> None:
    intents, complaints = decided(
        policy("thirds", offers=EVERY_WAY, classes=named(time_slicing="example.com/gpu-shared"))
    )
    assert intents == [
        Create(
            target=Target.DEVICE_CLASS,
            stage=Stage.CLASSES,
            body={
                "metadata": {
                    "name": f"thirds-{suffix}",
                    "labels": {"gpusharing.dev/policy": "thirds"},
                    "ownerReferences": [owner("thirds")],
                },
                "spec": {"selectors": [{"cel": {"expression": selector("thirds", sharing)}}]} | resource,
            },
        )
        for suffix, sharing, resource in (
            ("exclusive", "Exclusive", {}),
            ("timeslicing", "TimeSlicing", {"extendedResourceName": "example.com/gpu-shared"}),
            ("mps", "MPS", {}),
            ("mig", "MIG", {}),
        )
    ]
    assert complaints == {}


@pytest.mark.parametrize(
    "quiet",
    [
        policy("thirds", classes=Classes(create=False)),
        policy("thirds", classes=CREATED, accepted=False),
        policy("thirds", classes=CREATED, rollout=Rollout(paused=True)),
        policy("thirds", classes=CREATED, rollout=Rollout(mode=RolloutMode.PLAN)),
    ],
)
def test_a_policy_that_wants_none_or_is_not_in_force_gets_none(quiet: SharingPolicy) -> None:
    assert decided(quiet) == ([], {})


GOOD = device_class("thirds-timeslicing", "TimeSlicing")
EDITED = (
    replace(GOOD, spec=DeviceClassSpec(selectors=({"cel": {"expression": "true"}},))),
    replace(GOOD, spec=DeviceClassSpec()),
    replace(GOOD, spec=replace(GOOD.spec, config=({"opaque": {"driver": DRIVER, "parameters": {}}},))),
    replace(GOOD, spec=replace(GOOD.spec, extended_resource_name="example.com/gpu")),
    replace(GOOD, metadata=replace(GOOD.metadata, labels={"mine": "yes"})),
)


@pytest.mark.parametrize("edited", EDITED)
def test_an_edited_one_is_put_right(edited: DeviceClass) -> None:
    intents, complaints = decided(policy("thirds", classes=CREATED), existing=(edited,))
    assert intents == [
        Patch(
            target=Target.DEVICE_CLASS,
            stage=Stage.CLASSES,
            before=edited.metadata,
            body={
                "metadata": {"labels": {"gpusharing.dev/policy": "thirds"}},
                "spec": {
                    "selectors": [{"cel": {"expression": selector("thirds", "TimeSlicing")}}],
                    "config": None,
                    "extendedResourceName": None,
                },
            },
        )
    ]
    assert complaints == {}


@pytest.mark.parametrize("edited", EDITED)
@pytest.mark.parametrize(
    "suspended",
    [
        policy("thirds", classes=CREATED, accepted=False),
        policy("thirds", classes=CREATED, rollout=Rollout(paused=True)),
    ],
)
def test_those_of_a_policy_that_is_not_in_force_as_it_is_stay_as_they_are(
    suspended: SharingPolicy, edited: DeviceClass
) -> None:
    assert decided(suspended, existing=(edited,)) == ([], {})


@pytest.mark.parametrize(
    "foreign",
    [
        device_class("thirds-timeslicing", "TimeSlicing", of=None),
        # A policy of another name is no predecessor.
        device_class("thirds-timeslicing", "TimeSlicing", of="fourths"),
        replace(GOOD, metadata=replace(GOOD.metadata, owner_references=())),
    ],
)
def test_one_that_is_not_ours_is_left_alone_and_reported(foreign: DeviceClass) -> None:
    assert decided(policy("thirds", classes=CREATED), existing=(foreign,)) == (
        [],
        {
            "thirds": [
                Complaint(
                    DegradedReason.DEVICE_CLASS_EXISTS,
                    "device class thirds-timeslicing exists and was not made for this policy: delete or rename it, or "
                    "rename this policy",
                )
            ]
        },
    )


def test_what_a_deleted_policy_of_this_name_has_left_is_taken_over() -> None:
    """Before the garbage collector comes."""
    left = device_class("thirds-timeslicing", "TimeSlicing", uid="another")
    intents, complaints = decided(policy("thirds", classes=CREATED), existing=(left,))
    assert complaints == {}
    [intent] = intents
    assert isinstance(intent, Patch)
    assert intent.before == left.metadata
    assert intent.body["metadata"] == {
        "labels": {"gpusharing.dev/policy": "thirds"},
        "ownerReferences": [owner("thirds")],
    }


def test_one_of_a_way_that_is_not_offered_any_more_stays_and_is_kept_right() -> None:
    now_whole = policy("thirds", offers=EXCLUSIVE, classes=CREATED)
    whole = device_class("thirds-exclusive", "Exclusive")
    assert decided(now_whole, existing=(GOOD, whole)) == ([], {})
    intents, _ = decided(now_whole, existing=(EDITED[0], whole))
    assert [type(intent) for intent in intents] == [Patch]


def test_who_wants_none_any_more_has_none_but_keeps_those_of_others() -> None:
    foreign = device_class("thirds-mps", "MPS", of=None)
    intents, complaints = decided(policy("thirds", classes=Classes(create=False)), existing=(GOOD, foreign))
    assert intents == [Delete(target=Target.DEVICE_CLASS, stage=Stage.CLASSES, before=GOOD.metadata)]
    assert complaints == {}


def resources(intents: list[Intent]) -> dict[str, str | None]:
    """By class that is written."""
    found: dict[str, str | None] = {}
    for intent in intents:
        match intent:
            case Create(body=body):
                found[body["metadata"]["name"]] = body["spec"].get("extendedResourceName")
            case Patch(before=before, body=body):
                found[before.name] = body["spec"]["extendedResourceName"]
    return found


SHARED = "example.com/gpu"
A = policy("a", priority=1, classes=named(time_slicing=SHARED))
B = policy("b", priority=2, classes=named(time_slicing=SHARED))


def taken(policy: str, by: str, *, rank: bool = False) -> Complaint:
    message = (
        f"extended resource example.com/gpu belongs to device class {by}{', whose policy ranks higher' if rank else ''}"
        f": choose another name for {policy}-timeslicing in spec.classes.extendedResources"
        f"{', or raise spec.priority' if rank else ''}"
    )
    return Complaint(DegradedReason.EXTENDED_RESOURCE_IN_USE, message)


@pytest.mark.parametrize(
    ("existing", "written", "complaints"),
    [
        # Who comes first by rank, as on a GPU.
        ((), {"b-timeslicing": SHARED, "a-timeslicing": None}, {"a": [taken("a", "b-timeslicing", rank=True)]}),
        # Who has it gives it up first.
        (
            (device_class("a-timeslicing", "TimeSlicing", of="a", resource=SHARED),),
            {"b-timeslicing": None, "a-timeslicing": None},
            {"a": [taken("a", "b-timeslicing", rank=True)]},
        ),
        # Somebody else's first of all, also where it came later: Kubernetes would give it to the newest.
        (
            (
                device_class("a-timeslicing", "TimeSlicing", of="a", resource=SHARED),
                device_class("z", "TimeSlicing", of=None, resource=SHARED),
            ),
            {"b-timeslicing": None, "a-timeslicing": None},
            {"a": [taken("a", "z")], "b": [taken("b", "z")]},
        ),
        # What is given up is free.
        (
            (device_class("a-timeslicing", "TimeSlicing", of="a", resource="example.com/old"),),
            {"b-timeslicing": SHARED, "a-timeslicing": None},
            {"a": [taken("a", "b-timeslicing", rank=True)]},
        ),
    ],
)
def test_an_extended_resource_leads_to_one_class(
    existing: tuple[DeviceClass, ...], written: dict[str, str | None], complaints: dict[str, list[Complaint]]
) -> None:
    intents, found = decided(A, B, existing=existing)
    assert resources(intents) == written
    assert found == complaints
    assert decided(B, A, existing=existing)[1] == complaints


def test_when_the_one_has_given_it_up_the_other_gets_it() -> None:
    at = world(policies=[A])
    for policies_, having in (((A,), "a"), ((A, B), "b"), ((A,), "a")):
        at = replace(at, policies={item.metadata.name: item for item in policies_})
        for _ in range(3):
            at = apply(at, decide(at, now=NOW))
            named_by = [name for name, found in at.classes.items() if found.spec.extended_resource_name == SHARED]
            assert len(named_by) <= 1
        # Of a policy that has gone, the garbage collector takes it away.
        at = replace(at, classes={name: it for name, it in at.classes.items() if name[0] in {*at.policies}})
        at = apply(at, decide(at, now=NOW))
        assert at.classes[f"{having}-timeslicing"].spec.extended_resource_name == SHARED
        assert decide(at, now=NOW) == []


def test_two_ways_of_one_policy_cannot_have_the_same_name() -> None:
    both = policy("thirds", offers=time_slicing(exclusive=True), classes=named(exclusive=SHARED, time_slicing=SHARED))
    intents, complaints = decided(both)
    assert resources(intents) == {"thirds-exclusive": SHARED, "thirds-timeslicing": None}
    assert complaints == {"thirds": [taken("thirds", "thirds-exclusive")]}


def test_what_is_written_is_written_once() -> None:
    at = world(policies=[A, B, policy("thirds", offers=EVERY_WAY, classes=CREATED)])
    for _ in range(2):
        at = apply(at, decide(at, now=NOW))
    assert len(at.classes) == 6
    assert decide(at, now=NOW) == []
