"""In a terminal: a screen that is drawn again, and keys."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time
from typing import Final, Self

import pytest

from gpusharing.cli import exits
from gpusharing.cli.main import main
from harness.eventually import PATIENCE
from harness.readable import is_readable

COLUMNS, ROWS = 80, 40
_ESCAPES: Final = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


class Terminal:
    def __init__(self, *arguments: str) -> None:
        self.descriptor, side = pty.openpty()
        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self._process = subprocess.Popen(
            ["setsid", "--ctty", sys.executable, "-m", "gpusharing", "demo", *arguments],
            stdin=side,
            stdout=side,
            stderr=side,
            env={**os.environ, "TERM": "xterm-256color"},
        )
        os.close(side)
        self.drawn = ""

    def until(self, text: str) -> list[str]:
        """The lines of the first picture that has it."""
        deadline = time.monotonic() + PATIENCE
        while text not in self.screen():
            assert time.monotonic() < deadline, self.screen()
            self._read()
        return self.screen().splitlines()

    def screen(self) -> str:
        """The last one that is complete."""
        pictures = self.drawn.split("\x1b[H")
        return _ESCAPES.sub("", pictures[-2] if len(pictures) > 2 else pictures[-1]).replace("\r", "")

    def press(self, key: bytes) -> None:
        os.write(self.descriptor, key)

    def ended(self) -> int:
        while self._read():
            pass
        return self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self.descriptor)

    def _read(self) -> bool:
        if not is_readable(self.descriptor, within=PATIENCE):
            return False
        try:
            data = os.read(self.descriptor, 65536)
        except OSError:
            # Nobody has the other end any more.
            return False
        self.drawn += data.decode(errors="replace")
        return bool(data)


def test_steps_by_key_and_ctrl_c() -> None:
    with Terminal("--pause") as terminal:
        picture = terminal.until("Press a key to go on")
        assert "✓ Three GPU nodes join the cluster." in "\n".join(picture)
        assert any(re.match(r"hopper +2 x NVIDIA H100 80GB HBM3", line) for line in picture)
        assert max(map(len, picture)) <= COLUMNS
        assert len(picture) <= ROWS
        assert "7 notebooks" not in terminal.drawn, "nothing happens before the key"
        terminal.press(b" ")
        terminal.until("✓ 7 notebooks ask for a GPU each.")
        terminal.press(b"\x03")
        assert terminal.ended() == exits.INTERRUPTED, terminal.drawn[-2000:]
        assert "Traceback" not in terminal.drawn
        assert terminal.drawn.rfind("\x1b[?1049l") > terminal.drawn.rfind("\x1b[?1049h"), "the screen of before is back"
        after = _ESCAPES.sub("", terminal.drawn[terminal.drawn.rfind("\x1b[?1049l") :])
        assert "✓ Three GPU nodes join the cluster." in after, "what was told stays"


def test_pause_needs_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["demo", "--pause"])
    assert ended.value.code == exits.FAILED
    assert "--pause waits for keys" in capsys.readouterr().err
