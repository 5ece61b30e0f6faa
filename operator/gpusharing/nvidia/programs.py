"""The driver's programs, for what its library has no call for. Each run has an end."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpusharing.nvidia.errors import ProgramError, ProgramHungError, ProgramMissingError

# One that is stuck in the driver dies when the driver lets it; nobody waits for that.
_LAST_BREATH: Final = 1.0
# More is cut: some of them say what containers make them say.
_MOST_OUTPUT: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class Result:
    command: str
    code: int
    output: str

    def failed(self) -> ProgramError:
        return ProgramError(f"{self.command}: exit code {self.code}: {self.output or 'no output'}")


async def run(
    program: Path,
    *arguments: str,
    environment: Mapping[str, str],
    timeout: float,  # noqa: ASYNC109 (what it started has to be ended, too)
    stdin: str = "",
    files: Sequence[int] = (),
) -> Result:
    """`files` stay open for it, under their numbers."""
    command = " ".join((program.name, *arguments, stdin)).strip()
    # Files rather than pipes: a daemon that keeps its output open must not be waited for.
    with _file_in_memory(stdin) as given, _file_in_memory() as output:
        try:
            process = await asyncio.create_subprocess_exec(
                program,
                *arguments,
                env=dict(environment),
                stdin=given,
                stdout=output,
                stderr=output,
                # A group of its own, so that what it starts ends with it.
                start_new_session=True,
                pass_fds=files,
            )
        except FileNotFoundError as error:
            raise ProgramMissingError(f"{command}: {error}") from error
        except OSError as error:
            raise ProgramError(f"{command}: {error}") from error
        try:
            # Not `wait_for`, which loses a cancellation that comes as the program ends.
            async with asyncio.timeout(timeout):
                code = await process.wait()
        except TimeoutError as error:
            raise ProgramHungError(f"{command}: no answer within {timeout:.0f} s") from error
        finally:
            if process.returncode is None:
                await _end(process)
        return Result(command, code, _read(output))


@contextlib.contextmanager
def _file_in_memory(content: str = "") -> Iterator[int]:
    descriptor = os.memfd_create("program")
    try:
        os.write(descriptor, content.encode())
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)


def _read(descriptor: int) -> str:
    return os.pread(descriptor, _MOST_OUTPUT, 0).decode(errors="replace").strip()


async def _end(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LAST_BREATH):
            await process.wait()
