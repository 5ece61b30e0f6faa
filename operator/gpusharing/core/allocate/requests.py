"""What the claims of a pod ask for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from gpusharing.api.dra import Toleration
from gpusharing.core.quantities import billionths

_SCHEDULING: Final = "scheduling.k8s.io"
_ALL: Final = "All"
_EXACT_COUNT: Final = "ExactCount"


class UnknownRequestError(Exception):
    """Of a newer Kubernetes, or of none: the scheduler refuses it too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A request, or one alternative of a request."""

    name: str
    """As results have it: "gpu", or "gpu/big" for an alternative."""
    device_class: str
    selectors: tuple[str, ...] = ()
    everything: bool = False
    """All devices that match."""
    count: int = 1
    admin: bool = False
    tolerations: tuple[Toleration, ...] = ()
    capacity: Mapping[str, int] = field(default_factory=dict)
    """In billionths."""

    @property
    def request(self) -> str:
        return self.name.partition("/")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    name: str
    alternatives: tuple[Wanted, ...]
    """In the order in which they are preferred."""
    is_list: bool = False
    """Whether they were written as alternatives, even if there is only one."""


class Constraint(NamedTuple):
    requests: frozenset[str]
    """Of requests, or of alternatives such as "gpu/big"; none: it concerns all."""
    attribute: str
    is_distinct: bool = False
    """All devices differ in the attribute; otherwise all have the same."""

    def concerns(self, wanted: Wanted) -> bool:
        return not self.requests or wanted.name in self.requests or wanted.request in self.requests


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One that a pod has. What a PodGroup's pods share is no different: its first pod gets it allocated."""

    namespace: str
    name: str
    uid: str = ""
    requests: tuple[Request, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    is_allocated: bool = False
    node_selector: Mapping[str, Any] | None = None
    """Once it is allocated: where its devices can be used; None: everywhere."""
    is_full: bool = False
    """Whether it is reserved for so many others that the API server does not let the pod have it as well."""

    @property
    def display_name(self) -> str:
        return f"{self.namespace}/{self.name}"


_MOST_CONSUMERS: Final = 256


def read_claim(value: Mapping[str, Any], *, pod: Mapping[str, Any] | None = None) -> Claim:
    """Of a ResourceClaim as the API server has it, for this pod. Raises UnknownRequestError."""
    metadata, status = value["metadata"], value.get("status") or {}
    allocation, reserved = status.get("allocation"), status.get("reservedFor") or ()
    devices = (value.get("spec") or {}).get("devices") or {}
    return Claim(
        namespace=metadata.get("namespace") or "",
        name=metadata["name"],
        uid=metadata.get("uid") or "",
        requests=tuple(_request(one) for one in devices.get("requests") or ()),
        constraints=tuple(_constraint(one) for one in devices.get("constraints") or ()),
        is_allocated=allocation is not None,
        node_selector=(allocation or {}).get("nodeSelector"),
        is_full=len(reserved) >= _MOST_CONSUMERS and not any(_is_consumer(one, pod) for one in reserved),
    )


def group_of(pod: Mapping[str, Any]) -> str | None:
    """The PodGroup that a pod is in."""
    name: str | None = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName")
    return name


def _is_consumer(consumer: Mapping[str, Any], pod: Mapping[str, Any] | None) -> bool:
    """Whether it is the pod, or its PodGroup, of which a pod knows only the name."""
    if pod is None:
        return False
    is_group = (consumer.get("apiGroup"), consumer["resource"]) == (_SCHEDULING, "podgroups")
    return bool(consumer["uid"] == pod["metadata"].get("uid")) or (is_group and consumer["name"] == group_of(pod))


def _request(value: Mapping[str, Any]) -> Request:
    name = value["name"]
    if exactly := value.get("exactly"):
        return Request(name=name, alternatives=(_wanted(name, exactly),))
    if alternatives := value.get("firstAvailable"):
        each = tuple(_wanted(f"{name}/{one['name']}", one) for one in alternatives)
        return Request(name=name, alternatives=each, is_list=True)
    raise UnknownRequestError(f"request {name}: neither exactly nor firstAvailable is set")


def _wanted(name: str, value: Mapping[str, Any]) -> Wanted:
    mode = value.get("allocationMode") or _EXACT_COUNT
    if mode not in {_ALL, _EXACT_COUNT}:
        raise UnknownRequestError(f"request {name}: unknown allocationMode {mode}")
    if value.get("derivedAttributes"):
        raise UnknownRequestError(f"request {name}: derivedAttributes are not supported, the feature is alpha")
    return Wanted(
        name=name,
        device_class=value.get("deviceClassName") or "",
        selectors=expressions(value.get("selectors") or (), of=f"request {name}"),
        everything=mode == _ALL,
        count=value.get("count") or 1,
        admin=bool(value.get("adminAccess")),
        tolerations=tuple(_toleration(one) for one in value.get("tolerations") or ()),
        capacity={
            capacity: billionths(str(amount))
            for capacity, amount in ((value.get("capacity") or {}).get("requests") or {}).items()
        },
    )


def expressions(selectors: Sequence[Mapping[str, Any]], *, of: str) -> tuple[str, ...]:
    """Of a request or of a class."""
    if not all(selector.get("cel") for selector in selectors):
        raise UnknownRequestError(f"{of}: a selector without a CEL expression")
    return tuple(selector["cel"]["expression"] for selector in selectors)


def _toleration(value: Mapping[str, Any]) -> Toleration:
    return Toleration(
        key=value.get("key") or "",
        operator=value.get("operator") or "",
        value=value.get("value") or "",
        effect=value.get("effect") or "",
        toleration_seconds=value.get("tolerationSeconds"),
    )


def _constraint(value: Mapping[str, Any]) -> Constraint:
    requests = frozenset(value.get("requests") or ())
    if attribute := value.get("matchAttribute"):
        return Constraint(requests, attribute)
    if attribute := value.get("distinctAttribute"):
        return Constraint(requests, attribute, is_distinct=True)
    raise UnknownRequestError("a constraint that is neither matchAttribute nor distinctAttribute")
