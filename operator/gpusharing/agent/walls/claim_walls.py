"""The walls of this node's claims: where there can be any, and for our hook what the claims' records say."""

from collections.abc import Iterable
from pathlib import Path

import structlog

from gpusharing.agent.state.models import PreparedClaim, PreparedDevice, WallHook
from gpusharing.agent.state.records import Records
from gpusharing.agent.walls.directories import NotedContainer, WallDirectories
from gpusharing.agent.walls.program import NAME, NoProgramError, install
from gpusharing.agent.walls.wall import Wall
from gpusharing.api.sharing.device_settings import MemorySettings
from gpusharing.api.sharing.gpu_status import MemoryWallSupport
from gpusharing.nvidia.cdi_specs import MEMORY_LIMITS, CdiSpecs
from gpusharing.nvidia.errors import DriverDownError, HardwareError
from gpusharing.nvidia.gpu_node import GpuNode
from gpusharing.nvidia.memory_walls import WallObstacle

log = structlog.get_logger(__name__)


class NoWallError(Exception):
    """A wall cannot be built as things are. The message says what to do."""


class Walls:
    def __init__(self, hardware: GpuNode, records: Records, specs: CdiSpecs, *, state: Path, packaged: Path) -> None:
        """`state` has the same path on the host; `packaged` is our hook as the image has it."""
        self._hardware = hardware
        self._records = records
        self._specs = specs
        self._packaged = packaged
        self._program = state / "bin" / NAME
        self._directories = WallDirectories(state / "walls")
        self._missing: str | None = None
        self._install()

    def _install(self) -> None:
        try:
            install(self._program.parent, self._packaged)
        except NoProgramError as error:
            if str(error) != self._missing:
                log.warning("no memory walls on this node", error=str(error))
            self._missing = str(error)
        else:
            self._missing = None

    async def supports(self, uuids: Iterable[str]) -> dict[str, MemoryWallSupport]:
        return {uuid: await self.support(uuid) for uuid in uuids}

    async def support(self, uuid: str) -> MemoryWallSupport:
        """As things are now: drivers, toolkits and settings of the GPU change."""
        try:
            obstacles = dict((await self._hardware.memory_wall(uuid)).obstacles)
        except DriverDownError:
            raise
        except HardwareError as error:
            # A GPU that does not answer is no reason to say nothing of the others.
            return MemoryWallSupport(supported=False, reason=str(error))
        if self._records.journal(uuid).mig_mode is not None:
            # It is on for claims, and goes off with the last of them, before anybody shares the GPU.
            obstacles.pop(WallObstacle.MIG_MODE, None)
        reasons = [*obstacles.values(), *([self._missing] if self._missing else [])]
        return MemoryWallSupport(supported=not reasons, reason="; ".join(reasons) or None)

    def hook(self, claim_uid: str, index: int) -> WallHook:
        """What a container has to be given, so that the wall of this device of the claim is its."""
        return WallHook(program=str(self._program), directory=str(self._directories.path(claim_uid, index)))

    def build(self, claim: PreparedClaim) -> None:
        """May be repeated, and binds containers that start from then on."""
        for index, device in enumerate(claim.devices):
            if memory := device.settings.memory:
                self._build(claim, index, device, memory)

    def are_complete(self, claim: PreparedClaim) -> bool:
        """Whether those of its devices are there, with the program that its containers start."""
        walled = [index for index, device in enumerate(claim.devices) if device.settings.memory]
        return not walled or (
            self._program.is_file() and all(self._directories.has(claim.uid, index) for index in walled)
        )

    def containers(self, claim_uid: str, index: int) -> list[NotedContainer]:
        """That our hook has let in to this device of the claim."""
        return self._directories.containers(claim_uid, index)

    def delete(self, claim_uid: str) -> None:
        """Once nothing refers to them any more."""
        self._directories.delete(claim_uid)

    def renew(self) -> None:
        """As the prepared claims have them and NVIDIA's specs are now, with no others."""
        self._install()
        for uid in self._directories.claims():
            if uid not in self._records.claims and uid not in self._records.lost_claims:
                self.delete(uid)
        for claim in self._records.claims.values():
            try:
                self.build(claim)
            except NoWallError as error:
                # Our hook lets no container in where it finds none.
                log.warning("memory wall is missing", claim=claim.display_name, claim_uid=claim.uid, error=str(error))

    def _build(self, claim: PreparedClaim, index: int, device: PreparedDevice, memory: MemorySettings) -> None:
        hook = self._specs.hook(self._specs.gpu(device.uuid), MEMORY_LIMITS)
        if hook is None and self._directories.has(claim.uid, index):
            # As it was built before: whether it still holds, our hook finds out for each container.
            return
        where = f"request {device.request}: device {device.device} can have no memory wall"
        if hook is None:
            raise NoWallError(
                f"{where}: no CDI spec has the hook {MEMORY_LIMITS} for GPU {device.uuid} any more: run `nvidia-ctk "
                "cdi generate` of nvidia-container-toolkit 1.20.1 or newer on the node"
            )
        wall = Wall(
            claim=claim.display_name,
            uuid=device.uuid,
            limit_mib=memory.limit,
            enforcement=memory.enforcement,
            nvidia_hook=hook,
        )
        try:
            self._directories.write(claim.uid, index, wall)
        except ValueError as error:
            raise NoWallError(f"{where}: the CDI spec of GPU {device.uuid} cannot be used: {error}") from error
