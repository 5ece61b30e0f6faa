"""The API server as far as the agent needs it, and a scheduler that sees slices late."""

# ruff: noqa: ARG002 (there is one node and one namespace)

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from building import DRIVER
from gpusharing.api import names
from gpusharing.api.dra import (
    Allocation,
    AllocationConfig,
    AllocationResult,
    ClaimMeta,
    DeviceAllocation,
    Node,
    ResourceClaim,
    ResourceClaimStatus,
    ResourceSlice,
)
from gpusharing.api.meta import LabelledMeta, WholeMeta
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.api.sharing.node_spec import ClaimSharing, Verdict
from gpusharing.api.sharing.node_status import NodeSharingStatus
from gpusharing.core.claims import allocation
from gpusharing.core.quantities import whole_mebibytes
from gpusharing.kube.history import History
from gpusharing.kube.kinds import NODE_SHARINGS, NODES, RESOURCE_CLAIMS, Kind
from gpusharing.kube.transport import Api, ApiError

NODE: Final = "n1"
NAMESPACE: Final = "default"

Device = Mapping[str, Any]


class Server(Api):
    """Objects are replaced, never changed."""

    def __init__(self) -> None:
        self.history = History()
        self._version = 0
        self.claims: dict[str, ResourceClaim] = {}
        self.slices: dict[str, ResourceSlice] = {}
        self.sharing: NodeSharing | None = None

    async def get(self, kind: Kind[Any], name: str, namespace: str = "") -> Any:
        if kind is NODES:
            return Node(metadata=LabelledMeta(name=NODE, uid=f"uid-{NODE}"))
        found: Any = self.claims.get(name) if kind is RESOURCE_CLAIMS else self.slices.get(name)
        if kind is NODE_SHARINGS:
            found = self.sharing
        if found is None:
            raise ApiError("GET", kind.path(name, namespace), 404, "NotFound", f'{kind.plural} "{name}" not found')
        return found

    async def create(self, kind: Kind[Any], body: Any, namespace: str = "") -> Any:
        name = body["metadata"]["name"]
        if kind is NODE_SHARINGS:
            self.sharing = NodeSharing(metadata=self._meta(name))
            return self.sharing
        self.slices[name] = ResourceSlice(metadata=self._meta(name), spec=body["spec"])
        return self.slices[name]

    async def replace(self, kind: Kind[Any], name: str, body: Any, namespace: str = "") -> Any:
        self.slices[name] = ResourceSlice(metadata=self._meta(name), spec=body["spec"])
        return self.slices[name]

    async def delete(self, kind: Kind[Any], name: str, namespace: str = "", *, uid: str = "") -> None:
        del self.slices[name]

    async def merge_patch(
        self, kind: Kind[Any], name: str, patch: Any, namespace: str = "", *, subresource: str = ""
    ) -> Any:
        assert self.sharing is not None
        status = NodeSharingStatus.model_validate(patch["status"])
        self.put_sharing(self.sharing.model_copy(update={"status": status}))
        return self.sharing

    def put_sharing(self, sharing: NodeSharing) -> None:
        metadata = replace(sharing.metadata, resource_version=self._meta("").resource_version)
        self.sharing = sharing.model_copy(update={"metadata": metadata})

    def put_claim(self, uid: str, results: tuple[AllocationResult, ...], configs: tuple[AllocationConfig, ...]) -> None:
        allocation = Allocation(devices=DeviceAllocation(results=results, config=configs)) if results else None
        self.claims[uid] = ResourceClaim(
            metadata=ClaimMeta(name=uid, namespace=NAMESPACE, uid=uid),
            status=ResourceClaimStatus(allocation=allocation),
        )

    def results(self) -> Iterator[AllocationResult]:
        """All that is allocated, without what is only looked at."""
        for claim in self.claims.values():
            if claim.status.allocation:
                yield from (one for one in claim.status.allocation.devices.results if not one.admin_access)

    def verdicts(self) -> list[ClaimSharing]:
        """The operator's: every claim may have what it has."""
        return [
            ClaimSharing(
                uid=uid,
                claim=f"{NAMESPACE}/{uid}",
                allocation_hash=allocation.digest(claim, DRIVER),
                verdict=Verdict.ALLOWED,
            )
            for uid, claim in self.claims.items()
        ]

    def _meta(self, name: str) -> WholeMeta:
        self._version += 1
        return WholeMeta(name=name, uid=f"uid-{name}", resource_version=str(self._version))


