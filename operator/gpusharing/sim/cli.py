"""The commands `gpusharing sim create` and `gpusharing sim show`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from gpusharing.sim.errors import SimError
from gpusharing.sim.models import MODELS
from gpusharing.sim.node import Gpu, SimNode, create


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    sim = subparsers.add_parser("sim", help="simulated GPU nodes")
    commands = sim.add_subparsers(required=True)

    create_parser = commands.add_parser("create", help="make a simulated GPU node in a new directory")
    create_parser.add_argument("directory", type=Path)
    create_parser.add_argument(
        "--gpus", required=True, metavar="MODEL[:COUNT],...", help=f"models: {', '.join(MODELS)}"
    )
    create_parser.set_defaults(run=_create)

    show_parser = commands.add_parser("show", help="the GPUs of a simulated node and what runs on them")
    show_parser.add_argument("directory", type=Path)
    show_parser.set_defaults(run=_show)


def _create(args: argparse.Namespace) -> int:
    try:
        node = create(args.directory, args.gpus)
    except SimError as error:
        return _fail(error)
    sys.stdout.write(f"created {len(node.gpus())} simulated GPUs; to use them:\n  . {node.directory / 'env'}\n")
    return 0


def _show(args: argparse.Namespace) -> int:
    try:
        node = SimNode.open(args.directory)
    except SimError as error:
        return _fail(error)
    for gpu in node.gpus():
        sys.stdout.write(_description(gpu))
    return 0


def _description(gpu: Gpu) -> str:
    timeslice = "not supported" if gpu.timeslice is None else gpu.timeslice.name
    processes = [
        f"  process {process.pid} {process.kind.name} {process.memory >> 20} MiB\n" for process in gpu.processes
    ]
    return "".join(
        (
            f"{gpu.index} {gpu.uuid} {gpu.name} {gpu.memory >> 20} MiB\n",
            f"  minor {gpu.minor}, compute mode {gpu.compute_mode.name}, time slice {timeslice}\n",
            *processes,
        )
    )


def _fail(error: SimError) -> int:
    sys.stderr.write(f"error: {error}\n")
    return 1
