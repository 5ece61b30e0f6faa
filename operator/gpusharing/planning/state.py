"""The objects of a World, as the operator's decisions take them in: each is read once."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, TypeVar

import msgspec
import pydantic

from gpusharing.api import names, strict_json
from gpusharing.api.core import ResourceQuota, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding
from gpusharing.api.dra import DeviceClass, DeviceTaintRule, Namespace, Node, ResourceClaim
from gpusharing.api.meta import Key, key_of
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.api.sharing.node_spec import IDLE_WAIT
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.api.templates import ResourceClaimTemplate
from gpusharing.core.allocate.requests import Claim, UnknownRequestError, read_claim
from gpusharing.core.allocate.taken import Taken
from gpusharing.core.claims.allocation import kept
from gpusharing.core.cluster.guards import closing_upkeep
from gpusharing.core.cluster.guards.closing import CLOSING
from gpusharing.core.cluster.guards.upkeep import REQUIRED, entries_of
from gpusharing.core.decision.incremental import Decider
from gpusharing.core.state.cluster_state import Setup
from gpusharing.snapshots.lines import Lines
from gpusharing.snapshots.world import CLAIMS, Json, World

T = TypeVar("T")
Encoded = bytes | Json

# Of each kind, the field of a World.
_KINDS: Final[tuple[tuple[type[Any], str], ...]] = (
    (SharingPolicy, "policies"),
    (Node, "nodes"),
    (NodeSharing, "node_sharings"),
    (Namespace, "namespaces"),
    (DeviceClass, "classes"),
    (ResourceQuota, "quotas"),
    (ResourceClaimTemplate, "templates"),
    (ValidatingAdmissionPolicy, "guards"),
    (ValidatingAdmissionPolicyBinding, "bindings"),
    (DeviceTaintRule, "taint_rules"),
)


@dataclass(slots=True)
class State:
    decider: Decider
    taken: Taken
    """What claims have of devices, whoever's they are."""
    kinds: dict[tuple[str, bytes], "KindOfClaim"] = field(default_factory=dict)
    """Of all claims, by their namespace and what they ask for."""
    kind_of: dict[Key, "KindOfClaim"] = field(default_factory=dict)
    unreadable: list[str] = field(default_factory=list)
    """Objects of which nothing is known."""


@dataclass(slots=True)
class KindOfClaim:
    """Claims of a namespace that ask for the same."""

    namespace: str
    text: bytes
    """Their spec."""
    example: str
    """The name of one of them."""
    allocated: int = 0

    @property
    def claim(self) -> Claim | None:
        """One that is not allocated; None: Kubernetes would not take it."""
        metadata = {"name": self.example, "namespace": self.namespace}
        try:
            return read_claim({"metadata": metadata, "spec": strict_json.loads(self.text)})
        except UnknownRequestError:
            return None


def read(world: World, *, idle_wait: float = IDLE_WAIT) -> State:
    setup = Setup(
        driver=names.DRIVER,
        minor=world.minor,
        idle_wait=idle_wait,
        has_taint_rules="taint_rules" not in world.unread,
    )
    state = State(Decider(setup), Taken())
    for kind, field_ in _KINDS:
        for one in _encoded(getattr(world, field_)):
            item = _decoded(kind, one, state)
            if item is not None:
                state.decider.state.put(kind, item)
    for one in _encoded(world.of(CLAIMS)):
        take_claim(state, one)
    guard = state.decider.state.get(ValidatingAdmissionPolicy, ("", CLOSING))
    if guard is not None:
        # What stands in it is in force, as far as a file can tell.
        state.decider.state.see_fence(closing_upkeep.read(guard).fence)
    see_guards(state.decider)
    return state


def see_guards(decider: Decider) -> None:
    """What stands in the guards of tenants is in force, as far as a file can tell."""
    guards = decider.state.by_name(ValidatingAdmissionPolicy)
    decider.state.see_entries({name: frozenset(entries_of(guards[name])) for name in REQUIRED if name in guards})


def _encoded(objects: Sequence[Json]) -> Sequence[Encoded]:
    return objects.texts if isinstance(objects, Lines) else objects


def take_claim(state: State, one: Encoded) -> None:
    claim = _decoded(ResourceClaim, one, state)
    if claim is None:
        return
    key = key_of(claim)
    allocation = claim.status.allocation
    if allocation is not None:
        state.taken.add(key, allocation.devices.results)
    spec = _spec(one)
    name = claim.metadata.namespace, spec
    kind = state.kinds.get(name)
    if kind is None:
        kind = state.kinds[name] = KindOfClaim(claim.metadata.namespace, spec, claim.metadata.name)
    kind.allocated += allocation is not None
    state.kind_of[key] = kind
    state.decider.state.put(ResourceClaim, kept(claim, names.DRIVER))


class _OnlySpec(msgspec.Struct):
    spec: msgspec.Raw = msgspec.Raw(b"{}")


_ONLY_SPEC: Final = msgspec.json.Decoder(_OnlySpec)


def _spec(one: Encoded) -> bytes:
    """Of a claim, as JSON: equal ones say the same."""
    if isinstance(one, bytes):
        return bytes(_ONLY_SPEC.decode(one).spec)
    return json.dumps(one.get("spec") or {}, sort_keys=True, separators=(",", ":")).encode()


def _decoded(kind: type[T], one: Encoded, state: State) -> T | None:
    adapter: pydantic.TypeAdapter[T] = _adapter(kind)
    try:
        return _of_text(adapter, one) if isinstance(one, bytes) else adapter.validate_python(one)
    except ValueError:
        value = strict_json.loads(one) if isinstance(one, bytes) else one
        metadata = value["metadata"]
        state.unreadable.append("/".join(filter(None, [kind.__name__, metadata.get("namespace"), metadata["name"]])))
        return None


def _of_text(adapter: pydantic.TypeAdapter[T], text: bytes) -> T:
    try:
        return adapter.validate_json(text)
    except ValueError:
        # Their own reader gives up on what people may write into opaque parameters.
        return adapter.validate_python(strict_json.loads(text))


def decode(kind: type[T], value: Json) -> T:
    """Of an object of ours. Raises ValueError."""
    adapter: pydantic.TypeAdapter[T] = _adapter(kind)
    return adapter.validate_python(value)


@cache
def _adapter(kind: Any) -> Any:
    return pydantic.TypeAdapter(kind)
