"""`gpusharing agent`: one process on each GPU node."""

import argparse
import asyncio
import fcntl
import os
import signal
import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from gpusharing.agent.containers.cdi import CdiDirectory
from gpusharing.agent.problems import DirectoryGoneError
from gpusharing.agent.process import cdi_specs_of, hardware_of, main
from gpusharing.agent.walls.program import PACKAGED
from gpusharing.api import names
from gpusharing.core import quantities
from gpusharing.core.publishing.narrowing import Timing
from gpusharing.kube import credentials, logs
from gpusharing.kube.address import Address
from gpusharing.nvidia.driver_root import DriverRoot
from gpusharing.nvidia.errors import HardwareError
from gpusharing.nvidia.mps.directory import SHM_SIZE
from gpusharing.nvidia.wall_support import CGROUPS

log = structlog.get_logger(__name__)


class AlreadyRunningError(Exception):
    """Two agents on one node would undo each other's work."""


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser("agent", help="run the agent of a GPU node", description=__doc__)
    parser.add_argument(
        "task",
        nargs="?",
        choices=["selftest", "cleanup"],
        help="instead of running as the agent: report what the GPUs of this node support, or restore everything before "
        "the agent is uninstalled",
    )
    parser.add_argument("--node-name", help="name of the Node on which this agent runs")
    parser.add_argument("--kubeconfig", type=Path, help="default: the pod's service account")
    parser.add_argument(
        "--driver-root",
        type=Path,
        default=Path("/"),
        help="the host's root directory, in which the GPU driver is found where it is usually installed (also by "
        "NVIDIA's GPU operator), or the driver's own directory (default: %(default)s)",
    )
    parser.add_argument("--sysfs-root", type=Path, default=Path("/sys"), help="the host's /sys (default: %(default)s)")
    parser.add_argument("--proc-root", type=Path, default=Path("/proc"), help="the host's /proc (default: %(default)s)")
    parser.add_argument("--dev-root", type=Path, default=Path("/dev"), help="the host's /dev (default: %(default)s)")
    parser.add_argument(
        "--kubelet-root",
        type=Path,
        default=Path("/var/lib/kubelet"),
        help="the kubelet's directory (default: %(default)s)",
    )
    parser.add_argument(
        "--cdi-dir",
        type=Path,
        action="append",
        dest="cdi_dirs",
        help="a CDI directory of the container runtime; the first one is written to (default: /var/run/cdi, /etc/cdi)",
    )
    parser.add_argument(
        "--beside-others",
        action="store_true",
        help="publish GPUs although another DRA driver of this name, a device plugin or MIG manager serves them",
    )
    parser.add_argument(
        "--nvidia-ctk",
        type=Path,
        metavar="FILE",
        help="NVIDIA's program that writes a CDI spec where the node has none of its GPUs (default: found below "
        "--driver-root where packages and NVIDIA's GPU operator install it)",
    )
    parser.add_argument(
        "--state-dir",
        type=Path,
        default=Path("/var/lib/gpusharing"),
        help="must have the same path on the host (default: %(default)s)",
    )
    parser.add_argument(
        "--mps-dir",
        type=Path,
        default=Path("/run/gpusharing"),
        help="for the directories of MPS daemons, which are mounted there, and for copies of what GPUs go back to; has "
        "to have the same path on the host, and to be empty after a reboot (default: %(default)s)",
    )
    parser.add_argument(
        "--mps-shm-size",
        type=_bytes,
        default=SHM_SIZE,
        metavar="AMOUNT",
        help="of the shared memory of each MPS daemon and its clients (default: 4Gi)",
    )
    parser.add_argument(
        "--wall-program",
        type=Path,
        default=PACKAGED,
        help="the hook program of memory walls, which the agent copies into the state directory (default: %(default)s)",
    )
    offering = parser.add_argument_group("publishing devices")
    offering.add_argument(
        "--full-menus",
        type=int,
        default=1,
        metavar="N",
        help="how many idle GPUs of each model and policy publish every offered mode; the rest publish whole GPUs only "
        "(default: %(default)s)",
    )
    offering.add_argument(
        "--taken-wait",
        type=float,
        default=Timing().taken,
        metavar="SECONDS",
        help="wait before devices are withdrawn that a new claim excludes; longer than the scheduler lags "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--additional-xids-to-ignore",
        type=xids,
        default=(),
        metavar="XID,...",
        help="XIDs that are only reported, and withhold no GPU from new claims (default: none)",
    )
    parser.add_argument(
        "--listen",
        type=Address.parse,
        default="0.0.0.0:8080",
        metavar="HOST:PORT",
        help="the address of /healthz, /readyz and /metrics (default: %(default)s)",
    )
    parser.add_argument("--log-format", choices=["json", "console"], default="json")
    selftest = parser.add_argument_group("selftest")
    selftest.add_argument(
        "--exercise",
        action="store_true",
        help="change every setting of an idle GPU and restore it, while no agent runs",
    )
    selftest.add_argument("--gpu", metavar="UUID", help="which GPU to exercise (default: the first one that is idle)")
    parser.set_defaults(run=partial(_run, parser))


