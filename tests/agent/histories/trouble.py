"""What happens to an agent at one of the steps at which it changes something: it is killed, or the step fails."""

import errno
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pynvml

from agent.settling.mortal import KilledError
from gpusharing.agent.containers import cdi
from gpusharing.agent.state import files
from gpusharing.nvidia import programs
from gpusharing.nvidia.hardware import Hardware
from gpusharing.nvidia.programs import Result

Failure = Callable[[], Exception]


class ProgramFailedError(Exception):
    """A program of the driver ends with an error."""


class Trouble:
    """Comes at the n-th step from now, before it or after it: each step counts twice."""

    def __init__(self) -> None:
        self.left: int | None = None
        self.kills = False
        self.disk_is_full = False
        self.came: str | None = None

    def arm(self, steps: int, *, kills: bool) -> None:
        self.left, self.kills, self.came = steps, kills, None

    def disarm(self) -> bool:
        """Whether it came."""
        came, self.left, self.came = self.came is not None, None, None
        return came

    def point(self, step: str, failure: Failure | None) -> None:
        if self.kills and self.came is not None:
            # Threads of a process that was killed come no further either.
            raise KilledError(step)
        if self.left is None or (failure is None and not self.kills):
            return
        if self.left:
            self.left -= 1
            return
        self.left, self.came = None, step
        raise KilledError(step) if self.kills or failure is None else failure()

    def threaten(self, hardware: Hardware) -> None:
        """Each change that is ordered of the driver's library."""
        change = hardware._threads.change

        def mortal(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
            self.point(f"before {function.__name__}", _driver_fails)
            result = change(function, *arguments, **keywords)
            self.point(f"after {function.__name__}", _driver_fails)
            return result

        hardware._threads.change = mortal  # type: ignore[method-assign]

    @contextmanager
    def present(self, run: Callable[..., Awaitable[Result]]) -> Iterator[None]:
        """With every file that is written or deleted, and each program that changes something (run by `run`)."""
        write, forget, delete = files.write_atomically, files.Envelopes.delete, cdi.CdiDirectory.delete

        def write_or_fail(path: Path, data: bytes, *, durable: bool = False, mode: int | None = None) -> None:
            self.point(f"before writing {path.name}", _disk_is_full)
            if self.disk_is_full:
                raise _disk_is_full()
            write(path, data, durable=durable, mode=mode)
            self.point(f"after writing {path.name}", _disk_is_full)

        def mortal(function: Callable[[Any, str], None]) -> Callable[[Any, str], None]:
            def call(directory: Any, key: str) -> None:
                self.point(f"before deleting {key}", None)
                function(directory, key)
                self.point(f"after deleting {key}", None)

            return call

        async def run_or_fail(program: Path, *arguments: str, **options: Any) -> Result:
            command = " ".join((*arguments, options.get("stdin", ""))).strip()
            asks = command.startswith("get_") or command.endswith(" -l")
            try:
                if not asks:
                    self.point(f"before {program.name} {command}", ProgramFailedError)
                result = await run(program, *arguments, **options)
                if not asks:
                    self.point(f"after {program.name} {command}", ProgramFailedError)
            except ProgramFailedError:
                return Result(command, 1, "it does not work today")
            return result

        with (
            mock.patch.object(files, "write_atomically", write_or_fail),
            mock.patch.object(files.Envelopes, "delete", mortal(forget)),
            mock.patch.object(cdi.CdiDirectory, "delete", mortal(delete)),
            mock.patch.object(programs, "run", run_or_fail),
        ):
            yield


def _driver_fails() -> Exception:
    error: Exception = pynvml.NVMLError(pynvml.NVML_ERROR_UNKNOWN)
    return error


def _disk_is_full() -> Exception:
    return OSError(errno.ENOSPC, "No space left on device")
