"""The fleet as JSON, and as rows of a table for spreadsheets. docs/top.md has the fields."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gpusharing.occupancy.fleet import Fleet, GpuUse, Holder, NodeUse, Use, Waiting

GPU: Final[tuple[str, ...]] = (
    "node",
    "gpu",
    "uuid",
    "model",
    "policy",
    "modes",
    "sharesTaken",
    "sharesTotal",
    "ratio",
    "memoryMiB",
    "memoryPromisedMiB",
    "memoryUsedMiB",
    "utilization",
    "health",
    "claims",
    "hiddenClaims",
)
USE: Final[tuple[str, ...]] = (
    "name",
    "gpus",
    "gpusInUse",
    "claims",
    "hiddenClaims",
    "ratio",
    "memoryMiB",
    "memoryPromisedMiB",
    "memoryUsedMiB",
    "utilization",
)


def to_json(fleet: Fleet) -> dict[str, Any]:
    """What is not known is left out."""
    return {
        "takenAt": fleet.taken_at,
        "total": _use(fleet.total),
        "nodes": [_node(one) for one in fleet.nodes],
        "policies": [_use(one) for one in fleet.policies],
        "namespaces": [_use(one) for one in fleet.namespaces],
        "waiting": [_waiting(one) for one in fleet.waiting],
        "notes": [one.to_json() for one in fleet.notes],
    }


def gpu_rows(gpus: Sequence[GpuUse]) -> list[tuple[str, ...]]:
    """In the order of `GPU`. Several modes or claims are separated by spaces, which no name has."""
    rows = []
    for gpu in gpus:
        found = _gpu(gpu) | {
            "node": gpu.node,
            "gpu": gpu.name,
            "modes": " ".join(gpu.modes),
            "claims": " ".join(dict.fromkeys(f"{one.namespace}/{one.claim}" for one in gpu.holders)),
        }
        rows.append(_cells(found, GPU))
    return rows


def use_rows(uses: Sequence[Use]) -> list[tuple[str, ...]]:
    """In the order of `USE`."""
    return [_cells(_use(one), USE) for one in uses]


def _cells(found: Mapping[str, Any], header: Sequence[str]) -> tuple[str, ...]:
    return tuple(str(found.get(name, "")) for name in header)


def _node(node: NodeUse) -> dict[str, Any]:
    problem = {"problem": node.problem} if node.problem else {}
    return {"name": node.name, **problem, "gpus": [_gpu(gpu) for gpu in node.gpus]}


def _gpu(gpu: GpuUse) -> dict[str, Any]:
    return _known(
        {
            "name": gpu.name,
            "uuid": gpu.uuid or None,
            "model": gpu.model or None,
            "policy": gpu.policy,
            "restricted": gpu.restricted or None,
            "offers": [mode.value for mode in gpu.offers or ()],
            "modes": [mode.value for mode in gpu.modes],
            "sharesTaken": gpu.shares_taken,
            "sharesTotal": gpu.shares_total,
            "ratio": _rounded(gpu.ratio),
            "memoryMiB": gpu.memory or None,
            "memoryPromisedMiB": gpu.memory_promised,
            "memoryUsedMiB": gpu.memory_used,
            "utilization": _rounded(gpu.utilization),
            "health": gpu.health or None,
            "holders": [_holder(one) for one in gpu.holders],
            "hiddenClaims": gpu.hidden,
        }
    )


def _holder(holder: Holder) -> dict[str, Any]:
    return _known(
        {
            "namespace": holder.namespace,
            "claim": holder.claim,
            "uid": holder.uid,
            "pods": list(holder.pods),
            "device": holder.device,
            "mode": holder.mode.value,
            "profile": holder.profile or None,
            "shares": holder.shares,
            "ratio": _rounded(holder.ratio),
            "memoryPromisedMiB": holder.memory_promised,
            "memoryUsedMiB": holder.memory_used,
            "utilization": _rounded(holder.utilization),
        }
    )


def _use(use: Use) -> dict[str, Any]:
    return _known(
        {
            "name": use.name or None,
            "gpus": use.gpus,
            "gpusInUse": use.gpus_in_use,
            "claims": use.claims,
            "hiddenClaims": use.hidden,
            "ratio": _rounded(use.ratio),
            "memoryMiB": use.memory,
            "memoryPromisedMiB": use.memory_promised,
            "memoryUsedMiB": use.memory_used,
            "utilization": _rounded(use.utilization),
        }
    )


def _waiting(one: Waiting) -> dict[str, Any]:
    return _known(
        {
            "namespace": one.namespace,
            "pod": one.pod,
            "since": one.since or None,
            "claims": list(one.claims),
            "finding": one.finding.to_json() if one.finding else None,
        }
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _known(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
