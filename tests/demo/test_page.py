"""The page of the command knows its options and exit codes, and every step of the story."""

import argparse
import re
from pathlib import Path
from typing import Final

from gpusharing.cli import exits
from gpusharing.demo import command
from gpusharing.demo.story import Story

PAGE: Final = (Path(__file__).parents[2] / "docs/demo.md").read_text()


def test_all_options_are_listed() -> None:
    parser = argparse.ArgumentParser()
    command.register(parser.add_subparsers())
    [demo] = next(iter(parser._subparsers._group_actions)).choices.values()  # type: ignore[union-attr]
    known = {action.option_strings[-1] for action in demo._actions if action.option_strings} - {"--help"}
    assert set(re.findall(r"^\| `(--[a-z]+)", PAGE, re.MULTILINE)) == known


def test_all_exit_codes_are_listed() -> None:
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)}
    assert listed == {exits.OK, exits.FAILED, exits.USAGE, exits.INTERRUPTED}


def test_each_step_has_its_row() -> None:
    table = (
        PAGE.partition("## The story")[2]
        .partition(
            "\n\n",
        )[2]
        .partition("\n\n")[0]
    )
    steps = [name for name in vars(Story) if not name.startswith("_") and name not in {"run", "steps"}]
    assert len(table.splitlines()) - 2 == len(steps)
