"""MPS control daemons: one for each GPU that claims share by MPS, and one for each claim that has whole GPUs so.

A daemon is known by its directory. All directories in ours are ours, whichever agent made them.
"""

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from gpusharing.agent.hardware.facts import MpsDaemon, MpsLimits, MpsSetup
from gpusharing.agent.hardware.mps.directory import MpsDirectory
from gpusharing.agent.hardware.protocol import GpuNode
from gpusharing.agent.records import PreparedClaim, PreparedDevice, Records
from gpusharing.agent.settling.drift import Drift, Drifted
from gpusharing.api import names

# Whoever is still connected when the last claim has been given back, has lost its container.
_GRACE: Final = 0


class Mps:
    def __init__(self, hardware: GpuNode, records: Records, drift: Drift, *, home: Path, shm_home: Path | None) -> None:
        self._hardware = hardware
        self._records = records
        self._home = home
        self._shm_home = shm_home
        self._drift = drift
        self._running: dict[str, MpsSetup] = {}
        # Also while nobody has asked the hardware again.
        self._started: dict[str, MpsSetup] = {}

    @property
    def running(self) -> int:
        return len(self._started)

    def forget(self) -> None:
        self._running.clear()

    async def end(self, uuid: str) -> None:
        """Those on this GPU that nobody wants any more."""
        wanted = self._wanted()
        for directory in self._directories():
            if directory.name not in wanted and await self._serves(directory, uuid):
                self._running.pop(directory.name, None)
                self._started.pop(directory.name, None)
                await self._hardware.quit_mps(directory, grace=_GRACE)
                if shm := self.shm(directory.name):
                    shutil.rmtree(shm, ignore_errors=True)
                shutil.rmtree(directory)

    async def begin(self, uuid: str) -> None:
        """Those that claims on this GPU want."""
        for name, setup in self._wanted().items():
            if uuid in setup.gpus and self._running.get(name) != setup:
                before = self._started.pop(name, None)
                change = await self._hardware.start_mps(setup)
                self._running[name] = self._started[name] = setup
                if before == setup and not _had(change.found, setup):
                    self._drift.was_repaired(Drifted.MPS_DAEMON, uuid)

    def pipe(self, name: str) -> Path:
        """Where a daemon's clients meet it."""
        return MpsDirectory(self._home / name).pipe

    def shm(self, name: str) -> Path | None:
        """What they have in common as /dev/shm."""
        return self._shm_home / name if self._shm_home else None

    async def _serves(self, directory: Path, uuid: str) -> bool:
        """One that has died, or has never come up, serves all alike."""
        if known := self._running.get(directory.name):
            return uuid in known.gpus
        daemon = await self._hardware.mps(directory)
        return daemon is None or uuid in daemon.gpus

    def _directories(self) -> list[Path]:
        return sorted(self._home.iterdir()) if self._home.is_dir() else []

    def _wanted(self) -> Mapping[str, MpsSetup]:
        gpus: dict[str, set[str]] = {}
        limits: dict[str, MpsLimits] = {}
        for claim, device in _sharers(self._records.claims.values()):
            name = daemon_name(claim.uid, device.device)
            gpus.setdefault(name, set()).add(device.uuid)
            limits[name] = _joined(limits.get(name), device)
        return {
            name: MpsSetup(
                directory=self._home / name,
                gpus=tuple(sorted(gpus[name])),
                limits=limits[name],
                shm=self.shm(name),
            )
            for name in sorted(gpus)
        }


def _had(found: MpsDaemon | None, setup: MpsSetup) -> bool:
    return found is not None and found.limits == setup.limits


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
    """The daemon's own limits bind all of its clients: the policy's upper bounds. Where the policy has changed, what
    the first of them were promised holds on."""
    mps = device.settings.mps
    memory = dict(limits.memory_mib) if limits else {}
    if mps and mps.most_memory is not None:
        memory[device.uuid] = max(mps.most_memory, memory.get(device.uuid, 0))
    return MpsLimits(threads=mps.most_threads if mps else 100, memory_mib=memory)
