"""What is printed fits the screen, and has colours only where somebody sees them."""

import io
import json
import os
from collections.abc import Callable

import pytest
import yaml

from gpusharing.cli.output import Screen, Style, as_json, as_yaml
from gpusharing.findings.finding import Reference
from gpusharing.findings.reading import NOT_READ

WIDTHS = (40, 80, 160)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "environment", "expected"),
    [
        (Terminal(), {}, True),
        (io.StringIO(), {}, False),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (Terminal(), {"NO_COLOR": ""}, True),
        (Terminal(), {"TERM": "dumb"}, False),
    ],
)
def test_colours(
    monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, environment: dict[str, str], *, expected: bool
) -> None:
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    screen = Screen.of(stream)
    assert screen.has_colours is expected
    assert screen.styled("x", Style.RED) == ("\x1b[31mx\x1b[0m" if expected else "x")


def test_the_width_of_a_pipe_is_80_or_as_the_variable_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert Screen.of(io.StringIO()).width == 80
    monkeypatch.setenv("COLUMNS", "160")
    assert Screen.of(io.StringIO()).width == 160
    monkeypatch.setenv("COLUMNS", "wide")
    assert Screen.of(io.StringIO()).width == 80
    assert os.environ["COLUMNS"] == "wide"


@pytest.mark.parametrize("width", WIDTHS)
def test_findings_and_tables_fit(width: int) -> None:
    screen = Screen(width)
    finding = NOT_READ.found(
        Reference("Pod", "a", "b"), resource="resourceclaims", missing="claims of other namespaces are counted only"
    )
    table = screen.table(["NAME", "GPU", "WHY"], [["n1", "gpu-0", "word " * 30], ["node-2", "", ""]])
    for text in (screen.finding(finding), table):
        assert max(map(len, text.splitlines())) <= width
        assert all(line == line.rstrip() for line in text.splitlines())
    assert table.splitlines()[0].startswith("NAME     GPU     WHY")


def test_nothing_is_cut_off() -> None:
    name = "a" * 100
    assert name in Screen(80).table(["NAME", "WHY"], [["x", name]])
    assert name in Screen(80).wrapped(f"one {name} two")


def test_what_others_wrote_does_not_command_the_terminal() -> None:
    """Who may write Events may quote the scheduler."""
    harm = "\x1b]0;title\x07 \x1b[2J\x9b31m \u202etxt \u2066 \r\x7f ok"
    for screen in (Screen(), Screen(40)):
        finding = screen.finding(NOT_READ.found(Reference("Pod", "a"), resource=harm, missing=harm), place=harm)
        tables = [screen.table(["A", "B"], [[harm, harm]]), screen.lists(["A", "B"], [[harm, harm]])]
        for text in (finding, screen.wrapped(harm), *tables):
            assert all(one.isprintable() for line in text.split("\n") for one in line)
            assert "ok" in text


HOSTILE = ("\x1b[2J", "\x9b2J", "a\u202eb", "\u2066x\u2069", "\x7f", "\u200f", "→ é")


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize(("written", "read"), [(as_json, json.loads), (as_yaml, yaml.safe_load)])
def test_data_keeps_every_character_and_shows_none_that_a_terminal_obeys(
    written: Callable[[object], str], read: Callable[[str], object], text: str
) -> None:
    output = written({text: [text]})
    assert output.replace("\n", "").isascii()
    assert output.replace("\n", "").isprintable()
    assert read(output) == {text: [text]}
