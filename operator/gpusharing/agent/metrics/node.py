"""All metrics of one agent, and the page that Prometheus gets."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from gpusharing.agent.kubelet.server import PluginServer
from gpusharing.agent.metrics import catalogue
from gpusharing.agent.metrics.attribution import Attribution
from gpusharing.agent.metrics.exposition import Family, Metric, Reading, Values, exposition
from gpusharing.agent.metrics.use import ClaimUse
from gpusharing.agent.node_loop import NodeLoop
from gpusharing.agent.publishing.node_gpus import NodeGpus
from gpusharing.agent.settling.settler import Settler
from gpusharing.agent.state.records import Records
from gpusharing.api import names
from gpusharing.kube.watches import Watches
from gpusharing.nvidia.gpu_node import GpuNode


class RecoveredGpus:
    """What became of the GPUs that an earlier agent had changed."""

    def __init__(self, records: Records, settler: Settler) -> None:
        self._records = records
        self._settler = settler
        self._changed: list[str] = []
        self.outcomes = Counter(succeeded=0, failed=0)

    def begin(self) -> None:
        self._changed = list(self._records.changed_gpus)

    def end(self) -> None:
        """Once they were settled."""
        for uuid in self._changed:
            self.outcomes["succeeded" if self._settler.problem(uuid) is None else "failed"] += 1


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
        internal_errors: Counter[str],
        unreadables: Counter[str],
        recovery: RecoveredGpus,
        attribution: Attribution,
        use: ClaimUse,
        metered: Iterable[Family],
    ) -> None:
        """`metered` are those of meters, which measure as things happen."""
        self._attribution = attribution
        self._use = use
        self._families = (
            *attribution.families,
            *use.families,
            *metered,
            _value(catalogue.PREPARED_CLAIMS, lambda: len(records.claims)),
            Reading(catalogue.CLIENTS, lambda: _clients(records)),
            _value(catalogue.GPUS, lambda: len(gpus.uuids)),
            _value(
                catalogue.GPUS_WITH_FAILED_SETTINGS,
                lambda: sum(settler.problem(uuid) is not None for uuid in gpus.uuids),
            ),
            _value(catalogue.MPS_DAEMONS, lambda: settler.mps_daemons),
            _value(catalogue.DRIVER_HUNG, lambda: int(hardware.hung() is not None)),
            _by_name(catalogue.DRIFT_REPAIRED, lambda: settler.drift.repaired),
            _by_name(catalogue.RECOVERED_GPUS, lambda: recovery.outcomes),
            _value(catalogue.QUARANTINED_FILES, lambda: records.quarantined),
            _value(catalogue.REGISTERED, lambda: int(server.registered)),
            _by_name(catalogue.SLICE_WRITES, lambda: loop.publisher.writes),
            _by_name(catalogue.UNREADABLE_OBJECTS, lambda: unreadables),
            _by_name(catalogue.INTERNAL_ERRORS, lambda: internal_errors),
            _by_name(catalogue.ROUNDS, lambda: loop.rounds),
            _by_name(catalogue.WATCH_BROKEN, watches.broken_for),
        )

    async def page(self) -> bytes:
        await self._use.look()
        self._attribution.look()
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
