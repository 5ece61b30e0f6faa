"""`python -m harness.watched agent ...`: `gpusharing agent ...` on slow disks, which logs what blocks its event loop.

A step of the loop is measured by the processor time of its thread: a machine that is busy with other things makes no
difference. What waits for disks, the kernel or others takes no processor time, so it is looked for by name: none of it
belongs on the loop, however fast it is today.
"""

import asyncio
import os
import shutil
import sys
import time
import traceback
from collections.abc import Callable
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

import structlog

from gpusharing.cli.main import main

P = ParamSpec("P")
T = TypeVar("T")

log = structlog.get_logger(__name__)

EVENT: Final = "event loop blocked"
LONGEST_STEP: Final = 0.02
"""In seconds."""
SLOW_DISK: Final = 0.05
"""How long it takes to force anything to the disk."""
_FRAMES: Final = 8


def is_on_the_loop() -> bool:
    return asyncio._get_running_loop() is not None


def watch(directories: tuple[str, ...]) -> None:
    """Nothing below `directories` is to be opened on the loop: what others write there may be large or slow to read."""
    asyncio.Handle._run = _timed(asyncio.Handle._run)  # type: ignore[assignment, method-assign]
    os.fsync = _never_on_the_loop(_slow(os.fsync))
    os.mknod = _never_on_the_loop(os.mknod)
    shutil.rmtree = _never_on_the_loop(shutil.rmtree)  # type: ignore[assignment]

    def hear(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str) and arguments[0].startswith(directories):
            _note_if_on_the_loop(f"open {arguments[0]}")

    sys.addaudithook(hear)


def _timed(run: Callable[[asyncio.Handle], None]) -> Callable[[asyncio.Handle], None]:
    def timed(handle: asyncio.Handle) -> None:
        began = time.thread_time()
        run(handle)
        took = time.thread_time() - began
        if took > LONGEST_STEP:
            task = getattr(handle._callback, "__self__", None)  # type: ignore[attr-defined]
            log.error(EVENT, by=f"step {handle!r} of {task!r}"[:700], seconds=round(took, 3))

    return timed


def _never_on_the_loop(function: Callable[P, T]) -> Callable[P, T]:
    @wraps(function)
    def noted(*arguments: P.args, **keywords: P.kwargs) -> T:
        _note_if_on_the_loop(function.__name__)
        return function(*arguments, **keywords)

    return noted


def _slow(function: Callable[P, T]) -> Callable[P, T]:
    @wraps(function)
    def slow(*arguments: P.args, **keywords: P.kwargs) -> T:
        time.sleep(SLOW_DISK)
        return function(*arguments, **keywords)

    return slow


def _note_if_on_the_loop(what: str) -> None:
    if is_on_the_loop():
        frames = [f"{frame.name} ({frame.filename.rpartition('/')[2]}:{frame.lineno})" for frame in _stack()]
        log.error(EVENT, by=what, stack=frames)


def _stack() -> list[traceback.FrameSummary]:
    return [frame for frame in traceback.extract_stack() if "/gpusharing/" in frame.filename][-_FRAMES:]


if __name__ == "__main__":
    _, *arguments = sys.argv
    flags = [argument.partition("=") for argument in arguments]
    watch(("/proc/", *(value for name, _, value in flags if name in {"--proc-root", "--cdi-dir"})))
    main(arguments)
