"""`gpusharing operator`."""

import argparse
import asyncio
import math
from pathlib import Path
from typing import Any, Final

import structlog

from gpusharing.api import names
from gpusharing.api.sharing.node_spec import IDLE_WAIT
from gpusharing.controller import ending
from gpusharing.controller.operate import operate
from gpusharing.controller.running import Options
from gpusharing.kube import logs
from gpusharing.kube.address import Address
from gpusharing.kube.elector import LeaseName

log = structlog.get_logger(__name__)

# Shorter ones would be lost while the API server is only slow.
_SHORTEST_LEASE: Final = 3


def register(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "operator", help="run the operator: resolve sharing policies into a NodeSharing for each node"
    )
    parser.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="kubeconfig file (default: the pod's ServiceAccount)"
    )
    parser.add_argument(
        "--listen",
        type=Address.parse,
        default="0.0.0.0:8080",
        metavar="HOST:PORT",
        help="address of /healthz, /readyz and /metrics (default: %(default)s)",
    )
    parser.add_argument(
        "--idle-wait",
        type=_idle_wait,
        default=IDLE_WAIT,
        metavar="SECONDS",
        help="time before a closing device of an idle GPU may be withdrawn (default: %(default)s)",
    )
    parser.add_argument(
        "--lease-namespace",
        default=names.NAMESPACE,
        metavar="NAMESPACE",
        help="namespace of the Lease for leader election (default: %(default)s)",
    )
    parser.add_argument(
        "--lease-name",
        default=names.OPERATOR,
        metavar="NAME",
        help="name of this Lease (default: %(default)s)",
    )
    parser.add_argument(
        "--lease-duration",
        type=_lease_duration,
        default=15,
        metavar="SECONDS",
        help="time after which another replica replaces a leader that does not renew the Lease (default: %(default)s)",
    )
    parser.add_argument(
        "--log-format", choices=logs.FORMATS, default="json", help="format of log lines (default: %(default)s)"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    logs.configure(args.log_format)
    options = Options(
        kubeconfig=args.kubeconfig,
        idle_wait=args.idle_wait,
        listen=args.listen,
        lease=LeaseName(namespace=args.lease_namespace, name=args.lease_name),
        lease_duration=args.lease_duration,
    )
    try:
        asyncio.run(operate(options))
    except asyncio.CancelledError:
        log.info("stopped before the start")
    except Exception as error:
        if not ending.log_causes(error):
            raise
        return 1
    return 0


def _lease_duration(text: str) -> int:
    if not text.isdecimal() or int(text) < _SHORTEST_LEASE:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {_SHORTEST_LEASE} seconds")
    return int(text)


def _idle_wait(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds of at least 0")
    return seconds
