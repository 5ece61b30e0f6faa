"""What the scheduler wrote into a claim, as far as it concerns our driver."""

import hashlib
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any, Final

from gpusharing.api import names, nvidia, strict_json
from gpusharing.api.dra import AllocationConfig, AllocationResult, DeviceAllocation, ResourceClaim, Toleration
from gpusharing.api.sharing.node_status import ClaimStatus

_NO_EXECUTE: Final = "NoExecute"


def results(claim: ResourceClaim, driver: str) -> tuple[AllocationResult, ...]:
    allocation = claim.status.allocation
    return tuple([result for result in allocation.devices.results if result.driver == driver]) if allocation else ()


def results_on(claim: ResourceClaim, node: str, driver: str) -> tuple[AllocationResult, ...]:
    """Those of the node, in whichever of its pools."""
    allocation = claim.status.allocation
    if allocation is None:
        return ()
    return tuple(
        [
            result
            for result in allocation.devices.results
            if result.driver == driver and (result.pool == node or names.node_of_pool(result.pool) == node)
        ]
    )


def configs(claim: ResourceClaim, driver: str) -> tuple[AllocationConfig, ...]:
    allocation = claim.status.allocation
    if allocation is None:
        return ()
    return tuple(config for config in allocation.devices.config if config.opaque and config.opaque.driver == driver)


def kept(claim: ResourceClaim, driver: str) -> ResourceClaim:
    """What decisions use of it, which is small whatever its tenant has written: no devices of other drivers, and
    configs as they were understood."""
    allocation = claim.status.allocation
    if allocation is None and not claim.status.devices:
        return claim
    if allocation is not None:
        names_of_requests: dict[str, str] = {}
        ours = DeviceAllocation(
            results=tuple(replace(result, tolerations=_lasting(result)) for result in results(claim, driver)),
            config=tuple(_understood(config, names_of_requests) for config in configs(claim, driver)),
        )
        allocation = replace(allocation, devices=ours, digest=digest(claim, driver))
    return replace(claim, status=replace(claim.status, allocation=allocation, devices=()))


def _understood(config: AllocationConfig, known: dict[str, str]) -> AllocationConfig:
    """`known`: each config of a claim may name all its requests."""
    opaque = config.opaque and replace(config.opaque, parameters=nvidia.understand(config.opaque.parameters))
    return replace(config, requests=tuple(known.setdefault(name, name) for name in config.requests), opaque=opaque)


def digest(claim: ResourceClaim, driver: str) -> str:
    """Names one allocation: a claim can lose its devices and get others under the same uid."""
    if claim.status.allocation and claim.status.allocation.digest:
        return claim.status.allocation.digest
    told = {
        "results": [
            [result.request, result.pool, result.device, result.share_id, result.admin_access, result.consumed_capacity]
            for result in results(claim, driver)
        ],
        "configs": [
            [config.source, config.requests, _readable(config.opaque.parameters) if config.opaque else None]
            for config in configs(claim, driver)
        ],
    }
    return hashlib.sha256(strict_json.canonical(told)).hexdigest()[:16]


def _readable(parameters: Any) -> Any:
    # They are refused however they go on, and Python cannot write them.
    return "nested too deeply" if strict_json.is_too_deep(parameters) else parameters


def base_request(request: str) -> str:
    """Of `gpu/big`, the alternative `big` of request `gpu`, as the kubelet knows it."""
    return request.partition("/")[0]


def users(claim: ResourceClaim) -> tuple[str, ...]:
    """Who it is reserved for: pods, as a rule."""
    return tuple(
        consumer.name if consumer.resource == "pods" else f"{consumer.resource}/{consumer.name}"
        for consumer in claim.status.reserved_for
    )


def display_name(claim: ResourceClaim) -> str:
    return f"{claim.metadata.namespace}/{claim.metadata.name}"


def requested_classes(claim: ResourceClaim) -> AbstractSet[str]:
    """The device classes that it waits for; none once it was allocated."""
    if claim.status.allocation is not None or claim.metadata.deletion_timestamp is not None:
        return frozenset()
    requests = claim.spec.devices.requests
    wishes = [wish for request in requests for wish in (request.exactly, *request.first_available) if wish]
    return {wish.device_class_name for wish in wishes}


def nodes_of(claim: ResourceClaim, driver: str) -> AbstractSet[str]:
    """The nodes whose devices it holds."""
    return {names.node_of_pool(result.pool) for result in results(claim, driver)}


def policies_of(claim: ResourceClaim, driver: str) -> AbstractSet[str]:
    """The policies for whose tenants its devices are reserved."""
    return {policy for result in results(claim, driver) if (policy := names.policy_of_pool(result.pool)) is not None}


def tolerates(result: AllocationResult, taint: str) -> bool:
    """Whether it tolerates the taint without a time limit. `taint`: the key of a NoExecute taint without a value."""
    return any(toleration.key in {"", taint} for toleration in _lasting(result))


def _lasting(result: AllocationResult) -> tuple[Toleration, ...]:
    """Those of taints of ours, without a time limit."""
    return tuple(
        [
            toleration
            for toleration in result.tolerations
            if toleration.key in {"", names.DRAINING, names.CONFLICT_TAINT}
            and (toleration.operator == "Exists" or not toleration.value)
            and toleration.effect in {"", _NO_EXECUTE}
            and toleration.toleration_seconds is None
        ]
    )


def is_prepared_as(status: ClaimStatus, results: Iterable[AllocationResult]) -> bool:
    """Whether the agent prepared exactly this allocation: under the same uid a claim can get other devices."""
    return {(one.request, one.device) for one in status.settings} == {(one.request, one.device) for one in results}
