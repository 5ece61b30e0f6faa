"""MPS control daemons: each has a directory, by which it is found again whoever started it."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from gpusharing.nvidia import programs
from gpusharing.nvidia.driver_root import DriverRoot
from gpusharing.nvidia.errors import HardwareError, MpsError, MpsHungError, ProgramMissingError, SettingNotAppliedError
from gpusharing.nvidia.facts import Change
from gpusharing.nvidia.mps import apart, processes, uvm
from gpusharing.nvidia.mps.control import Control
from gpusharing.nvidia.mps.daemon import MemoryEcho, MpsDaemon, MpsServer, MpsServerStatus, MpsSetup
from gpusharing.nvidia.mps.directory import SHM_SIZE, MpsDirectory
from gpusharing.nvidia.mps.ending import end_all
from gpusharing.nvidia.mps.processes import Process
from gpusharing.nvidia.mps.surroundings import Surroundings
from gpusharing.nvidia.selinux import is_on

PATIENCE: Final = 5.0
"""How many seconds a daemon has for all the questions of one look, and for all the commands of one change."""
_READY_WITHIN: Final = 10.0
_LOOK_EVERY: Final = 0.02
# One server for the clients of all users: else those of one wait until those of the other have gone.
_OPTIONS: Final = ("-multiuser-server",)
_AFRESH: Final = "delete the pods that use it; a new daemon starts when they have gone"
# One is the rule.
_MOST_SERVERS: Final = 8
_MAKE_UVM: Final = ("-u", "-c=0")


class MpsDaemons:
    def __init__(
        self,
        root: DriverRoot,
        *,
        proc: Path,
        dev: Path,
        sysfs: Path,
        cgroups: Path,
        shm_size: int = SHM_SIZE,
        patience: float = PATIENCE,
    ) -> None:
        self._around = Surroundings(root, dev, cgroups)
        self._proc = proc
        self._dev = dev
        self._sysfs = sysfs
        self._shm_size = shm_size
        self._patience = patience
        # Where they were last seen, so that not all processes have to be looked at.
        self._pids: dict[Path, int] = {}

    async def start(self, setup: MpsSetup) -> Change[MpsDaemon | None]:
        where = MpsDirectory(setup.directory)
        found = await self.read(setup.directory)
        if found is None or not await self._has_directory(found, where):
            await self._start(setup)
        else:
            _require_adoptable(found, setup, await asyncio.to_thread(where.limited))
        await self._limit(setup)
        now = await self.read(setup.directory)
        if now is None or not now.answers:
            raise MpsError(f"the MPS daemon in {setup.directory} has just ended or does not answer any more")
        if now.contradicts(setup.limits):
            raise SettingNotAppliedError(
                f"the MPS daemon in {setup.directory} was given limits that it does not have: {now}"
            )
        return Change(found, now)

    async def read(self, directory: Path) -> MpsDaemon | None:
        where = MpsDirectory(directory)
        process = await asyncio.to_thread(self._find, where)
        if process is None:
            return await asyncio.to_thread(_orphans, where)
        silent = MpsDaemon(pid=process.pid, answers=False, gpus=_gpus(process))
        try:
            async with asyncio.timeout(self._patience):
                return await self._read(where, process, silent)
        except (MpsError, ProgramMissingError, TimeoutError):
            # It hangs, or has just died.
            return silent

    async def directories(self, home: Path) -> list[Path]:
        return await asyncio.to_thread(_directories, home)

    async def quit(self, directory: Path, *, grace: int) -> Change[MpsDaemon | None]:
        where = MpsDirectory(directory)
        found = await self.read(directory)
        process = await asyncio.to_thread(self._find, where)
        if found and found.answers and process:
            # Whatever it says: by what is left then one sees whether it has ended.
            with contextlib.suppress(MpsError, ProgramMissingError):
                async with self._control(where, process) as control:
                    await control.quit(grace)
        if found:
            await end_all(directory, where.mark())
        await asyncio.to_thread(where.remove)
        self._pids.pop(directory, None)
        return Change(found, None)

    async def _has_directory(self, found: MpsDaemon, where: MpsDirectory) -> bool:
        """Otherwise it has ended when this returns, unless it has clients."""
        if found.pid is None or await asyncio.to_thread(where.is_used_by, found.pid):
            return True
        # Of one that does not answer, nobody knows.
        if not found.answers or any(server.clients for server in found.servers):
            raise MpsError(
                f"{where.path} was removed or unmounted, so new containers cannot use the MPS daemon {found.pid}",
                remedy=_AFRESH,
            )
        await end_all(where.path, where.mark())
        return False

    async def _start(self, setup: MpsSetup) -> None:
        self._around.require(processes.CONTROL)
        where = MpsDirectory(setup.directory)
        await asyncio.to_thread(where.make, shm_size=self._shm_size, with_labels=is_on(self._sysfs))
        mark = where.mark()
        await self._make_uvm(where)
        try:
            await self._run(where, processes.CONTROL, "-d", *_OPTIONS, **_variables(mark, setup.gpus))
            await self._until_ready(where)
        except HardwareError as error:
            await end_all(where.path, mark)
            log = (await asyncio.to_thread(where.log_since_start)).strip().splitlines()
            last_words = log[-1][:512] if log else "nothing"
            raise MpsError(f"MPS does not start: {error.problem}; its log ends with: {last_words}") from error
        await asyncio.to_thread(where.admit_clients)

    async def _make_uvm(self, where: MpsDirectory) -> None:
        if await asyncio.to_thread(uvm.is_there, self._dev, self._proc):
            return
        # NVIDIA's program also loads the module; without it the module may be there all the same.
        with contextlib.suppress(HardwareError):
            await self._run(where, "nvidia-modprobe", *_MAKE_UVM)
        if not await asyncio.to_thread(uvm.is_there, self._dev, self._proc):
            await asyncio.to_thread(uvm.make, self._dev, self._proc)

    async def _run(self, where: MpsDirectory, program: str, *options: str, **variables: str) -> None:
        first, *words = self._around.start(where, program, *options)
        environment = self._around.environment(**variables)
        result = await programs.run(Path(first), *words, environment=environment, timeout=self._patience)
        if result.code:
            command = " ".join((program, *options))
            raise MpsError(f"{command}: exit code {result.code}: {result.output[:512] or 'no output'}")

    async def _limit(self, setup: MpsSetup) -> None:
        """Also for servers that run: they would keep what they began with.

        A GPU is named by its index among the daemon's and by its uuid, because not every driver takes both.
        """
        where = MpsDirectory(setup.directory)
        process = await asyncio.to_thread(self._find, where)
        if process is None:
            raise MpsError(f"the MPS daemon in {where.path} has just ended")
        await asyncio.to_thread(where.note_limited, setup.limits.memory_mib)
        try:
            async with asyncio.timeout(self._patience):
                async with self._control(where, process) as control:
                    servers = (await control.servers())[:_MOST_SERVERS]
                    await control.set_default_threads(setup.limits.threads)
                    for server in servers:
                        await control.set_threads(server, setup.limits.threads)
                    for uuid, mib in setup.limits.memory_mib.items():
                        for name in _names(uuid, setup.gpus):
                            await control.set_default_memory_limit(name, mib)
                            for server in servers:
                                await control.set_memory_limit(server, name, mib)
        except TimeoutError as error:
            raise MpsHungError(f"the MPS daemon {process.pid} in {where.path} does not answer in time") from error

    async def _read(self, where: MpsDirectory, process: Process, known: MpsDaemon) -> MpsDaemon:
        async with self._control(where, process) as control:
            threads = await control.default_threads()
            memory = {uuid: await _memory(control, uuid, known.gpus) for uuid in known.gpus}
            servers = [await _server(control, pid) for pid in (await control.servers())[:_MOST_SERVERS]]
        log = await asyncio.to_thread(where.log_since_start)
        return replace(
            known,
            answers=True,
            threads=threads,
            memory={uuid: echo for uuid, echo in memory.items() if echo is not None},
            servers=tuple(servers),
            failed_servers=len(re.findall(r"Server \d+ exited with status [1-9]", log)),
        )

    async def _until_ready(self, where: MpsDirectory) -> None:
        """It goes into the background before it listens."""
        deadline = asyncio.get_running_loop().time() + _READY_WITHIN
        while True:
            try:
                await self._require_answer(where)
            except MpsHungError:
                raise
            except MpsError:
                if asyncio.get_running_loop().time() > deadline:
                    raise
                await asyncio.sleep(_LOOK_EVERY)
            else:
                return

    async def _require_answer(self, where: MpsDirectory) -> None:
        process = await asyncio.to_thread(self._find, where)
        if process is None:
            raise MpsError("the daemon has ended")
        async with self._control(where, process) as control:
            await control.default_threads()

    def _find(self, where: MpsDirectory) -> Process | None:
        mark = where.mark()
        known = processes.read(self._pids[where.path], mark) if where.path in self._pids else None
        if known is None:
            known = next((process for process in processes.with_mark(mark) if process.is_daemon), None)
        if known is None:
            self._pids.pop(where.path, None)
        else:
            self._pids[where.path] = known.pid
        return known

    @contextlib.asynccontextmanager
    async def _control(self, where: MpsDirectory, daemon: Process) -> AsyncIterator[Control]:
        with contextlib.ExitStack() as stack:
            mark, (command, files) = await asyncio.to_thread(self._reach, stack, where, daemon)
            environment = self._around.environment(**_variables(mark))
            yield Control(command, environment, patience=self._patience, files=files)

    def _reach(
        self, stack: contextlib.ExitStack, where: MpsDirectory, daemon: Process
    ) -> tuple[str, tuple[Sequence[str], Sequence[int]]]:
        mark = where.mark()
        return mark, stack.enter_context(self._around.beside(daemon, mark))


def _variables(mark: str, gpus: tuple[str, ...] = ()) -> dict[str, str]:
    return {
        processes.MARK_VARIABLE: mark,
        processes.PIPE_VARIABLE: str(apart.DIRECTORY / "pipe"),
        processes.LOG_VARIABLE: str(apart.DIRECTORY / "log"),
        processes.DEVICES_VARIABLE: ",".join(gpus),
    }


def _directories(home: Path) -> list[Path]:
    there = [path for path in home.iterdir() if not path.name.startswith(".")] if home.is_dir() else []
    secret = MpsDirectory(home / "any").mark().partition(" ")[0]
    marks = [process.environment[processes.MARK_VARIABLE] for process in processes.with_mark(secret)]
    return sorted({*there, *(Path(mark.partition(" ")[2]) for mark in marks)})


def _orphans(where: MpsDirectory) -> MpsDaemon | None:
    left = processes.with_mark(where.mark())
    servers = tuple(MpsServer(pid=process.pid, status=MpsServerStatus.ORPHANED) for process in left)
    return MpsDaemon(pid=None, answers=False, gpus=_gpus(left[0]), servers=servers) if left else None


def _gpus(process: Process) -> tuple[str, ...]:
    return tuple(process.environment.get(processes.DEVICES_VARIABLE, "").split(","))


def _names(uuid: str, gpus: tuple[str, ...]) -> tuple[str, ...]:
    return str(gpus.index(uuid)), uuid


async def _memory(control: Control, uuid: str, gpus: tuple[str, ...]) -> MemoryEcho | None:
    for name in _names(uuid, gpus):
        if echo := await control.default_memory_limit(name):
            return echo
    return None


async def _server(control: Control, pid: int) -> MpsServer:
    status = (await control.server_status(pid)).capitalize()
    return MpsServer(
        pid=pid,
        status=MpsServerStatus(status) if status in list(MpsServerStatus) else MpsServerStatus.UNKNOWN,
        clients=tuple(await control.clients(pid)),
    )


def _require_adoptable(found: MpsDaemon, setup: MpsSetup, limited: frozenset[str]) -> None:
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
    if lasting := limited - setup.limits.memory_mib.keys():
        raise MpsError(
            f"the MPS daemon in {setup.directory} limits the memory of {', '.join(sorted(lasting))}, and MPS has no "
            "command that takes a limit away",
            remedy=_AFRESH,
        )
