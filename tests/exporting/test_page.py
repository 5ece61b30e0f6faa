"""docs/export.md knows all options and exit codes; the recipes show what is tried."""

import argparse
import re
from pathlib import Path
from typing import Any, Final

from gpusharing.cli import exits, export
from gpusharing.exporting.kueue import CAPACITY_GATE, MOST_MAPPINGS
from gpusharing.findings import exporting

DOCS: Final = Path(__file__).parents[2] / "docs"
PAGE: Final = (DOCS / "export.md").read_text()
KUEUE: Final = (DOCS / "recipes/kueue.md").read_text()


def options(system: str) -> dict[str, argparse.Action]:
    parser = argparse.ArgumentParser()
    export.register(parser.add_subparsers())
    command = choices(parser)["export"]
    return {one.option_strings[-1]: one for one in choices(command)[system]._actions if one.option_strings}


def choices(parser: argparse.ArgumentParser) -> Any:
    return next(iter(parser._subparsers._group_actions)).choices  # type: ignore[union-attr]


def test_all_options_of_its_own_are_listed() -> None:
    listed = re.findall(r"^\| `(--[a-z]+) ([^`]+)` \|.*\| `(\w+)` \|$", PAGE, re.MULTILINE)
    known = options("kueue")
    own = known.keys() - options("volcano").keys()
    assert {name for name, _, _ in listed} == own
    for name, values, default in listed:
        assert tuple(values.split(r"\|")) == known[name].choices
        assert default == known[name].default


def test_all_exit_codes_are_listed() -> None:
    codes = {int(code) for code in re.findall(r"^\| (\d) \|", PAGE, re.MULTILINE)}
    assert codes == {exits.OK, exits.FAILED, exits.USAGE}


def test_codes_and_numbers_are_those_of_the_code() -> None:
    codes = [entry.code for entry in exporting.ENTRIES]
    assert f"{codes[0]} to {codes[-1]}" in PAGE
    assert f"more than {MOST_MAPPINGS} mappings" in KUEUE
    assert f"`{CAPACITY_GATE}`" in KUEUE
