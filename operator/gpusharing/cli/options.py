"""Options that all commands have in common, named as kubectl's."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

TABLE: Final = "table"
JSON: Final = "json"
YAML: Final = "yaml"
CSV: Final = "csv"


def add_command(
    subparsers: Any, name: str, *, summary: str, examples: Sequence[tuple[str, str]]
) -> argparse.ArgumentParser:
    """`examples`: what it is for, and the command."""
    lines = [line for why, command in examples for line in (f"  # {why}", f"  {command}", "")]
    parser: argparse.ArgumentParser = subparsers.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog="\n".join(["examples:", *lines]).rstrip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return parser


def add_cluster(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("cluster")
    group.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="kubeconfig file (default: $KUBECONFIG, ~/.kube/config, or the pod's ServiceAccount)",
    )
    group.add_argument("--context", metavar="NAME", help="context of the kubeconfig (default: its current one)")


def add_namespace(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-n", "--namespace", metavar="NAME", help="namespace (default: the one of the context)")


def add_output(parser: argparse.ArgumentParser, formats: Sequence[str] = (TABLE, JSON, YAML)) -> None:
    """The first format is the default."""
    parser.add_argument(
        "-o", "--output", choices=formats, default=formats[0], help=f"format of the output (default: {formats[0]})"
    )


def add_ignore(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--ignore",
        action="append",
        default=[],
        type=str.upper,
        metavar="CODE",
        help="do not report findings of this code, such as GSH0204; may be repeated",
    )


def add_snapshot(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--snapshot",
        type=Path,
        metavar="FILE",
        help="read this file of `gpusharing snapshot` or `gpusharing bundle`, and no cluster",
    )
