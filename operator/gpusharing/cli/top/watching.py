"""`gpusharing top --watch`: what has changed is drawn again, in place."""

import argparse
import gc
import os
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from rich.console import Group
from rich.live import Live
from rich.text import Text

from gpusharing.cli import exits
from gpusharing.cli.exits import CommandError
from gpusharing.cli.output import Screen
from gpusharing.cli.reading.client import Client
from gpusharing.cli.reading.explained import Explained
from gpusharing.cli.reading.fleet import LiveLists, fleet_of
from gpusharing.cli.reading.kubeconfig import access
from gpusharing.cli.reading.use import read_usage
from gpusharing.cli.top.columns import clipped
from gpusharing.cli.top.screen import console, drawn
from gpusharing.findings.printable import printable
from gpusharing.occupancy.fleet import Fleet
from gpusharing.occupancy.notes import not_measured
from gpusharing.occupancy.usage import Usage

_BETWEEN: Final = 1.0
"""Seconds between two pictures."""
_REST: Final = 4
"""Times as long as a picture took."""
_AT_LEAST: Final = 10.0
"""Seconds after which the picture is drawn again though nothing has changed: it says of when it is."""
_MEASURED: Final = 15.0
"""Seconds for which a measurement counts: Prometheus has no newer ones, as a rule."""


class MeasuredAgain:
    """Use, as often as it is measured."""

    def __init__(self, client: Client, prometheus: str | None) -> None:
        self._client = client
        self._prometheus = prometheus
        self._usage = Usage()
        self._until = 0.0

    def now(self) -> Usage:
        if time.monotonic() > self._until:
            try:
                self._usage = read_usage(self._client, self._prometheus)
            except CommandError as error:
                self._usage = Usage(missing=not_measured(str(error), "Wait until it answers again."))
            self._until = time.monotonic() + _MEASURED
        return self._usage


def watch(args: argparse.Namespace, part: Callable[[Fleet], Fleet]) -> int:
    """Until Ctrl-C; then the terminal is as it was before."""
    gc.enable()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    found = access(args.kubeconfig, args.context)
    with (
        suppress(KeyboardInterrupt),
        Client(found) as client,
        Live(console=console(Screen.of()), screen=True, auto_refresh=False) as picture,
    ):
        _draw(picture, client, args, part)
    return exits.OK


def _draw(picture: Live, client: Client, args: argparse.Namespace, part: Callable[[Fleet], Fleet]) -> None:
    live = LiveLists(client, args.namespace or client.access.namespace)
    explained = Explained(client)
    measured = MeasuredAgain(client, args.prometheus)
    drawn_at, size = 0.0, os.terminal_size((0, 0))
    while True:
        has_changed = live.wait(_BETWEEN)
        before, size = size, shutil.get_terminal_size()
        lists = live.read()
        is_explained = lists is not None and explained.ask(lists)
        if lists is None:
            picture.update(Text(live.problem or f"Reading {client.access.server} …"), refresh=True)
        elif has_changed or is_explained or size != before or time.monotonic() > drawn_at + _AT_LEAST:
            began = time.monotonic()
            fleet = part(fleet_of(lists, explained.waiting(lists), measured.now()))
            screen = Screen.of()
            lines = drawn(fleet, args.group, screen, height=size.lines, state=_state(fleet, live, screen.width))
            picture.console.width = screen.width
            picture.update(Group(*lines), refresh=True)
            drawn_at = time.monotonic()
            # A thousand nodes in which something always changes are drawn less often: others need the processor, too.
            time.sleep(max(_BETWEEN, _REST * (drawn_at - began)))


def _state(fleet: Fleet, live: LiveLists, width: int) -> Text:
    if live.problem:
        return Text(clipped(printable(f"Out of date: {live.problem}"), width), style="bold red", no_wrap=True)
    return Text(clipped(f"{fleet.taken_at}, Ctrl-C ends", width), style="dim", no_wrap=True)
