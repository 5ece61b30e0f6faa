"""gpusharing export: what systems that queue jobs have to know of policies."""

import argparse
from typing import Any, Final

from gpusharing.cli import exits, options

PARTS: Final = ("all", "configuration", "queues")


def register(subparsers: Any) -> None:
    parser = options.add_command(
        subparsers,
        "export",
        summary="print what Kueue or Volcano has to know of policies",
        examples=(
            ("Kueue's deviceClassMappings, and queues with the quotas of policies", "gpusharing export kueue"),
            ("Queues of Volcano's capacity plugin, of files", "gpusharing export volcano -f policies/"),
        ),
    )
    systems = parser.add_subparsers(dest="system", required=True, metavar="SYSTEM")
    kueue = options.add_command(
        systems,
        "kueue",
        summary="print a part of Kueue's Configuration, and its queues",
        examples=(
            ("Create the queues", "gpusharing export kueue --part queues | kubectl apply -f -"),
            ("The mappings, for the values of Kueue's chart", "gpusharing export kueue --part configuration"),
            ("Charge GPU memory instead of devices", "gpusharing export kueue --charge memory -f policies/"),
        ),
    )
    kueue.add_argument(
        "--charge",
        choices=("devices", "shares", "memory"),
        default="devices",
        help="what a claim is charged (default: devices); shares and memory need a feature gate of Kueue that is alpha",
    )
    kueue.add_argument(
        "--part", choices=PARTS, default="all", help="what to print: Kueue's Configuration is no object of the API"
    )
    volcano = options.add_command(
        systems,
        "volcano",
        summary="print queues of Volcano's capacity plugin",
        examples=(("Create the queues", "gpusharing export volcano | kubectl apply -f -"),),
    )
    for system in (kueue, volcano):
        system.add_argument(
            "-f",
            "--filename",
            dest="files",
            action="append",
            metavar="FILE",
            help="file or folder with SharingPolicies, Namespaces and jobs, instead of a cluster; may be repeated",
        )
        options.add_snapshot(system)
        options.add_cluster(system)
        options.add_output(system, (options.YAML, options.JSON))
        options.add_ignore(system)
        system.set_defaults(run=exits.reporting(run))


def run(arguments: argparse.Namespace) -> int:
    # What it needs takes longer to load than all else of a help text.
    from gpusharing.cli import export_run  # noqa: PLC0415

    return export_run.run(arguments)