def xids(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(",") if number.strip())


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
    except (
        AlreadyRunningError,
        DirectoryGoneError,
        HardwareError,
        credentials.CredentialsError,
        OSError,
        ValueError,
    ) as error:
        log.critical("agent cannot run", error=str(error))
        return 1
    return 0


def _selftest(arguments: argparse.Namespace) -> int:
    specs, cgroups = cdi_specs_of(arguments), arguments.sysfs_root / CGROUPS
    # The agent itself has no use for it.
    from gpusharing.agent.selftest.main import selftest  # noqa: PLC0415
    from gpusharing.nvidia.cuda import Cuda  # noqa: PLC0415

    try:
        # What is exercised while an agent runs, the agent would undo.
        with _only_one(arguments.state_dir) if arguments.exercise else nullcontext():
            report = asyncio.run(
                selftest(
                    hardware_of(arguments, specs),
                    Cuda(
                        DriverRoot.find(arguments.driver_root, proc=arguments.proc_root),
                        dev=arguments.dev_root,
                        cgroups=cgroups,
                    ),
                    specs=specs,
                    cgroups=cgroups,
                    mps_home=arguments.mps_dir,
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
    specs = cdi_specs_of(arguments)
    # As above.
    from gpusharing.agent.cleanup import clean_up  # noqa: PLC0415
    from gpusharing.agent.cleanup_report import reporting  # noqa: PLC0415

    async def clean_up_and_report() -> list[str]:
        async with reporting(arguments.kubeconfig, arguments.node_name) as report:
            return await clean_up(
                hardware_of(arguments, specs),
                state=arguments.state_dir,
                mps_home=arguments.mps_dir,
                proc_root=arguments.proc_root,
                cdi=CdiDirectory(specs),
                kubelet_root=arguments.kubelet_root,
                driver=names.DRIVER,
                listen=arguments.listen,
                say=lambda problem: _say(f"not cleaned up yet: {problem}"),
                report=report,
            )

    try:
        with _only_one(arguments.state_dir):
            left = asyncio.run(_until_stopped(clean_up_and_report()))
    except asyncio.CancelledError:
        left = ["stopped before all claims were released: start it again"]
    except (AlreadyRunningError, HardwareError, credentials.CredentialsError, OSError) as error:
        left = [str(error)]
    for problem in left:
        _say(f"not cleaned up: {problem}")
    if not left:
        sys.stdout.write("The GPUs are as they were found, and nothing of the agent is left on this node.\n")
    return 1 if left else 0


def _say(problem: str) -> None:
    sys.stderr.write(f"{problem}\n")


async def _until_stopped(work: Coroutine[Any, Any, list[str]]) -> list[str]:
    """The sockets do not outlive it."""
    task = asyncio.create_task(work)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    return await task


def _bytes(amount: str) -> int:
    return quantities.mebibytes(amount) * 1024**2


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
