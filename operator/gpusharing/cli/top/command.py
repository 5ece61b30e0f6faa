"""`gpusharing top`: who is on which GPU, and what waits for one."""

import argparse
import csv
import gc
import io
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from gpusharing.cli import exits, options
from gpusharing.cli.exits import CommandError
from gpusharing.cli.output import Screen, as_json, as_yaml
from gpusharing.cli.reading.client import Client
from gpusharing.cli.reading.fleet import fleet_of, read_lists, waiting_of
from gpusharing.cli.reading.kubeconfig import access
from gpusharing.cli.reading.use import read_usage
from gpusharing.occupancy.groups import GPU, GROUPS

if TYPE_CHECKING:
    from gpusharing.occupancy.fleet import Fleet

_EXAMPLES: Final = (
    ("Which pods are on which GPU?", "gpusharing top"),
    ("The same, and it stays up to date", "gpusharing top -w"),
    ("How much did each namespace get?", "gpusharing top -g namespace"),
    ("Which GPUs do nothing? What they do is measured by Prometheus", "gpusharing top --idle --prometheus URL"),
    ("My GPUs, and who shares them", "gpusharing top -n ml"),
    ("For a spreadsheet", "gpusharing top -o csv > gpus.csv"),
)


def register(subparsers: Any) -> None:
    parser = options.add_command(
        subparsers, "top", summary="show which pods are on which GPU, and which wait", examples=_EXAMPLES
    )
    parser.add_argument("-g", "--group", choices=GROUPS, default=GPU, help="a line for each of these (default: gpu)")
    parser.add_argument("-w", "--watch", action="store_true", help="stay, and draw again what changes")
    parser.add_argument(
        "-n", "--namespace", metavar="NAME", help="only GPUs on which this namespace has claims, and its pods that wait"
    )
    parser.add_argument("--node", metavar="NAME", default="", help="only GPUs of this node")
    parser.add_argument("--policy", metavar="NAME", default="", help="only GPUs on which this policy is in force")
    parser.add_argument(
        "--idle", action="store_true", help="only GPUs that nobody holds, or whose measured utilization is below 5%%"
    )
    parser.add_argument(
        "--prometheus",
        metavar="URL",
        help="where use is measured, such as http://localhost:9090 (default: the agents are asked, if they are few)",
    )
    options.add_cluster(parser)
    options.add_snapshot(parser)
    options.add_output(parser, (options.TABLE, options.JSON, options.YAML, options.CSV))
    parser.set_defaults(run=exits.reporting(run))


def run(args: argparse.Namespace) -> int:
    # A command lives for a second: to look for garbage among all objects of a cluster would take half of it.
    gc.disable()
    try:
        return _run(args)
    finally:
        gc.enable()


def _run(args: argparse.Namespace) -> int:
    if args.watch and (args.snapshot or args.output != options.TABLE):
        raise CommandError("--watch draws a table of a cluster: leave out --snapshot and --output")
    if args.prometheus and args.snapshot:
        raise CommandError("--prometheus says how it is now: leave it out with --snapshot")
    if args.watch and sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
        from gpusharing.cli.top.watching import watch  # noqa: PLC0415

        return watch(args, lambda fleet: _part(fleet, args))
    _print(_of_file(args) if args.snapshot else _of_cluster(args), args)
    return exits.OK


def _of_cluster(args: argparse.Namespace) -> "Fleet":
    found = access(args.kubeconfig, args.context)
    with Client(found) as client, ThreadPoolExecutor(1) as beside:
        usage = beside.submit(read_usage, client, args.prometheus)
        lists = read_lists(client, args.namespace or found.namespace)
        return fleet_of(lists, waiting_of(client, lists), usage.result())


def _of_file(args: argparse.Namespace) -> "Fleet":
    from gpusharing.cli.snapshot_file import read_snapshot  # noqa: PLC0415
    from gpusharing.occupancy.of_file import of_file  # noqa: PLC0415

    return of_file(read_snapshot(args.snapshot))


def _print(fleet: "Fleet", args: argparse.Namespace) -> None:
    from gpusharing.occupancy import document  # noqa: PLC0415

    shown = _part(fleet, args)
    match args.output:
        case options.JSON:
            print(as_json(document.to_json(shown)))
        case options.YAML:
            print(as_yaml(document.to_json(shown)))
        case options.CSV:
            print(_csv(shown, args.group), end="")
        case _:
            _draw(shown, args.group)


def _part(fleet: "Fleet", args: argparse.Namespace) -> "Fleet":
    from gpusharing.occupancy.filters import part_of  # noqa: PLC0415

    return part_of(fleet, node=args.node, policy=args.policy, namespace=args.namespace or "", idle=args.idle)


def _csv(fleet: "Fleet", group: str) -> str:
    from gpusharing.occupancy import document, groups  # noqa: PLC0415

    if group == GPU:
        rows = [document.GPU, *document.gpu_rows(fleet.gpus)]
    else:
        rows = [document.USE, *document.use_rows(groups.uses(fleet, group))]
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


def _draw(fleet: "Fleet", group: str) -> None:
    from rich.console import Group  # noqa: PLC0415

    from gpusharing.cli.top.screen import console, drawn  # noqa: PLC0415

    screen = Screen.of()
    console(screen).print(Group(*drawn(fleet, group, screen)))
