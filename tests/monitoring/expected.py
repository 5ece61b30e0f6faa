"""What each expression returns for the workload."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from monitoring.bed import PRICES, Place, dcgm_values
from monitoring.workload import GIB, IDLE, MIG, MPS, OF_MPS, QUOTA, SHARE, WHOLE, WORKERS, Worker

Amounts = Mapping[Worker, float]
Places = Mapping[Worker, Place]

GPUS: Final[tuple[tuple[str, ...], ...]] = tuple((node, slot) for node in PRICES for slot in "01")
USED: Final = {worker: worker.utilization / 100 for worker in WORKERS if worker is not MIG}
"""NVML has no utilization of processes on MIG instances."""
MEMORY_USED: Final = {worker: float(worker.memory * GIB) for worker in WORKERS}
CONDITIONS: Final = ("Accepted True", "Ready True", "Progressing False", "Conflicted False", "Degraded False")


class Expected(NamedTuple):
    labels: tuple[str, ...]
    """Others are not compared."""
    values: Mapping[tuple[str, ...], float]


NOTHING: Final = Expected((), {})


def of_panels(places: Places) -> Mapping[str, Expected]:
    promised = _promised(places)
    # Of a GPU, as much as programs can use.
    memory = places[MPS].memory
    memory_promised = memory + OF_MPS + places[MIG].memory
    per_gpu = {worker: amount / memory for worker, amount in MEMORY_USED.items()}
    return {
        "GPUs": _one(len(GPUS)),
        "Promised": _one(sum(promised.values()) / len(GPUS)),
        "Used": _one(sum(USED.values()) / len(GPUS)),
        "Memory promised": _one(memory_promised / memory / len(GPUS)),
        "Claims on GPUs": _one(len(WORKERS)),
        "Waiting claims": _one(1),
        "Promised and used GPUs: GPUs": _one(len(GPUS)),
        "Promised and used GPUs: promised": _one(sum(promised.values())),
        "Promised and used GPUs: used": _one(sum(USED.values())),
        "Waiting claims by reason": _by("reason", {"NotPlaced": 1}),
        "Promised, by GPU": _by_gpu(promised, places),
        "Used, by GPU": _by_gpu(USED, places),
        "Memory used, by GPU": _by_gpu(per_gpu, places),
        "Shares": _by(
            "sharing state",
            {
                "TimeSlicing taken": 2,
                "TimeSlicing free": 2,
                "Exclusive taken": 1,
                "Exclusive free": 0,
                "MPS taken": 1,
                "MPS free": 3,
                "MIG taken": 1,
                "MIG free": 6,
            },
        ),
        "Claims and their GPUs": _by_claim(promised, places, "node", "gpu_uuid", "device"),
        "Promised GPUs by namespace": _by_namespace(promised),
        "Used GPUs by namespace": _by_namespace(USED),
        "Quota used": _by(
            "namespace policy sharing", {"red shares TimeSlicing": 2 / QUOTA, "blue shares TimeSlicing": 1 / QUOTA}
        ),
        "Idle holders": _by_claim({IDLE: promised[IDLE]}, places, "node", "device"),
        "Conditions": _by(
            "policy type status",
            {f"{policy} {condition}": 1 for policy in ("shares", "parts") for condition in CONDITIONS},
        ),
        "GPUs and clients by policy: {{policy}}: GPUs": _by("policy", {"shares": 2, "parts": 2}),
        "GPUs and clients by policy: {{policy}}: clients": _by("policy", {"shares": 3, "parts": 2}),
        "Rollout": _by("policy state", {"shares Ready": 1, "parts Ready": 1}),
        "Evictions": _by("policy", {"shares": 0, "parts": 0}),
        "Agents down": _one(0),
        "Leaders": _one(1),
        "Drivers that hang": _one(0),
        "GPUs with failed settings": _one(0),
        "Writes that fail": _one(0),
        "Claims that were not prepared": NOTHING,
    }


def of_queries(places: Places) -> Mapping[str, Expected]:
    promised = _promised(places)
    by_dcgm = {worker: dcgm_values(place.node, int(place.slot)) for worker, place in places.items()}
    utilization = {worker: values["DCGM_FI_DEV_GPU_UTIL"] for worker, values in by_dcgm.items()}
    used = {worker: values["DCGM_FI_DEV_FB_USED"] for worker, values in by_dcgm.items()}
    told = {worker: amount for worker, amount in promised.items() if worker in USED}
    return {
        "Pods behind claims": _by_claim(dict.fromkeys(WORKERS, 1.0), places, "gpu_uuid"),
        "Utilization of the GPU of each pod, by NVIDIA's dcgm-exporter": _by_claim(utilization, places, "gpu_uuid"),
        "Memory used on the GPU of each claim, in MiB": _by_claim(used, places, "gpu_uuid"),
        "What part of the GPUs each namespace was promised": _by_namespace(promised, len(GPUS)),
        "What part of the GPUs each namespace uses, without MIG": _by_namespace(USED, len(GPUS)),
        "Used of what was promised, by namespace, of claims that have both": _by(
            "namespace",
            {name: _of_namespace(USED, name) / _of_namespace(told, name) for name in ("red", "blue")},
        ),
        "Memory used by claims, by namespace": _by_namespace(MEMORY_USED),
        "GPUs of which nothing is promised": NOTHING,
        "Claims of at least an hour that used less than 5 % of their GPU at any time of it, without MIG": _by_claim(
            {IDLE: promised[IDLE]}, places, "device"
        ),
        "Waiting claims by reason": _by("reason", {"NotPlaced": 1}),
        "Waiting claims by namespace and policy": _by("namespace policy", {"red shares": 1}),
        "Quotas that are used up": _by("namespace policy sharing", {"red shares TimeSlicing": QUOTA}),
        "Policies that are not ready": NOTHING,
        "Nodes on which a policy is not in force yet": NOTHING,
    }


def promised_by_namespace(places: Places) -> Expected:
    return _by_namespace(_promised(places))


def _promised(places: Places) -> Amounts:
    """Parts of GPUs."""
    return {SHARE: 1 / 4, IDLE: 1 / 4, WHOLE: 1, MPS: OF_MPS / places[MPS].memory, MIG: 1 / 8}


def _one(value: float) -> Expected:
    return Expected((), {(): value})


def _by(labels: str, values: Mapping[str, float]) -> Expected:
    """Labels and their values are divided by spaces."""
    return Expected(tuple(labels.split()), {tuple(key.split()): value for key, value in values.items()})


def _by_namespace(amounts: Amounts, divided_by: float = 1) -> Expected:
    return _by("namespace", {name: _of_namespace(amounts, name) / divided_by for name in ("red", "blue")})


def _of_namespace(amounts: Amounts, namespace: str) -> float:
    return sum(amount for worker, amount in amounts.items() if worker.namespace == namespace)


def _by_gpu(amounts: Amounts, places: Places) -> Expected:
    sums = dict.fromkeys(GPUS, 0.0)
    for worker, amount in amounts.items():
        sums[places[worker].node, places[worker].slot] += amount
    return Expected(("node", "slot"), sums)


def _by_claim(amounts: Amounts, places: Places, *more: str) -> Expected:
    """`more` are labels of its place."""
    values = {
        (worker.namespace, worker.name, *(getattr(places[worker], name) for name in more)): amount
        for worker, amount in amounts.items()
    }
    return Expected(("namespace", "claim", *more), values)
