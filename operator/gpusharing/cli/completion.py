"""gpusharing completion: what a shell needs to complete commands and options."""

import argparse
from typing import Any, Final

import argcomplete
from argcomplete.shell_integration import shellcode

from gpusharing.cli import exits, options

_PROGRAMS: Final = ["gpusharing", "kubectl-gpusharing"]
_SHELLS: Final = ("bash", "zsh", "fish")


def register(subparsers: Any) -> None:
    parser = options.add_command(
        subparsers,
        "completion",
        summary="print what a shell needs to complete commands and options",
        examples=(
            ("In bash, now; in ~/.bashrc, for good", 'eval "$(gpusharing completion bash)"'),
            ("In zsh; in ~/.zshrc, after compinit", 'eval "$(gpusharing completion zsh)"'),
            ("In fish", "gpusharing completion fish | source"),
        ),
    )
    parser.add_argument("shell", choices=_SHELLS)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    print(shellcode(_PROGRAMS, shell=arguments.shell))
    return exits.OK


def complete(parser: argparse.ArgumentParser) -> None:
    """Called by the shell: prints what could come next, and ends the process."""
    argcomplete.autocomplete(parser)
