"""Who was promised which part of which GPU, as the prepared claims and the published devices say."""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from gpusharing.agent.metrics import catalogue
from gpusharing.agent.metrics.exposition import Metric, Reading, Values
from gpusharing.agent.publishing.node_gpus import NodeGpus
from gpusharing.agent.state.models import PreparedClaim, PreparedDevice
from gpusharing.agent.state.records import Records
from gpusharing.agent.steps import Steps
from gpusharing.api import names
from gpusharing.core.claims.share_ratio import Held, promises
from gpusharing.core.devices.offered import OfferedGpu
from gpusharing.core.publishing.devices import capacities_of
from gpusharing.core.publishing.menu import menu
from gpusharing.core.publishing.shares import shares

_MIB: Final = 1024**2

Withheld = Callable[[str, Collection[str]], Mapping[str, str]]
"""Of the devices of a GPU, those that no new claim may get."""


class ClaimDevice(NamedTuple):
    """The labels by which the series of a claim's device are joined."""

    node: str
    gpu_uuid: str
    device: str
    namespace: str
    claim: str
    claim_uid: str

    @classmethod
    def of(cls, node: str, claim: PreparedClaim, device: PreparedDevice) -> "ClaimDevice":
        """Several shares of one device are one to their claim."""
        return cls(node, device.uuid, device.device, claim.namespace, claim.name, claim.uid)


class Attribution:
    def __init__(self, *, node: str, records: Records, gpus: NodeGpus, withheld: Withheld, steps: Steps) -> None:
        self._node = node
        self._records = records
        self._gpus = gpus
        self._withheld = withheld
        self._steps = steps
        self._found: dict[Metric, dict[tuple[str, ...], float]] = {}
        self.families = tuple(self._reading(metric) for metric in catalogue.ATTRIBUTION)

    def look(self) -> None:
        """`families` are all of one moment."""
        self._found = defaultdict(dict)
        for uuid in self._gpus.uuids:
            with self._steps.step("describe GPU in metrics", gpu=uuid):
                holders = self._records.claims_on(uuid)
                held = [Held(device.device, device.consumed) for _, device in holders]
                self._describe_gpu(uuid, held)
                self._describe_holders(uuid, holders, held)

    def _reading(self, metric: Metric) -> Reading:
        return Reading(metric, lambda: self._values(metric))

    def _values(self, metric: Metric) -> Values:
        return self._found.get(metric, {})

    def _describe_gpu(self, uuid: str, held: Sequence[Held]) -> None:
        wanted = self._gpus.wanted(uuid)
        options = menu(wanted)
        offers = ",".join(sorted({option.sharing for option in options}))
        policy = wanted.policy.name if wanted.policy else ""
        gpu = wanted.gpu
        info = (self._node, uuid, str(gpu.slot), gpu.product_name, policy, offers)
        self._found[catalogue.GPU_INFO][info] = 1
        self._found[catalogue.GPU_MEMORY][self._node, uuid] = gpu.usable_mib * _MIB
        unhealthy = self._withheld(uuid, [option.device for option in options])
        for sharing, (taken, free) in shares(replace(wanted, unhealthy=unhealthy), held).items():
            self._found[catalogue.GPU_SHARES][self._node, uuid, sharing, "taken"] = taken
            self._found[catalogue.GPU_SHARES][self._node, uuid, sharing, "free"] = free

    def _describe_holders(
        self, uuid: str, holders: Sequence[tuple[PreparedClaim, PreparedDevice]], held: Sequence[Held]
    ) -> None:
        offered = self._gpus.published(uuid)
        published = {one.device: capacities_of(offered, one.device) for one in held}
        memory = 0
        for (claim, device), promise in zip(holders, promises(offered.gpu, held, published), strict=True):
            of = ClaimDevice.of(self._node, claim, device)
            self._found[catalogue.CLAIM_DEVICE_INFO][self._info(of, device, offered)] = 1
            _add(self._found[catalogue.CLAIM_SHARE_RATIO], of, float(promise.ratio))
            _add(self._found[catalogue.CLAIM_MEMORY_PROMISED], of, promise.memory_mib * _MIB)
            memory += promise.memory_mib
        self._found[catalogue.GPU_MEMORY_PROMISED][self._node, uuid] = memory * _MIB

    def _info(self, of: ClaimDevice, device: PreparedDevice, offered: OfferedGpu) -> tuple[str, ...]:
        name = names.read_device(device.device)
        profile = offered.gpu.mig.profile(name.place.profile_id) if name and name.place and offered.gpu.mig else None
        entries = self._gpus.entries(of.gpu_uuid)
        policy = next((entry.policy for entry in entries if entry.device == device.device), None)
        sharing = name.sharing if name else ""
        return *of, device.pool, policy or "", sharing, profile.name if profile else "", device.mig_uuid or ""


def _add(values: dict[tuple[str, ...], float], labels: tuple[str, ...], value: float) -> None:
    values[labels] = values.get(labels, 0) + value
