"""What each expression returns for the workload. Labels that are not named are not compared."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from monitoring.bed import Place, utilization_of
from monitoring.workload import IDLE, MIG, MPS, QUOTA, SHARE, WHOLE, WORKERS, Worker

Values = Mapping[tuple[str, ...], float]
Places = Mapping[Worker, Place]

MIB: Final = 1024**2
GPU_MEMORY: Final = 81559 * MIB
OF_MPS: Final = 20 * 1024 * MIB / GPU_MEMORY
PROMISED: Final[Mapping[Worker, float]] = {SHARE: 1 / 4, IDLE: 1 / 4, WHOLE: 1, MPS: OF_MPS, MIG: 1 / 8}
USED: Final[Mapping[Worker, float]] = {worker: worker.utilization / 100 for worker in WORKERS if worker is not MIG}
"""Of MIG devices NVML does not tell it."""
MEMORY_USED: Final[Mapping[Worker, float]] = {worker: worker.memory * 1024 * MIB for worker in WORKERS}
GPUS: Final = 4


@dataclass(frozen=True)
class Expected:
    labels: tuple[str, ...]
    values: Callable[[Places], Values]


def one(value: float) -> Expected:
    return Expected((), lambda _: {(): value})


def by(labels: str, values: Mapping[str, float]) -> Expected:
    return Expected(tuple(labels.split()), lambda _: {tuple(key.split()): value for key, value in values.items()})


def nothing() -> Expected:
    return Expected((), lambda _: {})


def by_namespace(amounts: Mapping[Worker, float], divided_by: float = 1) -> Expected:
    namespaces = {worker.namespace for worker in amounts}
    return by("namespace", {name: _of_namespace(amounts, name) / divided_by for name in namespaces})


def _of_namespace(amounts: Mapping[Worker, float], namespace: str) -> float:
    return sum(amount for worker, amount in amounts.items() if worker.namespace == namespace)


def by_gpu(amounts: Mapping[Worker, float], divided_by: float = 1) -> Expected:
    def values(places: Places) -> Values:
        found = {(node, slot): 0.0 for node in ("node-1", "node-2") for slot in "01"}
        for worker, amount in amounts.items():
            place = places[worker]
            found[place.node, place.slot] += amount / divided_by
        return found

    return Expected(("node", "slot"), values)


def by_claim(labels: str, amounts: Mapping[Worker, float], *more: str) -> Expected:
    """`labels` are of its place. `more` are values of the labels after them, the same for each."""
    names = tuple(labels.split())

    def values(places: Places) -> Values:
        return {
            (worker.namespace, worker.name, *(getattr(places[worker], name) for name in names[2:])): amount
            for worker, amount in amounts.items()
        }

    return Expected(names, values)
