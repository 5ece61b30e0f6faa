"""A cluster that runs until it is told to stop, in the foreground or in the background."""

import asyncio
import contextlib
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from harness.logged import Tail, end_of_log
from harness.readable import is_readable

_POLL_SECONDS = 0.2


class SupervisorError(Exception):
    pass


def hold(directory: Path, cluster: AbstractAsyncContextManager[str]) -> None:
    """Enters `cluster`, prints the text that it gives, and leaves it on SIGTERM or Ctrl-C."""
    with _claimed(directory):
        asyncio.run(_until_terminated(cluster))


def start_in_background(directory: Path, argv: Sequence[str], follow: Callable[[Sequence[str]], None]) -> str:
    """Starts a program that calls `hold`, and returns the text that it prints when the cluster runs.

    Its messages are followed until then, several times a second.
    """
    with _claimed(directory):
        log = log_of(directory)
    with log.open("w") as errors, Tail(log) as tail:
        program = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
        )
        assert program.stdout
        with program.stdout as printed:
            try:
                while not is_readable(printed, within=_POLL_SECONDS):
                    follow(tail.new_lines())
                text = printed.read()
                follow(tail.new_lines())
            except BaseException:
                program.terminate()
                program.wait()
                raise
    if not text:
        program.wait()
        raise SupervisorError(end_of_log(log))
    return text.rstrip()


def log_of(directory: Path) -> Path:
    return directory / "supervisor.log"


def process_of(directory: Path) -> int | None:
    """Of what runs for this directory."""
    with contextlib.suppress(FileNotFoundError), (directory / "pid").open() as pid_file:
        try:
            fcntl.flock(pid_file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return int(pid_file.read())
    return None


def stop(directory: Path) -> bool:
    """Ends what runs for this directory, and returns when it has ended: whether anything ran."""
    with contextlib.suppress(FileNotFoundError), (directory / "pid").open() as pid_file:
        try:
            fcntl.flock(pid_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.kill(int(pid_file.read()), signal.SIGTERM)
            fcntl.flock(pid_file, fcntl.LOCK_EX)
            return True
    return False


@contextlib.contextmanager
def _claimed(directory: Path) -> Iterator[None]:
    """The lock says whether the process lives; the number alone may have gone to another one."""
    with (directory / "pid").open("a+") as pid_file:
        try:
            fcntl.flock(pid_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SupervisorError(f"{directory} has a running cluster: end it first") from None
        pid_file.truncate(0)
        pid_file.write(str(os.getpid()))
        pid_file.flush()
        yield


async def _until_terminated(cluster: AbstractAsyncContextManager[str]) -> None:
    task = asyncio.current_task()
    assert task

    def terminate() -> None:
        # Once only: a second signal must not interrupt the cleaning up.
        if not task.cancelling():
            task.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, terminate)
    with contextlib.suppress(asyncio.CancelledError):
        async with cluster as text:
            print(text, flush=True)
            # Who started this one in the background reads up to here.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            await asyncio.Event().wait()
