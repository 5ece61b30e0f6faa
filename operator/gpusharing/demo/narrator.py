"""How the story is told: steps with what was seen, and facts that are waited for."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from gpusharing.demo.stage import Stage

T = TypeVar("T")


@dataclass(frozen=True)
class Line:
    text: str
    is_quoted: bool = False
    """Somebody else's words: a manifest, a message, the output of a command."""


@dataclass
class Step:
    title: str
    lines: list[Line] = field(default_factory=list)
    is_done: bool = False


class StoryError(Exception):
    """A fact that did not come true. The message says of which object, which one, and what to do."""


class Audience(Protocol):
    async def begin(self, step: Step, /) -> None: ...

    async def hear(self, step: Step, new: Sequence[Line], /) -> None:
        """`new`: its last lines."""

    async def end(self, step: Step, /) -> None:
        """Returns when people have read it."""


class Narrator:
    def __init__(self, stage: Stage, audience: Audience, *, patience: float) -> None:
        """`patience`: seconds that a fact may take."""
        self.stage = stage
        self._audience = audience
        self._patience = patience
        self._began = 0.0
        self._step = Step("")

    async def begin(self, title: str) -> None:
        self._step = Step(title)
        await self._audience.begin(self._step)

    async def say(self, text: str) -> None:
        await self._tell(Line(text))

    async def quote(self, text: str) -> None:
        await self._tell(*(Line(one, is_quoted=True) for one in text.splitlines()))

    async def _tell(self, *lines: Line) -> None:
        self._step.lines += lines
        await self._audience.hear(self._step, lines)

    async def end(self) -> None:
        self._step.is_done = True
        await self._audience.end(self._step)

    async def fact(
        self, about: str, what: str, check: Callable[[], T | None], *, remedy: str, otherwise: Callable[[], str] = str
    ) -> T:
        """What `check` finds once it finds something. `what` is said of `about`; `otherwise` says what is instead."""

        def looked() -> T | None:
            if ended := self.stage.ended_program():
                raise StoryError(
                    f"The {ended.name} has ended ({ended.last_words()}). Start the demo again; report it if it repeats."
                )
            return check()

        try:
            found = await self.stage.cluster.until(looked, within=self._patience)
        except TimeoutError:
            instead = f" ({text})" if (text := otherwise()) else ""
            raise StoryError(f"{about}: {what} did not come true in {self._patience:g} s{instead}. {remedy}") from None
        return found

    def acts(self) -> None:
        """From now on the time counts."""
        self._began = time.monotonic()

    @property
    def took(self) -> str:
        seconds = time.monotonic() - self._began
        return f"{seconds:.1f} s" if seconds >= 1 else f"{max(seconds * 1000, 1):.0f} ms"
