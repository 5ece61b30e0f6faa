"""What a long step has come to: on a terminal a line that is drawn anew, elsewhere a line for what begins or ends."""

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from harness.cache import CACHE

_CLEAR = "\r\x1b[2K"


class Progress:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_terminal = stream.isatty() and os.environ.get("TERM") != "dumb"

    def say(self, line: str) -> None:
        """A line that stays."""
        self._write(f"{_CLEAR if self._is_terminal else ''}{line}\n")

    def show(self, line: str) -> None:
        """In place of what was shown before; only where it can be drawn anew."""
        if self._is_terminal:
            self._write(_CLEAR + line[: shutil.get_terminal_size().columns - 1])

    def clear(self) -> None:
        self.show("")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


PROGRESS = Progress(sys.stderr)


class Kept:
    """Numbers of earlier runs on this machine, for estimates: without the file they are only worse."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def get(self, name: str) -> float | None:
        value = self._read().get(name)
        return float(value) if isinstance(value, int | float) and value > 0 else None

    def keep(self, name: str, value: float) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        aside = self._file.with_name(f".{self._file.name}.{os.getpid()}")
        aside.write_text(json.dumps(self._read() | {name: value}, indent=1))
        aside.replace(self._file)

    def _read(self) -> dict[str, object]:
        with suppress(OSError, ValueError):
            content = json.loads(self._file.read_text())
            if isinstance(content, dict):
                return content
        return {}


KEPT = Kept(CACHE / "durations.json")


class Stages:
    """Of a program that says a line as each of its stages begins."""

    def __init__(
        self,
        name: str,
        progress: Progress = PROGRESS,
        kept: Kept = KEPT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name, self._progress, self._kept, self._clock = name, progress, kept, clock
        self._stage: str | None = None
        self._began = 0.0

    def follow(self, lines: Sequence[str]) -> None:
        """To be called again and again, also without new lines."""
        for line in filter(str.strip, lines):
            self._end_stage()
            self._stage, self._began = line.strip(), self._clock()
            self._progress.say(f"{self._name}: {self._stage}")
        if self._stage:
            so_far = duration(self._clock() - self._began)
            before = self._kept.get(self._key)
            usual = f" of about {duration(before)}" if before else ""
            self._progress.show(f"  {so_far}{usual}")

    def end(self) -> None:
        self._end_stage()
        self._progress.clear()

    @property
    def _key(self) -> str:
        return f"{self._name}: {self._stage}"

    def _end_stage(self) -> None:
        if self._stage:
            self._kept.keep(self._key, self._clock() - self._began)
        self._stage = None


def duration(seconds: float) -> str:
    """For people: nobody needs the seconds of ten minutes."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 100 else f"{minutes} min"
