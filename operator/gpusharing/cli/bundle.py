"""gpusharing bundle: all that somebody needs who is to find out from afar what is wrong."""

import argparse
import re
from pathlib import Path
from typing import Any, Final

from gpusharing.cli import exits, options

_DURATION: Final = re.compile(r"([0-9]{1,6})([smhd])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def register(subparsers: Any) -> None:
    parser = options.add_command(
        subparsers,
        "bundle",
        summary="pack objects, Events, logs and metrics for a bug report",
        examples=(
            ("All, into gpusharing-TIME.tar.gz", "gpusharing bundle"),
            ("To give it away: without names of tenants", "gpusharing bundle --anonymous -f bundle.tar.gz"),
            ("Of the last two hours, with the logs of two nodes", "gpusharing bundle --since 2h --nodes node-1,node-7"),
            ("Look into it, without the cluster", "gpusharing explain pod train-7 -n ml --snapshot bundle.tar.gz"),
        ),
    )
    parser.add_argument("-f", "--filename", type=Path, metavar="FILE", help="archive to write (.tar.gz)")
    parser.add_argument(
        "--anonymous",
        action="store_true",
        help="replace names and label values, each always by the same word; also in Events, logs and metrics",
    )
    parser.add_argument(
        "--since", type=_seconds, metavar="DURATION", help="Events and lines of logs of this time only, such as 2h"
    )
    parser.add_argument(
        "--nodes",
        type=_names,
        default=(),
        metavar="NAME,...",
        help="logs and metrics of these nodes' agents (default: of agents that are not well, and of some others)",
    )
    options.add_cluster(parser)
    parser.set_defaults(run=exits.reporting(_run))


def _seconds(text: str) -> int:
    match = _DURATION.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text} is not a duration such as 30m, 2h or 1d")
    return int(match[1]) * _SECONDS[match[2]]


def _names(text: str) -> tuple[str, ...]:
    return tuple(sorted(filter(None, text.split(","))))


def _run(arguments: argparse.Namespace) -> int:
    from gpusharing.cli import bundle_run  # noqa: PLC0415 (what it needs takes longer to load than a help text)

    return bundle_run.run(arguments)
