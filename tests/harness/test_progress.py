"""One line on a terminal that is drawn anew; elsewhere only what stays."""

import io
import sys
from pathlib import Path

import pytest

from harness.logged import LoggedProgramError, run_logged
from harness.progress import Kept, Progress, Stages, duration


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_a_line_takes_the_place_of_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "20")
    terminal = Terminal()
    progress = Progress(terminal)
    progress.show("1 of 2")
    progress.show("2 of 2 and much more than fits")
    progress.say("done")
    assert terminal.getvalue() == "\r\x1b[2K1 of 2\r\x1b[2K2 of 2 and much mor\r\x1b[2Kdone\n"


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_elsewhere_only_what_stays(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    progress = Progress(stream)
    progress.show("1 of 2")
    progress.say("done")
    progress.clear()
    assert stream.getvalue() == "done\n"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (99, "99 s"), (100, "2 min"), (840, "14 min"), (7_500, "2 h 5 min")]
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize("content", [None, "", "[]", '{"x": "y"}', "\ufffd"])
def test_damaged_numbers_of_before_are_none(content: str | None, tmp_path: Path) -> None:
    file = tmp_path / "kept.json"
    if content is not None:
        file.write_text(content)
    kept = Kept(file)
    assert kept.get("x") is None
    kept.keep("x", 1.5)
    assert kept.get("x") == 1.5


def test_stages_say_how_long_they_took_the_last_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    kept, now = Kept(tmp_path / "kept.json"), [0.0]

    def lived_through() -> str:
        terminal = Terminal()
        stages = Stages("Cluster", Progress(terminal), kept, lambda: now[0])
        for seconds, lines in ((0.0, ["Starting", ""]), (7.0, []), (1.0, ["Installing"])):
            now[0] += seconds
            stages.follow(lines)
        stages.end()
        return terminal.getvalue().replace("\r\x1b[2K", "|")

    assert lived_through() == "|Cluster: Starting\n|  0 s|  7 s|Cluster: Installing\n|  0 s|"
    assert lived_through().startswith("|Cluster: Starting\n|  0 s of about 8 s|  7 s of about 8 s|Cluster: Installing")


def test_messages_of_a_program_go_to_the_log_and_are_followed(tmp_path: Path) -> None:
    log, followed = tmp_path / "logs/log", list[str]()
    code = "import sys; print('result'); print('one\\ntwo', file=sys.stderr)"
    for _ in range(2):
        assert run_logged([sys.executable, "-c", code], log, followed.extend) == "result\n"
    assert followed == ["one", "two"] * 2
    assert log.read_text() == "one\ntwo\n" * 2


def test_a_program_that_fails_shows_the_end_of_its_log(tmp_path: Path) -> None:
    code = "import sys; sys.exit('\\n'.join(f'line {number}' for number in range(100)))"
    with pytest.raises(LoggedProgramError) as failure:
        run_logged([sys.executable, "-c", code], tmp_path / "log", print)
    lines = str(failure.value).splitlines()
    assert (lines[0], lines[-2:]) == ("line 70", ["line 99", f"All of it: {tmp_path}/log"])
