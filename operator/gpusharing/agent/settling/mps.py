"""MPS control daemons: one for each GPU that claims share by MPS, and one for each claim that has whole GPUs so.

A daemon is known by its directory. All directories in ours are ours, whichever agent made them.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import structlog

from gpusharing.agent.settling.drift import Drift, Drifted
from gpusharing.agent.state.models import PreparedClaim, PreparedDevice
from gpusharing.agent.state.records import Records
from gpusharing.api import names
from gpusharing.nvidia.gpu_node import GpuNode
from gpusharing.nvidia.mps.daemon import MpsDaemon, MpsLimits, MpsSetup
from gpusharing.nvidia.mps.directory import MpsDirectory

log = structlog.get_logger(__name__)

# Whoever is still connected when the last claim has been given back, has lost its container.
_GRACE: Final = 0


class Mps:
    def __init__(self, hardware: GpuNode, records: Records, drift: Drift, *, home: Path) -> None:
        self._hardware = hardware
        self._records = records
        self._home = home
        self._drift = drift
        # One that does not answer holds up its own GPUs only.
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._running: dict[str, MpsSetup] = {}
        # Also while nobody has asked the hardware again.
        self._started: dict[str, MpsSetup] = {}
        # All daemons of ours, wanted or not; None: to be looked for.
        self._names: set[str] | None = None

    @property
    def running(self) -> int:
        return len(self._started)

    def forget(self) -> None:
        """The next `end` and `begin` look at every daemon and its directory, and mend what they can."""
        self._running.clear()
        self._names = None

    async def end(self, uuid: str) -> None:
        """Those on this GPU that nobody wants any more."""
        if self._names is None:
            self._names = {path.name for path in await self._hardware.mps_directories(self._home)} | set(self._started)
        # Most nodes have none, and then no claim has to be looked at.
        unwanted = self._names - self._wanted().keys() if self._names else set()
        for name in sorted(unwanted):
            async with self._locks[name]:
                await self._end(name, uuid)

    async def _end(self, name: str, uuid: str) -> None:
        directory = self._home / name
        if name in self._wanted() or not await self._serves(directory, uuid):
            return
        self._running.pop(name, None)
        self._started.pop(name, None)
        await self._hardware.quit_mps(directory, grace=_GRACE)
        if self._names:
            self._names.discard(name)

    async def begin(self, uuid: str) -> None:
        """Those that claims on this GPU want."""
        for name, setup in self._wanted(claim for claim, _ in self._records.claims_on(uuid)).items():
            # Another GPU of these claims may be shared with other claims, too.
            if uuid in setup.gpus:
                async with self._locks[name]:
                    await self._begin(name, setup, uuid)

    async def _begin(self, name: str, setup: MpsSetup, uuid: str) -> None:
        if self._running.get(name) == setup:
            return
        if self._names is not None:
            self._names.add(name)
        before = self._started.pop(name, None)
        change = await self._hardware.start_mps(setup)
        self._running[name] = self._started[name] = setup
        if before == setup:
            if not _had(change.found, setup):
                self._drift.was_repaired(Drifted.MPS_DAEMON, uuid)
        elif change.now and (unconfirmed := change.now.unconfirmed(setup.limits)):
            log.warning("MPS memory limit not confirmed", gpus=unconfirmed, daemon=name)

    def pipe(self, name: str) -> Path:
        """What a daemon's clients get as its pipe directory."""
        return MpsDirectory(self._home / name).clients

    def shm(self, name: str) -> Path:
        """What they have in common as /dev/shm."""
        return MpsDirectory(self._home / name).shm

    async def _serves(self, directory: Path, uuid: str) -> bool:
        """One that has died, or has never come up, serves all alike."""
        if known := self._running.get(directory.name):
            return uuid in known.gpus
        daemon = await self._hardware.mps(directory)
        return daemon is None or uuid in daemon.gpus

    def _wanted(self, claims: Iterable[PreparedClaim] | None = None) -> Mapping[str, MpsSetup]:
        """By all claims, or by these."""
        gpus: dict[str, set[str]] = {}
        limits: dict[str, MpsLimits] = {}
        for claim, device in _sharers(self._records.claims.values() if claims is None else claims):
            name = daemon_name(claim.uid, device.device)
            gpus.setdefault(name, set()).add(device.uuid)
            limits[name] = _joined(limits.get(name), device)
        return {
            name: MpsSetup(directory=self._home / name, gpus=tuple(sorted(gpus[name])), limits=limits[name])
            for name in sorted(gpus)
        }


def _had(found: MpsDaemon | None, setup: MpsSetup) -> bool:
    return found is not None and not found.contradicts(setup.limits)


def daemon_name(claim_uid: str, device: str) -> str:
    """The directory of the daemon that a device is used through."""
    is_shared = names.sharing_of_device(device) is names.Sharing.MPS
    return f"gpu-{names.slot_of_device(device)}" if is_shared else claim_uid


def _sharers(claims: Iterable[PreparedClaim]) -> list[tuple[PreparedClaim, PreparedDevice]]:
    return [
        (claim, device)
        for claim in claims
        for device in claim.devices
        if device.settings.mps is not None and not device.admin
    ]


def _joined(limits: MpsLimits | None, device: PreparedDevice) -> MpsLimits:
    """The daemon's own limits bind all of its clients: the policy's upper bounds. Where they differ, because the policy
    has changed or a claim has several configs, the largest holds: nobody has less than was promised."""
    mps = device.settings.mps
    memory = dict(limits.memory_mib) if limits else {}
    if mps and mps.most_memory is not None:
        memory[device.uuid] = max(mps.most_memory, memory.get(device.uuid, 0))
    threads = mps.most_threads if mps else 100
    return MpsLimits(threads=max(threads, limits.threads) if limits else threads, memory_mib=memory)
