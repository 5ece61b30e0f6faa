"""`gpusharing agent`: one process on each GPU node."""

import argparse
import asyncio
import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path

import structlog

from gpusharing.agent.cdi import CdiDirectory
from gpusharing.agent.cdi_specs import CdiSpecs
from gpusharing.agent.hardware.errors import HardwareError
from gpusharing.agent.hardware.walls import CGROUPS
from gpusharing.agent.process import cdi_directories, hardware_of, main
from gpusharing.agent.walls.program import PACKAGED
from gpusharing.api import names
from gpusharing.core.publishing.narrowing import Timing
from gpusharing.kube import credentials, logs
from gpusharing.kube.address import Address

log = structlog.get_logger(__name__)


class AlreadyRunningError(Exception):
    """Two agents on one node would undo each other's work."""


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("agent", help="run the agent of a GPU node", description=__doc__)
    parser.add_argument(
        "task",
        nargs="?",
        choices=["selftest", "cleanup"],
        help="instead of running as the agent: tell what the GPUs here can do, or put everything back before the agent "
        "is uninstalled",
    )
    parser.add_argument("--node-name", help="the Node that this agent speaks for")
    parser.add_argument("--kubeconfig", type=Path, help="default: the pod's service account")
    parser.add_argument("--driver-root", type=Path, default=Path("/"), help="where the GPU driver's files are")
    parser.add_argument("--sysfs-root", type=Path, default=Path("/sys"), help="default: %(default)s")
    parser.add_argument("--proc-root", type=Path, default=Path("/proc"), help="default: %(default)s")
    parser.add_argument("--dev-root", type=Path, default=Path("/dev"), help="default: %(default)s")
    parser.add_argument("--kubelet-root", type=Path, default=Path("/var/lib/kubelet"), help="default: %(default)s")
    parser.add_argument(
        "--cdi-dir",
        type=Path,
        action="append",
        dest="cdi_dirs",
        help="a CDI directory of the container runtime; the first one is written to (default: /var/run/cdi, /etc/cdi)",
    )
    parser.add_argument(
        "--state-dir",
        type=Path,
        default=Path("/var/lib/gpusharing"),
        help="has to have the same path on the host (default: %(default)s)",
    )
    parser.add_argument(
        "--shm-dir",
        type=Path,
        default=Path("/dev/shm/gpusharing"),  # noqa: S108 (nobody else makes it)
        help="in memory, for what clients of MPS have in common with their daemon; has to have the same path on the "
        "host (default: %(default)s)",
    )
    parser.add_argument(
        "--wall-program",
        type=Path,
        default=PACKAGED,
        help="our hook for memory walls, which is put into the state directory for the host (default: %(default)s)",
    )
    offering = parser.add_argument_group("what is offered")
    offering.add_argument(
        "--menus",
        type=int,
        default=1,
        metavar="N",
        help="how many idle GPUs of a kind carry all that is offered; the others are whole only (default: %(default)s)",
    )
    offering.add_argument(
        "--taken-wait",
        type=float,
        default=Timing().taken,
        metavar="SECONDS",
        help="before what a claim excludes is withdrawn: longer than the scheduler may be late (default: %(default)s)",
    )
    offering.add_argument(
        "--idle-wait",
        type=float,
        default=Timing().idle,
        metavar="SECONDS",
        help="before what is not offered any more is withdrawn from an idle GPU; the operator's has to be the same "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--listen",
        type=Address.parse,
        default="0.0.0.0:8080",
        metavar="HOST:PORT",
        help="where /healthz, /readyz and /metrics are served (default: %(default)s)",
    )
    parser.add_argument("--log-format", choices=["json", "console"], default="json")
    selftest = parser.add_argument_group("selftest")
    selftest.add_argument(
        "--exercise",
        action="store_true",
        help="change every setting of an idle GPU and put it back, while no agent runs",
    )
    selftest.add_argument("--gpu", metavar="UUID", help="which GPU to exercise (default: the first one that is idle)")
    parser.set_defaults(run=partial(_run, parser))


def _run(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    logs.configure(arguments.log_format)
    if arguments.task == "selftest":
        return _selftest(arguments)
    if arguments.task == "cleanup":
        return _cleanup(arguments)
    if arguments.node_name is None:
        parser.error("the following arguments are required: --node-name")
    return run(arguments)


def run(arguments: argparse.Namespace) -> int:
    try:
        with _only_one(arguments.state_dir):
            asyncio.run(main(arguments))
    except (AlreadyRunningError, HardwareError, credentials.CredentialsError, OSError, ValueError) as error:
        log.critical("agent cannot run", error=str(error))
        return 1
    return 0


def _selftest(arguments: argparse.Namespace) -> int:
    # The agent itself has no use for it.
    from gpusharing.agent.selftest.main import selftest  # noqa: PLC0415

    try:
        # What is exercised while an agent runs, the agent would undo.
        with _only_one(arguments.state_dir) if arguments.exercise else nullcontext():
            report = asyncio.run(
                selftest(
                    hardware_of(arguments),
                    specs=CdiSpecs(cdi_directories(arguments)),
                    cgroups=arguments.sysfs_root / CGROUPS,
                    exercise=arguments.exercise,
                    chosen=arguments.gpu,
                )
            )
    except (AlreadyRunningError, HardwareError, OSError) as error:
        sys.stderr.write(f"selftest cannot run: {error}\n")
        return 1
    sys.stdout.write(report.text())
    return 1 if report.has_failed else 0


def _cleanup(arguments: argparse.Namespace) -> int:
    # As above.
    from gpusharing.agent.cleanup import clean_up  # noqa: PLC0415

    try:
        with _only_one(arguments.state_dir):
            left = asyncio.run(
                clean_up(
                    hardware_of(arguments),
                    state=arguments.state_dir,
                    shm=arguments.shm_dir,
                    proc_root=arguments.proc_root,
                    cdi=CdiDirectory(cdi_directories(arguments)),
                    kubelet_root=arguments.kubelet_root,
                    driver=names.DRIVER,
                )
            )
    except (AlreadyRunningError, HardwareError, OSError) as error:
        left = [str(error)]
    for problem in left:
        sys.stderr.write(f"not cleaned up: {problem}\n")
    if not left:
        sys.stdout.write("The GPUs are as they were found, and nothing of the agent is left on this node.\n")
    return 1 if left else 0


@contextmanager
def _only_one(state_directory: Path) -> Iterator[None]:
    state_directory.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(state_directory / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise AlreadyRunningError(
                f"another agent holds {state_directory / 'lock'}: there can be one on a node"
            ) from error
        yield
    finally:
        os.close(descriptor)
