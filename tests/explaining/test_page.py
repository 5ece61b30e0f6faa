"""docs/explain.md shows screens as they are, and links to findings that exist."""

import re
from pathlib import Path

import pytest

from gpusharing.cli import exits
from gpusharing.findings.table import TABLE

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/explain.md").read_text()
SCREENS = re.findall(r"<!-- screen: ([\w-]+) -->\n```text\n(.*?)\n```", TEXT, re.DOTALL)


@pytest.mark.parametrize(("name", "shown"), SCREENS, ids=[name for name, _ in SCREENS])
def test_a_screen_is_as_the_command_prints_it(name: str, shown: str) -> None:
    assert shown == (ROOT / f"tests/explaining/screens/{name}-80.txt").read_text().rstrip("\n")


def test_there_are_screens() -> None:
    assert len(SCREENS) >= 5
    assert TEXT.count("```text") == len(SCREENS)


@pytest.mark.parametrize("code", sorted(set(re.findall(r"GSH\d{4}", TEXT))))
def test_findings_are_linked(code: str) -> None:
    assert code in TABLE
    assert f"[{code}](findings.md#{code.lower()})" in TEXT or code in "".join(shown for _, shown in SCREENS)


def test_all_exit_codes_are_listed() -> None:
    listed = {int(code) for code in re.findall(r"^\| (\d) \|", TEXT, re.MULTILINE)}
    assert listed == {exits.OK, exits.FAILED, exits.USAGE, exits.WAITS, exits.NEVER}