@dataclass(frozen=True)
class Wish:
    """One request of a claim."""

    sharing: names.Sharing
    profile: str = ""
    capacity: Mapping[str, int] = field(default_factory=dict)
    """Shares, and of MPS memory in MiB and threads."""
    admin: bool = False

    def asks_for(self, device: Device) -> bool:
        attributes = device["attributes"]
        return _attribute(attributes, names.SHARING_ATTRIBUTE) == self.sharing and (
            not self.profile or _attribute(attributes, "profile") == self.profile
        )


class View:
    """What the scheduler has of the node's slices."""

    def __init__(self, slices: Mapping[str, ResourceSlice]) -> None:
        found = [slices[name] for name in sorted(slices)]
        self.devices: dict[str, Device] = {
            device["name"]: device for slice_ in found for device in slice_.spec.get("devices") or ()
        }
        self.pools: dict[str, str] = {
            device["name"]: slice_.spec["pool"]["name"]
            for slice_ in found
            for device in slice_.spec.get("devices") or ()
        }
        """By device: a GPU is in one of them."""
        self._supply = {
            counters["name"]: _amounts(counters["counters"])
            for slice_ in found
            for counters in slice_.spec.get("sharedCounters") or ()
        }

    def choices(self, wish: Wish, allocated: list[AllocationResult]) -> list[AllocationResult]:
        return [
            self._result(name, wish)
            for name, device in self.devices.items()
            if wish.asks_for(device) and (wish.admin or self._is_free(name, device, wish, allocated))
        ]

    def _result(self, name: str, wish: Wish) -> AllocationResult:
        consumed = {
            key: f"{amount}Mi" if key == "memory" else str(amount)
            for key, amount in self._consumed(self.devices[name], wish).items()
        }
        return AllocationResult(
            request="r",
            driver=DRIVER,
            pool=self.pools[name],
            device=name,
            admin_access=wish.admin or None,
            consumed_capacity=consumed,
        )

    def _is_free(self, name: str, device: Device, wish: Wish, allocated: list[AllocationResult]) -> bool:
        if device.get("taints") or _attribute(device["attributes"], names.CLOSING):
            return False
        # Each pool has counters of its own.
        allocated = [one for one in allocated if one.pool == self.pools[name]]
        same = [one for one in allocated if one.device == name]
        if same and not device.get("allowMultipleAllocations"):
            return False
        if not self._has_room(device, wish, same):
            return False
        # A shared device that is in use is not counted again.
        return bool(same) or self._counters_allow(name, allocated)

    def _has_room(self, device: Device, wish: Wish, same: list[AllocationResult]) -> bool:
        if not device.get("allowMultipleAllocations"):
            return True
        for key, amount in self._consumed(device, wish).items():
            policy = device["capacity"][key]["requestPolicy"]
            if amount < _number(policy["validRange"]["min"]) or amount > _number(policy["validRange"]["max"]):
                return False
            used = sum(_number(one.consumed_capacity.get(key, "0")) for one in same)
            if used + amount > _number(device["capacity"][key]["value"]):
                return False
        return True

    def _consumed(self, device: Device, wish: Wish) -> dict[str, int]:
        if not device.get("allowMultipleAllocations"):
            return {}
        return {
            key: wish.capacity.get(key, _number(capacity["requestPolicy"]["default"]))
            for key, capacity in device["capacity"].items()
        }

    def _counters_allow(self, name: str, allocated: list[AllocationResult]) -> bool:
        """Of what is allocated, only what is still published draws on counters."""
        drawing = {name, *(one.device for one in allocated if one.device in self.devices)}
        drawn: dict[tuple[str, str], int] = {}
        for device in drawing:
            for consumption in self.devices[device].get("consumesCounters") or ():
                for counter, amount in _amounts(consumption["counters"]).items():
                    key = consumption["counterSet"], counter
                    drawn[key] = drawn.get(key, 0) + amount
        mine = {consumption["counterSet"] for consumption in self.devices[name].get("consumesCounters") or ()}
        return all(
            amount <= self._supply[name_][counter] for (name_, counter), amount in drawn.items() if name_ in mine
        )


def _attribute(attributes: Mapping[str, Any], name: str) -> Any:
    return next(iter(attributes.get(name, {}).values()), None)


def _amounts(counters: Mapping[str, Any]) -> dict[str, int]:
    return {name: _number(counter["value"]) for name, counter in counters.items()}


def _number(text: str) -> int:
    """Of memory in MiB."""
    return int(text) if text.isdecimal() else whole_mebibytes(text)
