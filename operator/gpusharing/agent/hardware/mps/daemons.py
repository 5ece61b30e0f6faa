"""MPS control daemons: each has a directory, by which it is found again whoever started it."""

import asyncio
import contextlib
import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

from gpusharing.agent.hardware.driver_root import DriverRoot
from gpusharing.agent.hardware.errors import DisobeyedError, HardwareError, MpsError, MpsHungError
from gpusharing.agent.hardware.facts import Change, MpsDaemon, MpsLimits, MpsServer, MpsServerStatus, MpsSetup
from gpusharing.agent.hardware.mps import apart, processes
from gpusharing.agent.hardware.mps.control import Control
from gpusharing.agent.hardware.mps.directory import MpsDirectory, make_shared_memory
from gpusharing.agent.hardware.mps.ending import end_all
from gpusharing.agent.hardware.mps.processes import Process

PATIENCE: Final = 5.0
"""How many seconds an answer may take."""
_READY_WITHIN: Final = 10.0
_LOOK_EVERY: Final = 0.02
# One server for the clients of all users: else those of one wait until those of the other have gone.
_OPTIONS: Final = ("-multiuser-server",)
_AFRESH: Final = "quit it when its clients have gone, and start it then"


class MpsDaemons:
    def __init__(self, root: DriverRoot, cgroups: Path, *, patience: float = PATIENCE) -> None:
        self._root = root
        self._cgroups = cgroups
        self._patience = patience

    async def start(self, setup: MpsSetup) -> Change[MpsDaemon | None]:
        found = await self.read(setup.directory)
        if found is None:
            await self._start(setup)
        else:
            _require_adoptable(found, setup)
        await self._limit(setup)
        now = await self.read(setup.directory)
        if now is None or not _are_in_force(setup.limits, now.limits):
            raise DisobeyedError(f"the MPS daemon in {setup.directory} was given limits that it does not have: {now}")
        return Change(found, now)

    async def read(self, directory: Path) -> MpsDaemon | None:
        where = MpsDirectory(directory)
        process = processes.daemon(where.pipe)
        if process is None:
            return await _orphans(where)
        silent = MpsDaemon(pid=process.pid, answers=False, gpus=_gpus(process))
        try:
            return await self._read(where, silent)
        except MpsError:
            # It hangs, or has just died.
            return silent

    async def quit(self, directory: Path, *, grace: int) -> Change[MpsDaemon | None]:
        found = await self.read(directory)
        if found is None:
            return Change(None, None)
        where = MpsDirectory(directory)
        if found.answers:
            # Whatever it says: by what is left then one sees whether it has ended.
            with contextlib.suppress(MpsError):
                await self._control(where).quit(grace)
        await end_all(where.pipe)
        return Change(found, None)

    async def _start(self, setup: MpsSetup) -> None:
        where = MpsDirectory(setup.directory)
        where.make()
        if setup.shm:
            make_shared_memory(setup.shm)
        control = self._control(where, gpus=setup.gpus)
        try:
            await control.start(*_OPTIONS, through=self._apart(setup.shm) if setup.shm else ())
            await _until_ready(control)
        except HardwareError as error:
            await end_all(where.pipe)
            log = where.log_since_start().strip().splitlines()
            last_words = log[-1] if log else "nothing"
            raise MpsError(f"MPS does not start: {error.problem}; its log ends with: {last_words}") from error

    def _apart(self, shm: Path) -> tuple[str, ...]:
        return sys.executable, "-I", "-S", apart.__file__, str(shm), str(self._cgroups)

    async def _limit(self, setup: MpsSetup) -> None:
        """Also for servers that run: they would keep what they began with."""
        control = self._control(MpsDirectory(setup.directory))
        servers = await control.servers()
        await control.set_default_threads(setup.limits.threads)
        for server in servers:
            await control.set_threads(server, setup.limits.threads)
        for gpu, mib in setup.limits.memory_mib.items():
            await control.set_default_memory_limit(gpu, mib)
            for server in servers:
                await control.set_memory_limit(server, gpu, mib)

    async def _read(self, where: MpsDirectory, known: MpsDaemon) -> MpsDaemon:
        control = self._control(where)
        threads = round(await control.default_threads())
        memory = {gpu: await control.default_memory_limit(gpu) for gpu in known.gpus}
        servers = [await _server(control, pid) for pid in await control.servers()]
        return replace(
            known,
            answers=True,
            limits=MpsLimits(threads=threads, memory_mib={gpu: mib for gpu, mib in memory.items() if mib is not None}),
            servers=tuple(servers),
            failed_servers=len(re.findall(r"Server \d+ exited with status [1-9]", where.log_since_start())),
        )

    def _control(self, where: MpsDirectory, *, gpus: tuple[str, ...] = ()) -> Control:
        environment = os.environ | {
            processes.PIPE_VARIABLE: str(where.pipe),
            processes.LOG_VARIABLE: str(where.log),
            processes.DEVICES_VARIABLE: ",".join(gpus),
            # For its servers, which need the rest of the driver.
            "LD_LIBRARY_PATH": str(self._root.nvml_library().parent),
            "PATH": f"{self._root.program(processes.CONTROL).parent}:{os.environ.get('PATH', '')}",
        }
        return Control(self._root, environment, patience=self._patience)


async def _orphans(where: MpsDirectory) -> MpsDaemon | None:
    left = await asyncio.to_thread(processes.of_directory, where.pipe)
    servers = tuple(MpsServer(pid=process.pid, status=MpsServerStatus.ORPHANED) for process in left)
    return MpsDaemon(pid=None, answers=False, gpus=_gpus(left[0]), servers=servers) if left else None


def _gpus(process: Process) -> tuple[str, ...]:
    return tuple(process.environment.get(processes.DEVICES_VARIABLE, "").split(","))


async def _server(control: Control, pid: int) -> MpsServer:
    status = (await control.server_status(pid)).capitalize()
    return MpsServer(
        pid=pid,
        status=MpsServerStatus(status) if status in list(MpsServerStatus) else MpsServerStatus.UNKNOWN,
        clients=tuple(await control.clients(pid)),
    )


async def _until_ready(control: Control) -> None:
    """It goes into the background before it listens."""
    deadline = asyncio.get_running_loop().time() + _READY_WITHIN
    while True:
        try:
            await control.default_threads()
        except MpsHungError:
            raise
        except MpsError:
            if asyncio.get_running_loop().time() > deadline:
                raise
            await asyncio.sleep(_LOOK_EVERY)
        else:
            return


def _require_adoptable(found: MpsDaemon, setup: MpsSetup) -> None:
    if found.pid is None:
        servers = ", ".join(str(server.pid) for server in found.servers)
        raise MpsError(
            f"the MPS daemon in {setup.directory} is dead, and its servers {servers} may still have clients",
            remedy=_AFRESH,
        )
    if not found.answers:
        raise MpsHungError(f"the MPS daemon {found.pid} in {setup.directory} does not answer")
    if set(found.gpus) != set(setup.gpus):
        raise MpsError(
            f"the MPS daemon in {setup.directory} serves {', '.join(found.gpus)}, not {', '.join(setup.gpus)}",
            remedy=_AFRESH,
        )
    if lasting := found.limits.memory_mib.keys() - setup.limits.memory_mib.keys():
        raise MpsError(
            f"the MPS daemon in {setup.directory} limits the memory of {', '.join(sorted(lasting))}, and MPS has no "
            "command that takes a limit away",
            remedy=_AFRESH,
        )


def _are_in_force(wanted: MpsLimits, now: MpsLimits) -> bool:
    return wanted.threads == now.threads and wanted.memory_mib == now.memory_mib
