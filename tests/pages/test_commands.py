"""Each command that a page shows: ours with the options that they have, the others with files and names that exist.

What commands print, and that the quickstart and the installation work, other tests say: `covering.py` names them.
"""

import argparse
import contextlib
import io
import re
from functools import cache
from typing import Final

import pytest
import yaml

from gpusharing.api import crd
from gpusharing.cli.main import all_commands
from pages.blocks import BLOCKS, ROOT, Block
from pages.commands import Command, commands, of_console

_RUN: Final = {"docs/simulation.md"}
"""Each command of these is run as it stands, of whatever program: tests/sim/test_documentation.py."""
SHOWN: Final = [block for block in BLOCKS if block.language in {"sh", "console"} and block.page not in _RUN]
OTHERS: Final = {
    "cp": "copies files of the repository",
    "cut": "cuts the output of ours",
    "docker": "no test has Docker; its arguments are those of tests/manifests/test_quickstart.py",
    "eval": "takes what ours print",
    "export": "sets a variable",
    "kind": "no test has kind; its arguments are those of tests/manifests/test_quickstart.py",
    "python3": "makes a virtual environment",
}
"""Programs that others have made, and why nothing but their files is looked at."""
_WITH_KIND: Final = {"annotate", "create", "delete", "describe", "get", "label", "patch", "scale", "wait"}
KINDS: Final = {
    "clusterrole", "clusterrolebinding", "configmap", "daemonset", "deployment", "events", "namespace", "node", "nodes",
    "pod", "pods", "resourceclaim", "resourceclaims", "resourceclaimtemplates", "resourceslices", "svc", "job", "token",
    *(name for one in crd.DEFINITIONS for name in (one.plural, one.kind.lower(), one.short_name)),
}  # fmt: skip
_OF_REPOSITORY: Final = re.compile(r"(docs|manifests|charts|crds|contrib|tools|tests)(/[\w./-]+)?")
_OUR_OBJECT: Final = re.compile(r"(?:\w+/)?(gpusharing-[a-z-]+)")


@pytest.mark.parametrize("block", SHOWN, ids=str)
def test_commands(block: Block) -> None:
    text = of_console(block.text) if block.language == "console" else block.text
    found = list(commands(text))
    assert found, "a block of this language is made of commands"
    assert [fault for command in found if (fault := fault_of(command))] == []


def fault_of(command: Command) -> str:
    for word in command:
        if _OF_REPOSITORY.fullmatch(word) and not (ROOT / word).exists():
            return f"{word} is not in the repository"
        if (named := _OUR_OBJECT.fullmatch(word)) and named[1] not in names_of_manifests():
            return f"{named[1]} is in no manifest"
    match command:
        case ["kubectl", "gpusharing", *_]:
            return fault_of(command[1:])
        case [program, *arguments] if program.rpartition("/")[2] == "gpusharing":
            return _of_ours(arguments)
        case ["kubectl", *arguments]:
            return _of_kubectl(arguments)
        case ["helm", *arguments]:
            return _of_helm(arguments)
        case ["make", *arguments]:
            targets = [word for word in arguments if "=" not in word]
            return "".join(f"no target {one}" for one in targets if f"\n{one}: " not in (ROOT / "Makefile").read_text())
        case [program, *_] if program in OTHERS or program.endswith("/pip"):
            return ""
        case _:
            return f"{command[0]}: what is this program?"


def _of_ours(arguments: list[str]) -> str:
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            # As a synopsis has it: [-n NAMESPACE].
            parser().parse_args([word.strip("[]") for word in arguments])
    except SystemExit as ended:
        return said.getvalue() if ended.code else ""
    return ""


@cache
def parser() -> argparse.ArgumentParser:
    return all_commands()


def _of_kubectl(arguments: list[str]) -> str:
    """Only the kind that it names: `test_kubectl.py` asks kubectl itself about commands and flags."""
    values = {arguments[at + 1] for at, word in enumerate(arguments[:-1]) if word in {"-n", "-f", "-k", "-o", "-l"}}
    verb, *rest = (word for word in arguments if not word.startswith("-") and word not in values)
    if verb not in _WITH_KIND or not rest:
        return ""
    kind = re.split(r"[/.,]", rest[0])[0]
    return "" if kind in KINDS else f"kubectl {verb}: what is {kind}?"


def _of_helm(arguments: list[str]) -> str:
    if arguments[0] not in {"install", "template", "uninstall", "upgrade"}:
        return f"helm {arguments[0]}: no such command"
    values = yaml.safe_load((ROOT / "charts/gpu-sharing/values.yaml").read_text())
    for at, word in enumerate(arguments):
        if word == "--set":
            found = values
            for name in arguments[at + 1].partition("=")[0].split("."):
                if not isinstance(found, dict) or name not in found:
                    return f"no value {arguments[at + 1]}"
                found = found[name]
    return ""


@cache
def names_of_manifests() -> set[str]:
    texts = (path.read_text() for path in (ROOT / "manifests").rglob("*.yaml"))
    return {name for text in texts for name in re.findall(r"name(?:space)?: (gpusharing-[a-z-]+)", text)}


@pytest.mark.parametrize("program", OTHERS)
def test_each_program_of_others_is_shown(program: str) -> None:
    """If this fails, remove it."""
    shown = [of_console(block.text) if block.language == "console" else block.text for block in SHOWN]
    assert any(command[0] == program for text in shown for command in commands(text))


@pytest.mark.parametrize(
    "text",
    [
        "gpusharing explain --no-such-option",
        "gpusharing nothing",
        "kubectl gpusharing top --no-such-option",
        "kubectl get sharingpolices",
        "kubectl apply -f docs/examples/gone.yaml",
        "kubectl logs daemonset/gpusharing-agents",
        "helm install gpu-sharing charts/gpu-sharing --set no.such=value",
        "make nothing",
        "gpusharing top | sponge",
        'eval "$(gpusharing complete bash)"',
    ],
)
def test_it_would_find(text: str) -> None:
    assert any(map(fault_of, commands(text)))


def test_a_block_is_taken_apart_as_by_a_shell() -> None:
    text = "A=1 one 'two\nthree' |  four > five  # six\nseven \\\n  eight & nine $(ten)"
    assert list(commands(text)) == [
        ["ten"], ["one", "two\nthree"], ["four"], ["seven", "eight"], ["nine", "SUBSTITUTED"],
    ]  # fmt: skip
