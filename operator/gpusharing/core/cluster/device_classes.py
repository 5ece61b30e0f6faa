"""The device classes of policies: one for each mode that a policy offers on its GPUs, selecting these GPUs alone.

A class stays until its policy goes, also when its mode is no longer offered: it selects nothing then, and pods of
templates that name it wait as for any GPU in use. Existing allocations keep what the class said when they were made.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpusharing.api import names
from gpusharing.api.dra import DeviceClass
from gpusharing.api.names import Sharing
from gpusharing.api.sharing.modes import for_mode
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.core.cluster import ownership
from gpusharing.core.intents import Create, Delete, Intent, Patch, Stage, Target
from gpusharing.core.policies.policy import ExaminedPolicy, rank
from gpusharing.core.reasons import Complaint, DegradedReason


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyClass:
    """A class as it should be, and as it is."""

    policy: SharingPolicy
    sharing: Sharing
    before: DeviceClass | None
    resource: str | None = None
    """The extended resource by which pods can ask for it."""

    @property
    def name(self) -> str:
        return names.policy_class(self.policy.metadata.name, self.sharing)

    @property
    def wanted_resource(self) -> str | None:
        resource: str | None = for_mode(self.policy.spec.classes.extended_resources, self.sharing)
        return resource


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedClasses:
    classes: tuple[PolicyClass, ...]
    unwanted: tuple[DeviceClass, ...]
    """Ours, of policies with classes.create: false."""
    complaints: Mapping[str, Sequence[Complaint]]
    """By policy."""


def plan_classes(policies: Sequence[ExaminedPolicy], existing: Mapping[str, DeviceClass]) -> PlannedClasses:
    """The classes of suspended policies stay as they are."""
    planned: list[PolicyClass] = []
    unwanted: list[DeviceClass] = []
    complaints: defaultdict[str, list[Complaint]] = defaultdict(list)
    # An extended resource goes to the policy of the highest rank.
    for examined in sorted(policies, key=rank):
        if examined.is_suspended:
            continue
        for sharing in Sharing:
            found = PolicyClass(
                policy=examined.policy,
                sharing=sharing,
                before=existing.get(names.policy_class(examined.name, sharing)),
            )
            is_ours = found.before is not None and ownership.is_ours(found.before.metadata, examined.policy)
            is_offered = for_mode(examined.policy.spec.offers, sharing) is not None
            if not examined.policy.spec.classes.create:
                unwanted += [found.before] if found.before and is_ours else []
            elif found.before is not None and not is_ours:
                if is_offered:
                    complaints[examined.name].append(_not_ours(found))
            elif is_offered or is_ours:
                planned.append(found)
    classes = tuple(_with_resources(planned, existing, complaints))
    return PlannedClasses(classes=classes, unwanted=tuple(unwanted), complaints=complaints)


def _with_resources(
    planned: Sequence[PolicyClass], existing: Mapping[str, DeviceClass], complaints: dict[str, list[Complaint]]
) -> Iterator[PolicyClass]:
    """Kubernetes gives an extended resource to the newest class that names it. Here whoever else has it keeps it, and
    of policies, the first of these classes gets it."""
    of_policies = {item.name: item for item in planned}
    having: defaultdict[str, set[str]] = defaultdict(set)
    for name, found in existing.items():
        if found.spec.extended_resource_name:
            having[found.spec.extended_resource_name].add(name)
    holders = {resource: min(others) for resource, those in having.items() if (others := those - of_policies.keys())}
    for item in planned:
        resource = item.wanted_resource
        holder = holders.setdefault(resource, item.name) if resource else item.name
        if holder != item.name:
            complaints[item.policy.metadata.name].append(_taken(item, holder, of_policies.get(holder)))
        # One that has to give it up does so first: two classes never have it.
        is_free = resource is not None and not having[resource] - {item.name}
        yield PolicyClass(
            policy=item.policy,
            sharing=item.sharing,
            before=item.before,
            resource=resource if holder == item.name and is_free else None,
        )


def class_intents(planned: PlannedClasses, driver: str, *, guards_pending: frozenset[str]) -> list[Intent]:
    """`guards_pending`: policies whose new classes have to wait."""
    writes = (
        _write(item, driver, may_create=item.policy.metadata.name not in guards_pending) for item in planned.classes
    )
    deletes = (
        Delete(target=Target.DEVICE_CLASS, stage=Stage.CLASSES, before=item.metadata) for item in planned.unwanted
    )
    return [*(write for write in writes if write), *deletes]


def _write(item: PolicyClass, driver: str, *, may_create: bool) -> Intent | None:
    spec = _spec(item, driver)
    if item.before is None:
        if not may_create:
            return None
        body = {"metadata": ownership.metadata(item.name, item.policy), "spec": spec}
        return Create(target=Target.DEVICE_CLASS, stage=Stage.CLASSES, body=body)
    before = item.before.spec
    is_right = (
        ownership.is_marked(item.before.metadata, item.policy)
        and list(before.selectors) == spec["selectors"]
        and not before.config
        and before.extended_resource_name == item.resource
    )
    if is_right:
        return None
    body = {
        "metadata": ownership.marks(item.before.metadata, item.policy),
        "spec": {"config": None, "extendedResourceName": None} | spec,
    }
    return Patch(target=Target.DEVICE_CLASS, stage=Stage.CLASSES, before=item.before.metadata, body=body)


def _spec(item: PolicyClass, driver: str) -> dict[str, Any]:
    selectors = [{"cel": {"expression": selector(item.policy.metadata.name, item.sharing, driver)}}]
    return {"selectors": selectors} | ({"extendedResourceName": item.resource} if item.resource else {})


def selector(policy: str, sharing: Sharing, driver: str) -> str:
    """The scheduler asks it of every device of every node: what excludes most comes first, and an attribute is never
    read where it might be missing, since that stops every pod that uses the class."""
    ours = f'device.attributes["{names.GROUP}"]'
    return (
        f'device.driver == "{driver}" && {ours}.?policy.orValue("") == "{policy}" && '
        f'{ours}.?sharing.orValue("") == "{sharing}" && {ours}.?closing.orValue(false) != true'
    )


def _not_ours(item: PolicyClass) -> Complaint:
    message = (
        f"device class {item.name} exists and was not made for this policy: delete or rename it, or rename this policy"
    )
    return Complaint(DegradedReason.DEVICE_CLASS_EXISTS, message)


def _taken(item: PolicyClass, holder: str, of_policy: PolicyClass | None) -> Complaint:
    ranks_higher = of_policy is not None and of_policy.policy is not item.policy
    message = (
        f"extended resource {item.wanted_resource} belongs to device class {holder}"
        f"{', whose policy ranks higher' if ranks_higher else ''}: choose another name for {item.name} in "
        f"spec.classes.extendedResources{', or raise spec.priority' if ranks_higher else ''}"
    )
    return Complaint(DegradedReason.EXTENDED_RESOURCE_IN_USE, message)
