"""Slices, claims and nodes, decoded as far as a question about all of them needs it, straight from the API's bytes.

A cluster of a thousand nodes has 50 MB of them, of which most is never looked at: managed fields, images, the devices
of nodes that are like other nodes. Those stay bytes.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec

from gpusharing.api import strict_json
from gpusharing.snapshots.world import Json

T = TypeVar("T", bound=msgspec.Struct)


class Named(msgspec.Struct, frozen=True):
    name: str
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None


# ------------------------------------------------------------------------------------------------------------- slices


class PoolOfSlice(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    resource_slice_count: int
    generation: int = 0


class Slice(msgspec.Struct, frozen=True):
    metadata: Named
    spec: msgspec.Raw
    """As JSON."""

    @property
    def head(self) -> "SliceHead":
        return _HEAD.decode(self.spec)

    def whole_spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = strict_json.loads(bytes(self.spec))
        return spec


class SliceHead(msgspec.Struct, frozen=True, rename="camel"):
    """What says where a slice belongs."""

    driver: str
    pool: PoolOfSlice
    node_name: str = ""
    devices: msgspec.Raw = msgspec.Raw()
    shared_counters: msgspec.Raw = msgspec.Raw()

    @property
    def pool_id(self) -> tuple[str, str]:
        return self.driver, self.pool.name


# ------------------------------------------------------------------------------------------------------------- claims


class Result(msgspec.Struct, frozen=True, rename="camel"):
    driver: str
    pool: str
    device: str
    request: str = ""
    admin_access: bool | None = None
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: dict[str, str] | None = None


class DevicesOfClaim(msgspec.Struct, frozen=True):
    results: list[Result] | None = None


class Allocation(msgspec.Struct, frozen=True, rename="camel"):
    devices: DevicesOfClaim = DevicesOfClaim()
    allocation_timestamp: str | None = None


class Consumer(msgspec.Struct, frozen=True):
    resource: str
    name: str
    uid: str = ""


class ClaimStatus(msgspec.Struct, frozen=True, rename="camel"):
    allocation: Allocation | None = None
    reserved_for: list[Consumer] | None = None


class Claim(msgspec.Struct, frozen=True):
    metadata: Named
    status: ClaimStatus = ClaimStatus()

    @property
    def key(self) -> tuple[str, str]:
        return self.metadata.namespace, self.metadata.name

    @property
    def results(self) -> Sequence[Result]:
        allocation = self.status.allocation
        return (allocation.devices.results or ()) if allocation else ()


# -------------------------------------------------------------------------------------------------------------- nodes


class Taint(msgspec.Struct, frozen=True):
    key: str
    effect: str
    value: str = ""


class NodeSpec(msgspec.Struct, frozen=True):
    taints: list[Taint] | None = None
    unschedulable: bool = False


class NodeCondition(msgspec.Struct, frozen=True):
    type: str
    status: str


class NodeStatus(msgspec.Struct, frozen=True):
    allocatable: dict[str, str] | None = None
    conditions: list[NodeCondition] | None = None


class Node(msgspec.Struct, frozen=True):
    metadata: Named
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def labels(self) -> Mapping[str, str]:
        return self.metadata.labels or {}


# ---------------------------------------------------------------------------------------------------------- decoding


_HEAD: Final = msgspec.json.Decoder(SliceHead)


class Lean(Generic[T]):
    """Decodes one kind. What is not as the API has it is left out, and counted."""

    def __init__(self, type_: type[T]) -> None:
        self._type = type_
        self._list: Any = msgspec.json.Decoder(msgspec.defstruct("List", [("items", list[type_] | None, None)]))  # type: ignore[valid-type]
        self.unreadable = 0

    def of_page(self, data: bytes) -> Sequence[T]:
        try:
            items: Sequence[T] | None = self._list.decode(data)
        except (msgspec.MsgspecError, RecursionError):
            return self.of_objects(strict_json.loads(data)["items"] or ())
        return getattr(items, "items", None) or ()

    def of_objects(self, objects: Sequence[Json]) -> list[T]:
        found: list[T] = []
        for one in objects:
            try:
                found.append(msgspec.json.decode(msgspec.json.encode(one), type=self._type))
            except (msgspec.MsgspecError, RecursionError):
                self.unreadable += 1
        return found


Decode = Callable[[bytes], Sequence[T]]
