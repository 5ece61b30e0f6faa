"""How the parts that prepare claims fit together."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from gpusharing.agent.claims.devices import ClaimDevices
from gpusharing.agent.claims.files import ClaimFiles
from gpusharing.agent.claims.preparing import Preparer
from gpusharing.agent.claims.reading import ClaimReader
from gpusharing.agent.claims.recovery import ClaimRecovery
from gpusharing.agent.claims.verdicts import Verdicts
from gpusharing.agent.containers.cdi import CdiDirectory
from gpusharing.agent.containers.device_metadata import MetadataFiles
from gpusharing.agent.health.unallocated import UnallocatedClaims
from gpusharing.agent.publishing.node_gpus import NodeGpus
from gpusharing.agent.settling.settler import Settler
from gpusharing.agent.start import Start
from gpusharing.agent.state.records import Records
from gpusharing.agent.steps import Steps
from gpusharing.agent.walls.claim_walls import Walls
from gpusharing.kube.transport import Api
from gpusharing.nvidia.gpu_node import GpuNode


@dataclass(frozen=True)
class ClaimParts:
    verdicts: Verdicts
    preparer: Preparer
    recovery: ClaimRecovery

    @classmethod
    def assemble(
        cls,
        *,
        node: str,
        driver: str,
        api: Api,
        records: Records,
        hardware: GpuNode,
        gpus: NodeGpus,
        settler: Settler,
        walls: Walls,
        cdi: CdiDirectory,
        metadata: MetadataFiles,
        unallocated: UnallocatedClaims,
        start: Start,
        steps: Steps,
        on_change: Callable[[], None],
    ) -> Self:
        verdicts = Verdicts(node=node, driver=driver)
        reader = ClaimReader(api, driver=driver)
        devices = ClaimDevices(
            node=node,
            driver=driver,
            records=records,
            hardware=hardware,
            gpus=gpus,
            settler=settler,
            walls=walls,
            cdi=cdi,
            metadata=metadata,
            unallocated=unallocated,
        )
        files = ClaimFiles(gpus=gpus, walls=walls, cdi=cdi, metadata=metadata)
        preparer = Preparer(
            records=records,
            reader=reader,
            verdicts=verdicts,
            devices=devices,
            settler=settler,
            files=files,
            start=start,
            on_change=on_change,
        )
        recovery = ClaimRecovery(
            records=records,
            reader=reader,
            devices=devices,
            files=files,
            settler=settler,
            preparer=preparer,
            steps=steps,
        )
        return cls(verdicts, preparer, recovery)
