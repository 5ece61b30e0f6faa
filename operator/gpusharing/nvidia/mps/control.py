"""The commands of an MPS control daemon and its answers, read loosely because releases word them differently.

A daemon that a container has damaged may answer anything: answers are cut, numbers have at most ten digits.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from gpusharing.nvidia import programs
from gpusharing.nvidia.errors import MpsError, MpsHungError, ProgramHungError
from gpusharing.nvidia.mps.daemon import MemoryEcho
from gpusharing.nvidia.mps.processes import CONTROL

_MIB_IN: Final = {"": 1 / 1024**2, "B": 1 / 1024**2, "K": 1 / 1024, "M": 1, "G": 1024, "T": 1024**2}
_ECHO: Final = re.compile(r"(?<![\w.-])([0-9]{1,15})\s*([BKMGT]?)(?:i?B)?(?![\w.-])", re.IGNORECASE)
_PERCENTAGE: Final = re.compile(r"(?<![\w.-])([0-9]{1,3}(?:\.[0-9]{1,6})?)(?![\w.-])")
_NUMBER: Final = re.compile(r"[0-9]{1,10}")
_MOST_LINES: Final = 256
_MOST_WORDS: Final = 512


class Control:
    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], *, patience: float, files: Sequence[int] = ()
    ) -> None:
        """`command` runs NVIDIA's program where the daemon's sockets are, by these open files."""
        self._command = command
        self._environment = environment
        self._patience = patience
        self._files = files

    async def ask(self, *words: str, patience: float | None = None) -> str:
        """One command at a time, so that each answer belongs to one command."""
        program, *arguments = self._command
        try:
            result = await programs.run(
                Path(program),
                *arguments,
                environment=self._environment,
                timeout=patience or self._patience,
                stdin=f"{' '.join(words)}\n",
                files=self._files,
            )
        except ProgramHungError as error:
            raise MpsHungError(f"{CONTROL} {' '.join(words)}: no answer in time") from error
        if result.code:
            answer = result.output[:_MOST_WORDS] or "no output"
            raise MpsError(f"{CONTROL} {' '.join(words)}: exit code {result.code}: {answer}")
        return result.output

    async def default_threads(self) -> int | None:
        """An answer to this means that the daemon is ready. None: it has no number."""
        found = _PERCENTAGE.search(await self.ask("get_default_active_thread_percentage"))
        return round(float(found[1])) if found else None

    async def set_default_threads(self, percent: int) -> None:
        await self.ask("set_default_active_thread_percentage", str(percent))

    async def set_threads(self, server: int, percent: int) -> None:
        await self.ask("set_active_thread_percentage", str(server), str(percent))

    async def default_memory_limit(self, device: str) -> MemoryEcho | None:
        """None: there is no limit, or the answer has no amount."""
        return read_echo(await self.ask("get_default_device_pinned_mem_limit", device))

    async def set_default_memory_limit(self, device: str, mib: int) -> None:
        await self.ask("set_default_device_pinned_mem_limit", device, f"{mib}M")

    async def set_memory_limit(self, server: int, device: str, mib: int) -> None:
        await self.ask("set_device_pinned_mem_limit", str(server), device, f"{mib}M")

    async def servers(self) -> list[int]:
        return _numbers(await self.ask("get_server_list"))

    async def server_status(self, server: int) -> str:
        return await self.ask("get_server_status", str(server))

    async def clients(self, server: int) -> list[int]:
        return _numbers(await self.ask("get_client_list", str(server)))

    async def quit(self, seconds: int) -> None:
        """Ends it when its clients have gone, or after that time without asking them. Returns when it has ended."""
        await self.ask("quit", "-t", str(seconds), patience=seconds + self._patience)


def read_echo(answer: str) -> MemoryEcho | None:
    """`3840M`, `3G` or bytes. Only an answer with one amount is one."""
    amounts = _ECHO.findall(answer)
    if len(amounts) != 1:
        return None
    ((number, unit),) = amounts
    factor = _MIB_IN[unit.upper()]
    return MemoryEcho(mib=int(number) * factor, unit=max(1, factor))


def _numbers(answer: str) -> list[int]:
    firsts = (line.split(maxsplit=1)[:1] for line in answer.splitlines()[:_MOST_LINES])
    return [int(first[0]) for first in firsts if first and _NUMBER.fullmatch(first[0])]
