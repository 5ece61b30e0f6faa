"""Who hears the story: a pipe gets lines, a terminal a screen that is drawn again, a recording its pictures."""

import asyncio
import contextlib
import os
import shutil
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import Group
from rich.live import Live
from rich.text import Text

from gpusharing.cli.output import Screen
from gpusharing.cli.top.screen import console
from gpusharing.demo.narrator import Audience, Line, Step
from gpusharing.demo.picture import Picture
from gpusharing.demo.recording import Recording
from gpusharing.demo.screen import lines, story

_DRAW_EVERY: Final = 0.5
"""Seconds."""
_LETTERS_A_SECOND: Final = 45
"""That people read, beside the picture."""
_MEASURED_EVERY: Final = 1.2
_LEAST: Final = 2.0
"""Seconds for each step."""


class Pipe:
    """Each line once."""

    async def begin(self, step: Step) -> None:
        print(step.title, flush=True)

    async def hear(self, _step: Step, new: Sequence[Line]) -> None:
        for line in new:
            print(f"  | {line.text}" if line.is_quoted else f"  {line.text}", flush=True)

    async def end(self, _step: Step) -> None:
        print(flush=True)


class Terminal:
    """Draws while steps happen, and gives people time to read them."""

    def __init__(self, live: Live, picture: Picture, *, width: int | None, waits: bool, keys: "Keys | None") -> None:
        """`waits`: for readers. `keys`: by which they go on; None: after some time."""
        self._live = live
        self._picture = picture
        self._width = width
        self._waits = waits
        self._keys = keys
        self._steps: list[Step] = []
        self._state = "Ctrl-C ends everything."

    async def begin(self, step: Step) -> None:
        self._steps.append(step)
        await self.draw()

    async def hear(self, _step: Step, _new: Sequence[Line]) -> None:
        await self.draw()

    async def end(self, step: Step) -> None:
        await self.draw()
        if self._keys:
            before, self._state = self._state, "Press a key to go on. Ctrl-C ends everything."
            await self.draw()
            await self._keys.next()
            self._state = before
        elif self._waits:
            await asyncio.sleep(_seconds_to_read(step))

    async def run(self) -> None:
        """Without end: what happens between two sentences is seen, too."""
        while True:
            await self.draw()
            await asyncio.sleep(_DRAW_EVERY)

    async def draw(self) -> None:
        fleet = await self._picture.now()
        height = shutil.get_terminal_size().lines
        self._live.console.width = self._columns
        drawn = lines(self._steps, fleet, width=self._columns, height=height, state=self._state)
        self._live.update(Group(*drawn), refresh=True)

    def told(self) -> Sequence[Text]:
        """The whole story."""
        return story(self._steps, self._columns)

    @property
    def _columns(self) -> int:
        return self._width or shutil.get_terminal_size().columns


class Recorder:
    """Takes a picture of each sentence."""

    def __init__(self, recording: Recording, picture: Picture) -> None:
        self._recording = recording
        self._picture = picture
        self._steps: list[Step] = []

    async def begin(self, step: Step) -> None:
        self._steps.append(step)
        await self._take()

    async def hear(self, _step: Step, _new: Sequence[Line]) -> None:
        await self._take()

    async def end(self, step: Step) -> None:
        # Agents measure once a second.
        await asyncio.sleep(_MEASURED_EVERY)
        await self._take(_seconds_to_read(step))

    async def _take(self, seconds: float = _DRAW_EVERY) -> None:
        size = self._recording
        fleet = await self._picture.now()
        self._recording.add(lines(self._steps, fleet, width=size.width, height=size.height), seconds)


def _seconds_to_read(step: Step) -> float:
    letters = len(step.title) + sum(len(line.text) for line in step.lines)
    return max(letters / _LETTERS_A_SECOND, _LEAST)


class Together:
    def __init__(self, audiences: Sequence[Audience]) -> None:
        self._audiences = audiences

    async def begin(self, step: Step) -> None:
        for one in self._audiences:
            await one.begin(step)

    async def hear(self, step: Step, new: Sequence[Line]) -> None:
        for one in self._audiences:
            await one.hear(step, new)

    async def end(self, step: Step) -> None:
        for one in self._audiences:
            await one.end(step)


class Keys:
    """That people press, one by one."""

    def __init__(self) -> None:
        self._pressed = asyncio.Queue[bytes]()

    async def next(self) -> None:
        while not self._pressed.empty():
            self._pressed.get_nowait()
        await self._pressed.get()

    @classmethod
    @contextlib.contextmanager
    def of_terminal(cls) -> "Iterator[Keys]":
        keys, descriptor = cls(), sys.stdin.fileno()
        before = termios.tcgetattr(descriptor)
        tty.setcbreak(descriptor)
        loop = asyncio.get_running_loop()
        loop.add_reader(descriptor, lambda: keys._pressed.put_nowait(os.read(descriptor, 1)))
        try:
            yield keys
        finally:
            loop.remove_reader(descriptor)
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


@contextlib.contextmanager
def drawing() -> Iterator[Live]:
    """Afterwards the terminal is as it was before."""
    with Live(console=console(Screen.of()), screen=True, auto_refresh=False) as live:
        yield live
