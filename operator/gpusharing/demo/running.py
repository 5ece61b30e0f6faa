"""How `gpusharing demo` runs."""

import argparse
import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from rich.console import Group

from gpusharing.cli import exits
from gpusharing.cli.exits import CommandError
from gpusharing.cli.output import Screen
from gpusharing.cli.top.screen import console
from gpusharing.demo.apiserver import EmbeddedApiServer
from gpusharing.demo.audience import Keys, Pipe, Recorder, Terminal, Together, drawing
from gpusharing.demo.cluster import running_beside
from gpusharing.demo.guard import guarded_directory
from gpusharing.demo.isolation import isolate
from gpusharing.demo.narrator import Audience, Narrator, StoryError
from gpusharing.demo.picture import Picture
from gpusharing.demo.recording import Recording
from gpusharing.demo.stage import MINOR, Stage, stage
from gpusharing.demo.story import Story
from gpusharing.sim.errors import SimError

_WIDTH, _HEIGHT = 100, 38
"""Of a recording."""
_KEPT: Final = """The cluster stays until Ctrl-C. In another terminal:

  export KUBECONFIG={kubeconfig}
  kubectl get sharingpolicies,nodesharings,pods -A
  gpusharing top -w

In a browser of this machine: {url}
"""
_NEXT: Final = "Next: docs/quickstart.md, a real Kubernetes with simulated GPUs."


def run(arguments: argparse.Namespace) -> int:
    is_terminal = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    if arguments.pause and not (is_terminal and sys.stdin.isatty()):
        raise CommandError("--pause waits for keys: leave it out without a terminal")
    if arguments.record and not arguments.record.absolute().parent.is_dir():
        raise CommandError(f"--record {arguments.record}: there is no directory {arguments.record.parent}")
    try:
        with guarded_directory() as directory:
            # Before the first thread.
            is_isolated = isolate()
            return asyncio.run(_show(arguments, directory, is_isolated=is_isolated, is_terminal=is_terminal))
    except (StoryError, SimError) as error:
        raise CommandError(str(error)) from error
    except (KeyboardInterrupt, asyncio.CancelledError):
        return exits.INTERRUPTED


async def _show(arguments: argparse.Namespace, directory: Path, *, is_isolated: bool, is_terminal: bool) -> int:
    _end_by_signal()
    print("The API server, the operator and the agents of three nodes start.\n", flush=True)
    async with (
        EmbeddedApiServer(directory / "api") as server,
        stage(directory, server, is_isolated=is_isolated) as made,
    ):
        picture = Picture(made.cluster, made.nodes, minor=MINOR)
        recording = Recording(arguments.width or _WIDTH, _HEIGHT) if arguments.record else None
        recorders: list[Audience] = [Recorder(recording, picture)] if recording else []
        async with _audience(arguments, picture, is_terminal=is_terminal) as audience:
            await Story(Narrator(made, Together([audience, *recorders]), patience=arguments.patience)).run()
        if recording:
            arguments.record.write_text(recording.svg())
        if arguments.keep:
            await _keep(made)
        print(_NEXT)
    return exits.OK


@contextlib.asynccontextmanager
async def _audience(arguments: argparse.Namespace, picture: Picture, *, is_terminal: bool) -> AsyncIterator[Audience]:
    if not is_terminal:
        yield Pipe()
        return
    with contextlib.ExitStack() as stack:
        keys = stack.enter_context(Keys.of_terminal()) if arguments.pause else None
        live = stack.enter_context(drawing())
        terminal = Terminal(live, picture, width=arguments.width, waits=not arguments.fast, keys=keys)
        try:
            async with running_beside() as begin:
                begin(terminal.run())
                yield terminal
        finally:
            # The terminal is as it was before; what was told stays on it.
            stack.close()
            console(Screen.of()).print(Group(*terminal.told()))


async def _keep(made: Stage) -> None:
    """Until Ctrl-C."""
    ui = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gpusharing", "ui", "--kubeconfig", str(made.kubeconfig)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert ui.stdout  # noqa: S101 (for mypy)
    try:
        url = (await ui.stdout.readline()).decode().strip()
        print(_KEPT.format(kubeconfig=made.kubeconfig, url=url), _NEXT, sep="\n", flush=True)
        await asyncio.Event().wait()
    finally:
        ui.terminate()
        await ui.wait()


def _end_by_signal() -> None:
    """SIGTERM ends everything in order, as Ctrl-C does."""
    task = asyncio.current_task()
    assert task  # noqa: S101 (for mypy: a coroutine runs in a task)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
