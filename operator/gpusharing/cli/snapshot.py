"""gpusharing snapshot: the state of a cluster in a file, for `plan` and others that need no cluster then."""

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from gpusharing.cli import exits, options
from gpusharing.cli.exits import CommandError
from gpusharing.cli.reading.client import Client
from gpusharing.cli.reading.cluster import Ask, decode_list, read
from gpusharing.cli.reading.kubeconfig import Access, access
from gpusharing.cli.vocabulary import vocabulary
from gpusharing.snapshots import file
from gpusharing.snapshots.anonymous import anonymous
from gpusharing.snapshots.lean import lean
from gpusharing.snapshots.lines import Lines
from gpusharing.snapshots.pseudonyms import Pseudonyms
from gpusharing.snapshots.world import DAEMON_SETS, EVENTS, POD_GROUPS, RESOURCES, Json, Resource, World

_LEFT_OUT: Final = frozenset({EVENTS, DAEMON_SETS, POD_GROUPS})
"""What no plan uses."""


def register(subparsers: Any) -> None:
    parser = options.add_command(
        subparsers,
        "snapshot",
        summary="write the state of a cluster into a file",
        examples=(
            ("For `gpusharing plan --snapshot`, in CI without a cluster", "gpusharing snapshot -o cluster.json"),
            ("To give it away: without names of tenants", "gpusharing snapshot --anonymous -o cluster.json"),
        ),
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="file to write (default: standard output)")
    parser.add_argument(
        "--anonymous", action="store_true", help="replace names and label values, each always by the same word"
    )
    options.add_cluster(parser)
    parser.set_defaults(run=exits.reporting(run))


def run(arguments: argparse.Namespace) -> int:
    world = read_world(arguments.kubeconfig, arguments.context)
    if arguments.anonymous:
        world = anonymous(world, Pseudonyms.of(world, salt=os.urandom(16), vocabulary=vocabulary()))
    text = file.dumps(world)
    for field, reason in sorted(world.unread.items()):
        print(f"{field}: not in the snapshot: {reason}", file=sys.stderr)
    if arguments.output is None:
        sys.stdout.write(text)
        return exits.OK
    try:
        arguments.output.write_text(text)
    except OSError as error:
        raise CommandError(f"{arguments.output}: {error.strerror or error}") from error
    return exits.OK


def read_world(kubeconfig: Path | None, context: str | None) -> World:
    return read_all(access(kubeconfig, context))


def read_all(found: Access) -> World:
    """All that plans use, of the whole cluster."""
    asks = [Ask(one, decode=partial(_decode, one), collect=Lines) for one in RESOURCES if one not in _LEFT_OUT]
    with Client(found) as client:
        world = read(client, asks)
    # An API server without DeviceTaintRules has none: that is no gap.
    return replace(world, unread={field: why for field, why in world.unread.items() if field != "taint_rules"})


def _decode(resource: Resource, page: bytes) -> Sequence[Json]:
    return [lean(resource, item) for item in decode_list(page)]
