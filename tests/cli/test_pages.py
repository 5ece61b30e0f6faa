"""Pages of commands show screens as they are, and know all options, formats and exit codes."""

import argparse
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from gpusharing.api.sharing.plan import Effect
from gpusharing.bundling import events, programs
from gpusharing.cli import bundle, doctor, exits, plan, snapshot, validate
from gpusharing.cli.reading import agents
from gpusharing.cli.reading import programs as reading_programs
from gpusharing.cli.top import command
from gpusharing.cli.ui import command as ui_command
from gpusharing.cli.ui_server import command as ui_server_command
from gpusharing.occupancy import document
from gpusharing.occupancy.fleet import Fleet, Waiting
from gpusharing.planning import order, reports
from gpusharing.ui import loopback, viewing
from gpusharing.validating import reading
from top.scenes import SCENES

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = {
    "doctor": (doctor, "tests/diagnosing/screens", {exits.OK, exits.FAILED, exits.USAGE, exits.INTERRUPTED}),
    "plan": (plan, "tests/planning/screens", {exits.OK, exits.FAILED, exits.USAGE, exits.CHANGES, exits.DISTURBS}),
    "top": (command, "tests/top/screens", {exits.OK, exits.FAILED, exits.USAGE}),
    "ui": (ui_command, "", {exits.OK, exits.FAILED, exits.USAGE}),
    "validate": (validate, "tests/validating/screens", {exits.OK, exits.FAILED, exits.USAGE}),
}
TEXTS: Final = {name: (ROOT / f"docs/{name}.md").read_text() for name in PAGES}


def options(module: Any) -> dict[str, argparse.Action]:
    parser = argparse.ArgumentParser()
    module.register(parser.add_subparsers())
    [command] = next(iter(parser._subparsers._group_actions)).choices.values()  # type: ignore[union-attr]
    return {action.option_strings[-1]: action for action in command._actions if action.option_strings}


@pytest.mark.parametrize("name", [name for name, (_, screens, _) in PAGES.items() if screens])
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


def test_fields_of_top_are_listed() -> None:
    text = TEXTS["top"]
    assert f"`{','.join(document.GPU)}`" in text
    assert f"`{','.join(document.USE)}`" in text
    names = set(re.findall(r"`(?:[\w.\[\]]+\.)?(\w+)(?:\[\])?`", text))
    assert fields(document.to_json(full_fleet())) <= names


def fields(value: Any) -> set[str]:
    """Of all objects, but those that findings have."""
    if isinstance(value, list):
        return set().union(*map(fields, value))
    if not isinstance(value, dict):
        return set()
    return set(value).union(*(fields(one) for name, one in value.items() if name not in {"finding", "notes"}))


def full_fleet() -> Fleet:
    """With every field."""
    node = SCENES["sick"]().nodes[0]
    gpu = replace(node.gpus[1], restricted=True, shares_total=4)
    held = replace(gpu.holders[0], profile="1g.10gb", memory_used=1, utilization=0.5)
    waiting = Waiting(namespace="ml", pod="w", since="2026-11-20T12:00:00Z", claims=("c",))
    nodes = (replace(node, gpus=(replace(gpu, holders=(held,)),)),)
    return replace(SCENES["measured"](), nodes=nodes, waiting=(waiting,))


def test_numbers_are_those_of_the_code() -> None:
    assert f"up to {agents.MOST} agents" in TEXTS["top"]
    bounds = (
        f"{loopback.CONNECTIONS} connections, {loopback.STREAMS} open pages, {loopback.LARGEST_FORM // 1024**2} MiB"
    )
    assert bounds in TEXTS["ui"]
    assert f"pages of {viewing.NODES} nodes" in TEXTS["ui"]
    assert f"less than {order.WITH_GUARD:.0f} s as a rule with the closing guard" in TEXTS["plan"]
    assert f"{order.GRACE:.0f} s if they have none" in TEXTS["plan"]
    assert f"{reading.LARGEST // 1024**2} MiB, {reading.DEEPEST} levels" in TEXTS["validate"]


def test_the_options_of_snapshot_are_mentioned() -> None:
    text = TEXTS["plan"]
    assert all(option in text for option in options(snapshot).keys() - {"--help", "--output"})


def test_the_options_of_the_page_in_the_cluster_are_listed() -> None:
    [section] = re.findall(r"^## In the cluster$(.*?)^## ", TEXTS["ui"], re.MULTILINE | re.DOTALL)
    listed = set(re.findall(r"`(--[a-z-]+)(?: [A-Z]+)?`", "".join(re.findall(r"^\|.*\|$", section, re.MULTILINE))))
    assert listed == options(ui_server_command).keys() - {"--help"}


def test_the_options_of_bundle_are_listed() -> None:
    text = (ROOT / "docs/bundle.md").read_text()
    listed = set(re.findall(r"--[a-z-]+", "".join(re.findall(r"^\| (`-.*?) \|", text, re.MULTILINE))))
    assert listed == options(bundle).keys() - {"--help"}


def test_numbers_of_bundle_are_those_of_the_code() -> None:
    text = (ROOT / "docs/bundle.md").read_text()
    for number in (
        f"the newest {events.MOST:,}",
        f"the last {reading_programs.LINES:,} lines, and at most {reading_programs.LARGEST >> 20} MiB",
        f"at most {reading_programs.IN_ALL >> 20} MiB",
        f"up to {programs.MOST_UNWELL} that are not ready",
        f"and {programs.SOME_OTHERS} others",
        f"within {reading_programs.TIMEOUT:.0f} s",
    ):
        assert number in text
