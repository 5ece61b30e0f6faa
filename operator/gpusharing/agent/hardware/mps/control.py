"""What is said to an MPS control daemon, and what it answers: read loosely, because releases word it differently."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from gpusharing.agent.hardware import programs
from gpusharing.agent.hardware.driver_root import DriverRoot
from gpusharing.agent.hardware.errors import MpsError, MpsHungError, ProgramHungError
from gpusharing.agent.hardware.mps.processes import CONTROL

_MIB_IN: Final = {"": 1 / 1024**2, "K": 1 / 1024, "M": 1, "G": 1024}


class Control:
    def __init__(self, root: DriverRoot, environment: Mapping[str, str], *, patience: float) -> None:
        self._root = root
        self._environment = environment
        self._patience = patience

    async def start(self, *options: str, through: Sequence[str] = ()) -> None:
        """Puts a daemon into the background, where wanted by way of a program that starts it. It does not yet answer
        when this returns."""
        words = [*through, str(self._root.program(CONTROL)), "-d", *options]
        result = await programs.run(Path(words[0]), *words[1:], environment=self._environment, timeout=self._patience)
        if result.code:
            raise MpsError(f"{result.command}: exit code {result.code}: {result.output or 'no output'}")

    async def ask(self, *words: str, patience: float | None = None) -> str:
        """One command at a time: so that its answer is its."""
        try:
            result = await programs.run(
                self._root.program(CONTROL),
                environment=self._environment,
                timeout=patience or self._patience,
                stdin=f"{' '.join(words)}\n",
            )
        except ProgramHungError as error:
            raise MpsHungError(error.problem) from error
        if result.code:
            raise MpsError(f"{result.command}: exit code {result.code}: {result.output or 'no output'}")
        return result.output

    async def default_threads(self) -> float:
        """An answer to this is what readiness means."""
        return _number(await self.ask("get_default_active_thread_percentage"))

    async def set_default_threads(self, percent: int) -> None:
        await self.ask("set_default_active_thread_percentage", str(percent))

    async def set_threads(self, server: int, percent: int) -> None:
        await self.ask("set_active_thread_percentage", str(server), str(percent))

    async def default_memory_limit(self, gpu: str) -> int | None:
        """In MiB; None: no limit."""
        return _mib(await self.ask("get_default_device_pinned_mem_limit", gpu))

    async def set_default_memory_limit(self, gpu: str, mib: int) -> None:
        await self.ask("set_default_device_pinned_mem_limit", gpu, f"{mib}M")

    async def set_memory_limit(self, server: int, gpu: str, mib: int) -> None:
        await self.ask("set_device_pinned_mem_limit", str(server), gpu, f"{mib}M")

    async def servers(self) -> list[int]:
        return _numbers(await self.ask("get_server_list"))

    async def server_status(self, server: int) -> str:
        return await self.ask("get_server_status", str(server))

    async def clients(self, server: int) -> list[int]:
        return _numbers(await self.ask("get_client_list", str(server)))

    async def quit(self, seconds: int) -> None:
        """Ends it when its clients have gone, or after that time without asking them. Returns when it has ended."""
        await self.ask("quit", "-t", str(seconds), patience=seconds + self._patience)


def _number(answer: str) -> float:
    found = re.search(r"\d+(\.\d+)?", answer)
    if found is None:
        raise MpsError(f"{CONTROL} answers without a number: {answer or 'nothing'}")
    return float(found[0])


def _numbers(answer: str) -> list[int]:
    return [int(line.split()[0]) for line in answer.splitlines() if line.split()[:1] and line.split()[0].isdecimal()]


def _mib(answer: str) -> int | None:
    found = re.search(r"(\d+)\s*([KMG]?)", answer)
    return round(int(found[1]) * _MIB_IN[found[2]]) if found else None
