"""kubectl itself knows the commands and flags of all kubectl commands of the pages."""

import subprocess
from pathlib import Path

import pytest

from pages.commands import commands, of_console
from pages.test_commands import SHOWN

pytestmark = pytest.mark.cluster


def shown() -> list[list[str]]:
    texts = [of_console(block.text) if block.language == "console" else block.text for block in SHOWN]
    found = [command for text in texts for command in commands(text) if command[0] == "kubectl"]
    return [list(one) for one in dict.fromkeys(tuple(command[1:]) for command in found if command[1] != "gpusharing")]


def refusal(toolchain: Path, arguments: list[str]) -> str:
    """It reads all flags before it shows its help, and asks no server for that."""
    # What comes after `--` is not for kubectl.
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    command = [str(toolchain / "kubectl"), *own, "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    # For a command that it does not know, it shows the help of its own.
    is_unknown = done.stdout.startswith("kubectl controls")
    return done.stderr or ("no such command" if is_unknown else "")


def test_each_command_is_known(toolchain: Path) -> None:
    found = {" ".join(arguments): refusal(toolchain, arguments) for arguments in shown()}
    assert len(found) > 20
    assert {command: said for command, said in found.items() if said} == {}


@pytest.mark.parametrize("arguments", [["get", "pods", "--nosuch"], ["aply", "-f", "x"], ["logs", "--tail"]])
def test_it_would_find(toolchain: Path, arguments: list[str]) -> None:
    assert refusal(toolchain, arguments)
