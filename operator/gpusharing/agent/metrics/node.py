"""All metrics of one agent, and the page that Prometheus gets."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Self

from gpusharing.agent.dra.server import PluginServer
from gpusharing.agent.gpus import NodeGpus
from gpusharing.agent.hardware.protocol import GpuNode
from gpusharing.agent.metrics import catalogue
from gpusharing.agent.metrics.exposition import Family, Metric, Reading, Values, exposition
from gpusharing.agent.metrics.memory import WallMemory
from gpusharing.agent.node import NodeLoop
from gpusharing.agent.records import Records
from gpusharing.agent.settling.settler import Settler
from gpusharing.api import names
from gpusharing.kube.watches import Watches


class Recovery(NamedTuple):
    """What became of the GPUs that an earlier agent had changed."""

    succeeded: int
    failed: int

    @classmethod
    def of(cls, changed_before: Iterable[str], settler: Settler) -> Self:
        outcomes = Counter(settler.problem(uuid) is None for uuid in changed_before)
        return cls(succeeded=outcomes[True], failed=outcomes[False])


class NodeMetrics:
    def __init__(
        self,
        *,
        records: Records,
        gpus: NodeGpus,
        settler: Settler,
        hardware: GpuNode,
        server: PluginServer,
        loop: NodeLoop,
        watches: Watches,
        unreadables: Counter[str],
        recovery: Recovery,
        memory: WallMemory,
        metered: Iterable[Family],
    ) -> None:
        """`metered` are those of meters, which measure as things happen."""
        self._memory = memory
        self._families = (
            *metered,
            *memory.families,
            _value(catalogue.PREPARED_CLAIMS, lambda: len(records.claims)),
            Reading(catalogue.CLIENTS, lambda: _clients(records)),
            _value(catalogue.GPUS, lambda: len(gpus.uuids)),
            _value(catalogue.DISOBEYING_GPUS, lambda: sum(settler.problem(uuid) is not None for uuid in gpus.uuids)),
            _value(catalogue.MPS_DAEMONS, lambda: settler.mps_daemons),
            _value(catalogue.DRIVER_HUNG, lambda: int(hardware.hung() is not None)),
            _by_name(catalogue.DRIFT_REPAIRED, lambda: settler.drift.repaired),
            _by_name(catalogue.RECOVERED_GPUS, lambda: Counter(recovery._asdict())),
            _value(catalogue.QUARANTINED_FILES, lambda: records.quarantined),
            _value(catalogue.REGISTERED, lambda: int(server.registered)),
            _by_name(catalogue.SLICE_WRITES, lambda: loop.publisher.writes),
            _by_name(catalogue.UNREADABLE_OBJECTS, lambda: unreadables),
            _by_name(catalogue.ROUNDS, lambda: loop.rounds),
            _by_name(catalogue.WATCH_BROKEN, watches.broken_for),
        )

    async def page(self) -> bytes:
        await self._memory.look()
        return exposition(self._families)


def _value(metric: Metric, read: Callable[[], float]) -> Reading:
    return Reading(metric, lambda: {(): read()})


def _by_name(metric: Metric, read: Callable[[], Mapping[str, float]]) -> Reading:
    return Reading(metric, lambda: {(name,): count for name, count in read().items()})


def _clients(records: Records) -> Values:
    """Whoever only looks holds nothing."""
    devices = [device for claim in records.claims.values() for device in claim.devices if not device.admin]
    held = Counter(names.sharing_of_device(device.device) for device in devices)
    return {(sharing.value,): held[sharing] for sharing in names.Sharing}
