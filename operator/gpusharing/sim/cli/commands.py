"""What `gpusharing sim` can do to a node. Errors are one line, and exit with 1."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from gpusharing.sim import cuda, drivers
from gpusharing.sim.cli import fault_arguments
from gpusharing.sim.cli.choice import find_gpu
from gpusharing.sim.cli.description import describe
from gpusharing.sim.errors import SimError
from gpusharing.sim.installation import install
from gpusharing.sim.models import MODELS
from gpusharing.sim.node import SimNode, create
from gpusharing.sim.quirks import Quirk, parse_quirks

Action = Callable[[SimNode, argparse.Namespace], None]
Parsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001 - it has no public name


def register(subparsers: Parsers) -> None:
    sim = subparsers.add_parser(
        "sim", help="simulated GPU nodes", description="Nodes with GPUs that are not there, for programs that think so."
    )
    commands = sim.add_subparsers(required=True, metavar="COMMAND")
    _add_create(commands)
    _add_install(commands)
    _add(commands, "show", "the GPUs of a node, what runs on them, and what is wrong", _show)
    _add_run(commands)
    fault_arguments.add_faults(_add(commands, "inject", "let something go wrong", _inject), required=True)
    fault_arguments.add_faults(_add(commands, "clear", "end a fault, or all of them", _clear), required=False)
    reset = _add(commands, "reset", "reset a GPU: its MIG instances are gone, a pending MIG mode is active", _reset)
    reset.add_argument("gpu", metavar="GPU", help="index or UUID")
    _add(commands, "reboot", "another boot id, and what the hardware does not keep is gone", _reboot)
    _add(commands, "unload-driver", "rmmod nvidia: NVML answers DRIVER_NOT_LOADED", _unload_driver)
    for name, summary, action in (
        ("load-driver", "modprobe nvidia, the same driver or another", _load_driver),
        ("reload-driver", "unload and load it: instances, time slices, compute modes are gone", _reload_driver),
    ):
        _add_driver(_add(commands, name, summary, action), "(the one that was there)")


def _add(commands: Parsers, name: str, summary: str, action: Action) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
    parser.add_argument("directory", metavar="DIR", type=Path, help="of a node that `create` made")
    parser.set_defaults(run=lambda arguments: _run_on_node(action, arguments))
    return parser


def _add_create(commands: Parsers) -> None:
    summary = "make a node in a new directory"
    parser = commands.add_parser("create", help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
    parser.add_argument("directory", metavar="DIR", type=Path, help="which does not exist yet, or is empty")
    _add_gpus(parser)
    _add_driver(parser, f"({drivers.DEFAULT})")
    parser.add_argument("--seed", help="the same text gives GPUs with the same UUIDs")
    quirks = ", ".join(quirk.option for quirk in Quirk)
    parser.add_argument("--quirks", metavar="QUIRK,...", default="", help=f"what is peculiar about it: {quirks}")
    parser.set_defaults(run=lambda arguments: _reported(lambda: _create(arguments)))


def _add_install(commands: Parsers) -> None:
    summary = "make a node where there is none yet, reboot it if this machine was, and publish its CDI spec"
    parser = commands.add_parser("install", help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
    parser.add_argument("directory", metavar="DIR", type=Path, help="which belongs to the simulated node alone")
    _add_gpus(parser)
    parser.add_argument("--seed", required=True, help="the same text gives GPUs with the same UUIDs")
    parser.add_argument(
        "--cdi-dir", type=Path, default=Path("/etc/cdi"), metavar="DIR", help="of the container runtime (%(default)s)"
    )
    parser.set_defaults(run=lambda arguments: _reported(lambda: _install(arguments)))


def _add_gpus(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--gpus", required=True, metavar="MODEL[:COUNT],...", help=f"models: {', '.join(MODELS)}")


def _add_driver(parser: argparse.ArgumentParser, default: str) -> None:
    branches = ", ".join(str(driver.branch) for driver in drivers.KNOWN)
    parser.add_argument("--driver", metavar="VERSION", help=f"of the branches {branches} {default}")


def _add_run(commands: Parsers) -> None:
    parser = _add(commands, "run", "a process that uses a GPU as a program with CUDA does, until SIGTERM", _run)
    defaults = cuda.Options()
    parser.add_argument("--gpu", metavar="GPU", help="index or UUID of a GPU or MIG device (CUDA_VISIBLE_DEVICES)")
    parser.add_argument("--memory", default=defaults.memory, help="as 512M or 4G (%(default)s)")
    parser.add_argument("--utilization", type=int, default=0, metavar="N", help="percent of the GPU (%(default)s)")
    parser.add_argument("--mps-pipe", metavar="DIR", type=Path, help="of an MPS daemon (CUDA_MPS_PIPE_DIRECTORY)")
    parser.add_argument("--cgroup", metavar="DIR", type=Path, help="held to its limits instead of its own cgroup's")
    parser.add_argument("--dev", metavar="DIR", type=Path, help="only devices with files there, as in a container")
    parser.add_argument("--heartbeat", metavar="FILE", type=Path, help="written every 10 ms")
    parser.add_argument("--seconds", type=float, metavar="N", help="ends by itself")


def _run_on_node(action: Action, arguments: argparse.Namespace) -> int:
    return _reported(lambda: action(SimNode.open(arguments.directory), arguments))


def _reported(action: Callable[[], None]) -> int:
    try:
        action()
    except (SimError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


def _create(arguments: argparse.Namespace) -> None:
    driver = arguments.driver or drivers.DEFAULT
    quirks = parse_quirks(arguments.quirks)
    node = create(arguments.directory, arguments.gpus, driver=driver, seed=arguments.seed, quirks=quirks)
    sys.stdout.write(f"created {len(node.gpus())} simulated GPUs; to use them:\n  . {node.directory / 'env'}\n")


def _install(arguments: argparse.Namespace) -> None:
    node = install(arguments.directory, arguments.gpus, seed=arguments.seed, cdi_dir=arguments.cdi_dir)
    sys.stdout.write(f"{len(node.gpus())} simulated GPUs are in {node.directory}\n")


def _show(node: SimNode, _arguments: argparse.Namespace) -> None:
    sys.stdout.write(describe(node))


def _run(node: SimNode, arguments: argparse.Namespace) -> None:
    cuda.execute(
        node,
        cuda.Options(
            gpu=arguments.gpu,
            memory=arguments.memory,
            utilization=arguments.utilization,
            mps_pipe=arguments.mps_pipe,
            cgroup=arguments.cgroup,
            dev=arguments.dev,
            heartbeat=arguments.heartbeat,
            seconds=arguments.seconds,
        ),
    )


def _inject(node: SimNode, arguments: argparse.Namespace) -> None:
    node.inject(fault_arguments.read_fault(node, arguments))


def _clear(node: SimNode, arguments: argparse.Namespace) -> None:
    node.clear(fault_arguments.read_fault(node, arguments) if arguments.fault else None)


def _reset(node: SimNode, arguments: argparse.Namespace) -> None:
    node.reset_gpu(find_gpu(node, arguments.gpu))


def _reboot(node: SimNode, _arguments: argparse.Namespace) -> None:
    node.reboot()


def _unload_driver(node: SimNode, _arguments: argparse.Namespace) -> None:
    node.unload_driver()


def _load_driver(node: SimNode, arguments: argparse.Namespace) -> None:
    node.load_driver(arguments.driver)


def _reload_driver(node: SimNode, arguments: argparse.Namespace) -> None:
    node.reload_driver(arguments.driver)
