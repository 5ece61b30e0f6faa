"""Faults as arguments: each is a command of its own, and its fields are the options."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints

from gpusharing.sim.cli.choice import find_gpu
from gpusharing.sim.faults import FAULTS, Fault
from gpusharing.sim.node import SimNode

HELP = {
    "action": "what would recover it: a number of nvmlDeviceGpuRecoveryAction_t (%(default)s)",
    "after": "leaves so many calls alone first",
    "code": "the number of the error that NVML answers",
    "compute_instance": "id of the compute instance that it is of",
    "failed": "there is no row left to put in its place",
    "function": "of NVML, with all its versions, or * for all",
    "gpu": "index or UUID",
    "gpu_instance": "id of the GPU instance that it is of",
    "pipe": "the daemon's pipe directory",
    "profile": "name of a MIG profile, as 1g.10gb",
    "recovery": "what would recover it, as for reset-needed (by NVIDIA's catalogue of XIDs)",
    "seconds": "goes on after that (%(default)s)",
    "start": "the memory slice at which it begins",
    "times": "hits so many calls only",
    "xid": "the number",
}


def add_faults(parser: argparse.ArgumentParser, *, required: bool) -> None:
    faults = parser.add_subparsers(dest="fault", metavar="FAULT", required=required)
    for name, fault in FAULTS.items():
        text = (fault.__doc__ or "").split("\n\n")[0]
        summary = " ".join(text.split()).replace("%", "%%")
        subparser = faults.add_parser(name, help=summary, description=summary)
        for field in dataclasses.fields(fault):
            _add_option(subparser, field, get_type_hints(fault)[field.name])


def read_fault(node: SimNode, arguments: argparse.Namespace) -> Fault:
    fault = FAULTS[arguments.fault]
    values = {field.name: getattr(arguments, field.name) for field in dataclasses.fields(fault)}
    if values.get("gpu") is not None:
        values["gpu"] = find_gpu(node, values["gpu"])
    return fault(**values)


def words(fault: Fault) -> str:
    """As it is written behind `inject`, and behind `clear`."""
    options = []
    for field in dataclasses.fields(fault):
        value = getattr(fault, field.name)
        if value is True:
            options.append(_option(field.name))
        elif value != field.default:
            options.append(f"{_option(field.name)} {value}")
    return " ".join([fault.name, *options])


def _add_option(parser: argparse.ArgumentParser, field: dataclasses.Field[Any], hint: Any) -> None:
    required = field.default is dataclasses.MISSING
    kind = next((each for each in get_args(hint) if each is not NoneType), hint)
    if kind is bool:
        parser.add_argument(_option(field.name), action="store_true", help=HELP[field.name])
        return
    metavar = "DIR" if kind is Path else field.name.upper()
    default = None if required else field.default
    parser.add_argument(
        _option(field.name), required=required, default=default, type=kind, metavar=metavar, help=HELP[field.name]
    )


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
