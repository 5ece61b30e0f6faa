"""gpusharing plan: what a change of policies would do to a cluster, before it is applied."""

import argparse
from typing import Any, Final

from gpusharing.cli import exits, options

_FORMATS: Final = (options.TABLE, options.JSON, "markdown", "github", "junit")


def register(subparsers: Any) -> None:
    parser = options.add_command(
        subparsers,
        "plan",
        summary="show what a change of policies would do, without applying it",
        examples=(
            ("Against the cluster of the current context", "gpusharing plan -f policies/"),
            (
                "In CI, against a file, as a comment of the merge request",
                "gpusharing plan -f policies/ --snapshot cluster.json -o markdown",
            ),
            ("Fail if running work would be disturbed", "gpusharing plan -f policies/ --detailed-exitcode"),
        ),
    )
    parser.add_argument(
        "-f",
        "--filename",
        action="append",
        required=True,
        metavar="FILE",
        help="file or folder with SharingPolicies, and Namespaces whose labels change; may be repeated",
    )
    parser.add_argument("--prune", action="store_true", help="policies that are not in the files are deleted")
    parser.add_argument(
        "--detailed-exitcode",
        action="store_true",
        help="exit with 2 if something changes, and with 3 if that disturbs running work",
    )
    parser.add_argument("--full-menus", type=int, default=1, metavar="N", help="the agents' --full-menus (default: 1)")
    options.add_snapshot(parser)
    options.add_cluster(parser)
    options.add_output(parser, _FORMATS)
    options.add_ignore(parser)
    parser.set_defaults(run=exits.reporting(_run))


def _run(arguments: argparse.Namespace) -> int:
    # What it needs takes longer to load than all else of a help text.
    from gpusharing.cli import plan_run  # noqa: PLC0415

    return plan_run.run(arguments)
