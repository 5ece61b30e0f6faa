"""What the scheduler wrote into a claim, as far as it concerns our driver."""

import hashlib
from dataclasses import replace
from typing import Any

from gpusharing.api import names, nvidia, strict_json
from gpusharing.api.dra import AllocationConfig, AllocationResult, DeviceAllocation, ResourceClaim
from gpusharing.core.claims.tolerations import lasting


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
            results=tuple(replace(result, tolerations=lasting(result)) for result in results(claim, driver)),
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
