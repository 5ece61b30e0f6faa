"""Whether a claim may have what it was allocated: the last line behind the admission policies, which say the same.

Devices that are for a policy's tenants alone are known by their pool, and by what was decided about their GPU.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final, NamedTuple

from gpusharing.api import names
from gpusharing.api.dra import AllocationResult, ResourceClaim
from gpusharing.api.meta import LabelSelector, LabelSelectorRequirement
from gpusharing.api.sharing.gpu_status import NOT_REPORTED, GpuStatus, MemoryWallSupport
from gpusharing.api.sharing.node_spec import GpuSharing
from gpusharing.api.sharing.tenants import Allowance
from gpusharing.api.text import clip
from gpusharing.core import quantities
from gpusharing.core.verdicts.quota import Excess

_LONGEST: Final = 200
"""Of a selector in a message."""


class UnknownNamespaceError(Exception):
    """The namespace of the claim has not been seen yet: nothing can be said."""


@dataclass(frozen=True, slots=True)
class Registry:
    """Who is a tenant of what, and has too much of it."""

    tenants: Mapping[str, LabelSelector | None]
    """By policy. None: it is suspended, and the guards do not know its tenants."""
    namespaces: Mapping[str, Mapping[str, str]]
    """Their labels."""
    beyond_quota: Excess = field(default_factory=dict)


class Held(NamedTuple):
    """A device that a claim was allocated, and what was decided about its GPU."""

    result: AllocationResult
    gpu: GpuSharing
    status: GpuStatus | None
    """The GPU as its agent reports it; None: it does not."""

    @property
    def wall(self) -> MemoryWallSupport:
        return self.status.memory_wall if self.status else NOT_REPORTED

    @property
    def place(self) -> str:
        return f"{self.result.pool}/{self.result.device}"

    @property
    def restricted_to(self) -> Collection[str]:
        """Whose tenants alone may have it. While a GPU changes hands they may be two, and both have to agree."""
        by_pool = names.policy_of_pool(self.result.pool)
        return {policy for policy in (by_pool, self.gpu.restricted_to) if policy is not None}


def objections(claim: ResourceClaim, held: Sequence[Held], registry: Registry) -> list[str]:
    """What speaks against it, each with the policy, the field, and what is allowed."""
    found: list[str] = []
    for policy, devices in _by_policy(held).items():
        found += _against_tenant(claim, policy, devices, registry)
    for device in _shared_devices(held):
        found += _against_amounts(device)
    return found


def _by_policy(held: Iterable[Held]) -> Mapping[str, list[Held]]:
    found: defaultdict[str, list[Held]] = defaultdict(list)
    for one in held:
        for policy in one.restricted_to:
            found[policy].append(one)
    return dict(sorted(found.items()))


def _against_tenant(claim: ResourceClaim, name: str, devices: Sequence[Held], registry: Registry) -> list[str]:
    namespace = claim.metadata.namespace
    reserved = f"device {devices[0].place} is reserved for tenants of SharingPolicy {name}"
    if name not in registry.tenants:
        return [f"{reserved}, but that policy does not exist"]
    tenants = registry.tenants[name]
    if tenants is None:
        return [f"{reserved}, but that policy is suspended, and the admission policies do not have its tenants"]
    labels = registry.namespaces.get(namespace)
    if labels is None:
        raise UnknownNamespaceError(namespace)
    if not tenants.matches(labels):
        described = f"namespace {namespace} is not one of its tenants (spec.tenants.namespaces: {in_words(tenants)})"
        return [f"SharingPolicy {name}: {described}, and device {devices[0].place} is reserved for them"]
    looked_at = [one.place for one in devices if one.result.admin_access]
    around = "adminAccess is not allowed on devices reserved for tenants (spec.tenants): remove it from the request"
    return [f"SharingPolicy {name}: device {place}: {around}" for place in looked_at[:1]]


def _shared_devices(held: Iterable[Held]) -> Iterable[Sequence[Held]]:
    """What the claim has of each device that it shares with others."""
    found: defaultdict[str, list[Held]] = defaultdict(list)
    for one in held:
        is_shared = names.sharing_of_device(one.result.device) in {names.Sharing.TIME_SLICING, names.Sharing.MPS}
        if is_shared and not one.result.admin_access:
            found[one.place].append(one)
    return found.values()


def _against_amounts(device: Sequence[Held]) -> Iterable[str]:
    gpu = device[0].gpu
    if gpu.allow is None or gpu.policy is None:
        return
    for capacity, (name, most) in _limits(gpu.allow).items():
        try:
            total = sum((_consumed(one.result, capacity) for one in device), start=Fraction())
        except ValueError as error:
            yield f"device {device[0].place}: capacity {capacity}: {error}"
            continue
        if total > quantities.exact(most):
            yield (
                f"SharingPolicy {gpu.policy.name}: the claim was allocated more {capacity} of device "
                f"{device[0].place} than spec.tenants.allow.{name} permits ({most})"
            )


def _limits(allow: Allowance) -> Mapping[str, tuple[str, str]]:
    """By capacity: the field, and the most."""
    limits = {
        "shares": ("maxShares", allow.max_shares),
        "memory": ("maxMemory", allow.max_memory),
        "threads": ("maxThreads", allow.max_threads),
    }
    return {capacity: (field, str(most)) for capacity, (field, most) in limits.items() if most is not None}


def _consumed(result: AllocationResult, capacity: str) -> Fraction:
    return quantities.exact(result.consumed_capacity.get(capacity, "0"))


def in_words(selector: LabelSelector) -> str:
    """As kubectl takes it."""
    parts = [f"{key}={value}" for key, value in sorted(selector.match_labels.items())]
    parts += map(_requirement_in_words, selector.match_expressions)
    return clip(",".join(parts), _LONGEST)


def _requirement_in_words(requirement: LabelSelectorRequirement) -> str:
    match requirement.operator:
        case "In" if len(requirement.values) == 1:
            return f"{requirement.key}={requirement.values[0]}"
        case "In":
            return f"{requirement.key} in ({','.join(requirement.values)})"
        case "NotIn":
            return f"{requirement.key} notin ({','.join(requirement.values)})"
        case "Exists":
            return requirement.key
        case "DoesNotExist":
            return f"!{requirement.key}"
