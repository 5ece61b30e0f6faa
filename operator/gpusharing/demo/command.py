"""`gpusharing demo`: GPU sharing on this machine, without Kubernetes, GPUs and root."""

import argparse
import sys
from pathlib import Path
from typing import Any, Final

from gpusharing.cli import exits, options
from gpusharing.cli.exits import CommandError

_EXAMPLES: Final = (
    ("See what GPU sharing does, in about a minute", "gpusharing demo"),
    ("Go on by a key after each step", "gpusharing demo --pause"),
    ("Stay at the end, and try it with kubectl", "gpusharing demo --keep"),
    ("In CI: as fast as it goes, one line for each fact", "gpusharing demo --fast"),
    ("Record it for a page", "gpusharing demo --fast --record demo.svg"),
)


def register(subparsers: Any) -> None:
    parser = options.add_command(
        subparsers, "demo", summary="show GPU sharing on simulated GPUs, without Kubernetes", examples=_EXAMPLES
    )
    parser.add_argument("--pause", action="store_true", help="go on by a key after each step")
    parser.add_argument("--fast", action="store_true", help="do not wait for readers")
    parser.add_argument(
        "--keep", action="store_true", help="stay at the end, until Ctrl-C; prints how to use kubectl and `ui` there"
    )
    parser.add_argument("--record", type=Path, metavar="FILE.svg", help="write the story as a picture that moves")
    parser.add_argument(
        "--width", type=_width, metavar="N", help="columns (default: the terminal's; of a recording 100)"
    )
    parser.add_argument(
        "--patience",
        type=_seconds,
        default=60.0,
        metavar="SECONDS",
        help="how long a fact may take before the demo gives up (default: %(default)g)",
    )
    parser.set_defaults(run=exits.reporting(_run))


def _width(text: str) -> int:
    width = int(text)
    if not 80 <= width <= 400:
        raise argparse.ArgumentTypeError(f"{width} is not between 80 and 400")
    return width


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return seconds


def _run(arguments: argparse.Namespace) -> int:
    if sys.platform != "linux":
        raise CommandError("the demo needs Linux, as GPU nodes do: start it in a virtual machine or a container")
    # What it needs takes longer to load than all else of a help text.
    try:
        from gpusharing.demo import running  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise CommandError(f"{error}. In a clone: pip install '.[demo]'") from error
    return running.run(arguments)
