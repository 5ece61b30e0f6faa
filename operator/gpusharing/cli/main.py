"""The command `gpusharing`, also installed as the kubectl plugin `kubectl gpusharing`."""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any, Final

from gpusharing import __version__
from gpusharing.cli.exits import FAILED, CommandError

# Each command lives in a module that is imported only when it is the one that runs: the agent's node pays for nothing
# of the operator's, and needs none of its packages installed.
_COMMANDS: Final = {
    "operator": ("gpusharing.controller.command", "decide how the cluster's GPUs are shared"),
    "agent": ("gpusharing.agent.command", "share the GPUs of one node"),
    "bundle": ("gpusharing.cli.bundle", "pack objects, Events, logs and metrics for a bug report"),
    "completion": ("gpusharing.cli.completion", "print what a shell needs to complete commands and options"),
    "convert": ("gpusharing.cli.convert", "convert old DRA manifests and NVIDIA's sharing configs"),
    "demo": ("gpusharing.demo.command", "show GPU sharing on simulated GPUs, without Kubernetes"),
    "doctor": ("gpusharing.cli.doctor", "check a cluster before the installation, and an installation"),
    "explain": ("gpusharing.cli.explain", "explain why a pod, claim, GPU, node or policy is as it is"),
    "export": ("gpusharing.cli.export", "print what Kueue or Volcano has to know of policies"),
    "forecast": ("gpusharing.cli.forecast", "show what a node that does not exist yet would publish"),
    "plan": ("gpusharing.cli.plan", "show what a change of policies would do"),
    "snapshot": ("gpusharing.cli.snapshot", "write the state of a cluster into a file"),
    "test": ("gpusharing.cli.test", "test policies without a cluster"),
    "top": ("gpusharing.cli.top.command", "show which pods are on which GPU, and which wait"),
    "ui": ("gpusharing.cli.ui.command", "show which pods are on which GPU, as a page in the browser"),
    "ui-server": ("gpusharing.cli.ui_server.command", "serve the page of `ui` in a cluster"),
    "validate": ("gpusharing.cli.validate", "check manifests without a cluster"),
    "sim": ("gpusharing.sim.cli", "make a simulated GPU node"),
}


def main(arguments: Sequence[str] | None = None) -> None:
    given = list(sys.argv[1:] if arguments is None else arguments)
    is_completing = "_ARGCOMPLETE" in os.environ
    if is_completing:
        given = os.environ["COMP_LINE"].split()[1:]
    parser, subparsers = _without_commands()
    chosen = next((argument for argument in given if not argument.startswith("-")), None)
    for name, (module, summary) in _COMMANDS.items():
        if name == chosen:
            importlib.import_module(module).register(subparsers)
        else:
            subparsers.add_parser(name, help=summary)
    if is_completing:
        importlib.import_module("gpusharing.cli.completion").complete(parser)
    parsed = parser.parse_args(given)
    try:
        code = parsed.run(parsed)
        sys.stdout.flush()
    except CommandError as error:
        sys.exit(f"gpusharing: {error}")
    except BrokenPipeError:
        # `| head` has seen enough. What is still in the buffer goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(FAILED)
    sys.exit(code)


def all_commands() -> argparse.ArgumentParser:
    """With every option of every command, for the page of commands."""
    parser, subparsers = _without_commands()
    for module, _ in _COMMANDS.values():
        importlib.import_module(module).register(subparsers)
    return parser


def _without_commands() -> tuple[argparse.ArgumentParser, Any]:
    parser = argparse.ArgumentParser(prog="gpusharing", description="GPU sharing for Kubernetes' DRA")
    parser.add_argument("--version", action="version", version=f"gpusharing {__version__}")
    return parser, parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
