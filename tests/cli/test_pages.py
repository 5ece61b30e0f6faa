"""Pages of commands show screens as they are, and know all options, formats and exit codes."""

import argparse
import re
from pathlib import Path
from typing import Any, Final

import pytest

from gpusharing.api.sharing.plan import Effect
from gpusharing.cli import doctor, exits, plan, snapshot, validate
from gpusharing.planning import order, reports
from gpusharing.validating import reading

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = {
    "doctor": (doctor, "tests/diagnosing/screens", {exits.OK, exits.FAILED, exits.USAGE, exits.INTERRUPTED}),
    "plan": (plan, "tests/planning/screens", {exits.OK, exits.FAILED, exits.USAGE, exits.CHANGES, exits.DISTURBS}),
    "validate": (validate, "tests/validating/screens", {exits.OK, exits.FAILED, exits.USAGE}),
}
TEXTS: Final = {name: (ROOT / f"docs/{name}.md").read_text() for name in PAGES}


def options(module: Any) -> dict[str, argparse.Action]:
    parser = argparse.ArgumentParser()
    module.register(parser.add_subparsers())
    [command] = next(iter(parser._subparsers._group_actions)).choices.values()  # type: ignore[union-attr]
    return {action.option_strings[-1]: action for action in command._actions if action.option_strings}


@pytest.mark.parametrize("name", PAGES)
def test_a_screen_is_as_the_command_prints_it(name: str) -> None:
    screens = re.findall(r"<!-- screen: ([\w-]+) -->\n```text\n(.*?)\n```", TEXTS[name], re.DOTALL)
    assert screens
    for screen, shown in screens:
        assert shown == (ROOT / PAGES[name][1] / f"{screen}-80.txt").read_text().rstrip("\n")


@pytest.mark.parametrize("name", PAGES)
def test_all_options_are_listed(name: str) -> None:
    listed = set(re.findall(r"--[a-z-]+", "".join(re.findall(r"^\| (`-.*?) \|", TEXTS[name], re.MULTILINE))))
    known = options(PAGES[name][0])
    assert listed == known.keys() - {"--help", "--output"}
    formats = r"\|".join(known["--output"].choices or ())
    assert f"`-o {formats}`" in TEXTS[name]


@pytest.mark.parametrize("name", PAGES)
def test_all_exit_codes_are_listed(name: str) -> None:
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", TEXTS[name], re.MULTILINE)} == PAGES[name][2]


def test_all_effects_are_explained() -> None:
    rows = re.findall(r"^\| ([^|]+) \|", TEXTS["plan"], re.MULTILINE)
    for effect in Effect:
        words = re.sub(r"\d+ claims? \(.*\)", "claims", reports.effect_in_words(effect, ["default/a"]))
        assert words.rpartition("; ")[2] in rows


def test_numbers_are_those_of_the_code() -> None:
    assert f"less than {order.WITH_GUARD:.0f} s as a rule with the closing guard" in TEXTS["plan"]
    assert f"{order.GRACE:.0f} s if they have none" in TEXTS["plan"]
    assert f"{reading.LARGEST // 1024**2} MiB, {reading.DEEPEST} levels" in TEXTS["validate"]


def test_the_options_of_snapshot_are_mentioned() -> None:
    text = TEXTS["plan"]
    assert all(option in text for option in options(snapshot).keys() - {"--help", "--output"})
