"""docs/reference/commands.md: every command with its options, from the parsers themselves."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import gpusharing
from gpusharing.cli.main import all_commands
from reference.tables import cell, heading, table

_HEAD: Final = """\
<!-- Generated from the parsers of operator/gpusharing by `make generate`; do not edit. -->
# Commands

Every command of `gpusharing`, as `--help` shows it. The same program is the kubectl plugin `kubectl gpusharing`.
[Installing the command line](../install.md) says where to get it.
"""
_PAGES: Final = Path(__file__).parents[2] / "docs"
_DEEPEST: Final = 6
_NARGS: Final = {"?": "[{}]", "*": "[{} ...]", "+": "{} ..."}
# Of whoever generates the page.
_INSTALLED: Final = f"{Path(gpusharing.__file__).parents[1]}/"


def page() -> str:
    return "\n".join([_HEAD, *_commands(all_commands(), 2)]).rstrip() + "\n"


def _commands(parser: argparse.ArgumentParser, level: int) -> Iterator[str]:
    subparsers = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]  # noqa: SLF001
    for actions in subparsers:
        summaries = {one.dest: one.help or "" for one in actions._choices_actions}  # noqa: SLF001
        for name, command in sorted(actions.choices.items()):
            yield heading(level, command.prog)
            yield f"{_sentence(command.description or summaries.get(name, ''))}{_more(command.prog)}\n"
            yield f"```text\n{_usage(command)}\n```\n"
            yield from _options(command)
            yield from _examples(command)
            yield from _commands(command, min(level + 1, _DEEPEST))


def _sentence(text: str) -> str:
    text = " ".join(text.split())
    return cell(text[:1].upper() + text[1:]) + ("" if text.endswith(".") else ".")


def _more(command: str) -> str:
    page = f"{command.rsplit(maxsplit=1)[-1]}.md"
    return f" [More](../{page})." if (_PAGES / page).exists() and len(command.split()) == 2 else ""


def _usage(command: argparse.ArgumentParser) -> str:
    """Not argparse's own, which differs between versions of Python."""
    needed = [one for one in command._actions if one.option_strings and one.required]  # noqa: SLF001
    words = [command.prog, *(f"{one.option_strings[-1]} {_value(one)}" for one in needed), "[OPTION...]"]
    return " ".join([*words, *(_NARGS.get(str(one.nargs), "{}").format(_value(one)) for one in _positionals(command))])


def _positionals(command: argparse.ArgumentParser) -> list[argparse.Action]:
    return [one for one in command._actions if not one.option_strings]  # noqa: SLF001


def _options(command: argparse.ArgumentParser) -> Iterator[str]:
    formatter = command._get_formatter()  # noqa: SLF001
    rows = [
        (_spelled(one), cell(formatter._expand_help(one)).replace(_INSTALLED, "") if one.help else "")  # noqa: SLF001
        for one in command._actions  # noqa: SLF001
        if not isinstance(one, argparse._SubParsersAction | argparse._HelpAction)  # noqa: SLF001
        and one.help != argparse.SUPPRESS
    ]
    if rows:
        yield table(("argument or option", "meaning"), rows)


def _spelled(action: argparse.Action) -> str:
    value = _value(action)
    if not action.option_strings:
        return f"`{value}`"
    return ", ".join(
        f"`{option} {value}`" if value and option == action.option_strings[-1] else f"`{option}`"
        for option in action.option_strings
    )


def _value(action: argparse.Action) -> str:
    if action.nargs == 0:
        return ""
    choices: Any = action.choices
    if choices is not None and action.metavar is None:
        return "{" + ",".join(map(str, choices)) + "}"
    metavar = action.metavar or (action.dest.upper() if action.option_strings else action.dest)
    return metavar if isinstance(metavar, str) else " ".join(metavar)


def _examples(command: argparse.ArgumentParser) -> Iterator[str]:
    if command.epilog:
        yield f"```text\n{command.epilog.strip()}\n```\n"
