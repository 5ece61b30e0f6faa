"""`gpusharing agent`: one process on each GPU node."""

import argparse
import asyncio
import fcntl
import gc
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path

import structlog

from gpusharing import __version__
from gpusharing.agent.cdi import CdiDirectory
from gpusharing.agent.cdi_specs import CdiSpecs
from gpusharing.agent.claim_status import ClaimStatusWriter
from gpusharing.agent.dra.health import HealthService
from gpusharing.agent.dra.server import PluginServer
from gpusharing.agent.dra.service import DraService
from gpusharing.agent.gpus import NodeGpus
from gpusharing.agent.hardware.errors import DriverExchangedError, HardwareError
from gpusharing.agent.hardware.node import Hardware
from gpusharing.agent.hardware.walls import CGROUPS
from gpusharing.agent.health import NodeHealth
from gpusharing.agent.health_events import HealthEvents
from gpusharing.agent.node import NodeLoop
from gpusharing.agent.prepare import Preparer
from gpusharing.agent.records import Records
from gpusharing.agent.settling.settler import Settler
from gpusharing.agent.survey import Survey
from gpusharing.agent.walls.program import PACKAGED
from gpusharing.agent.walls.walls import Walls
from gpusharing.agent.watch import Watch
from gpusharing.api import names
from gpusharing.core.narrowing import Timing
from gpusharing.kube import credentials, logs
from gpusharing.kube.events import Events
from gpusharing.kube.transport import Api, open_session

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
    parser.add_argument("--driver", default=names.DEFAULT_DRIVER, help="DRA driver name (default: %(default)s)")
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
            asyncio.run(_main(arguments))
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
                    _hardware(arguments),
                    specs=CdiSpecs(_cdi_directories(arguments)),
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
                    _hardware(arguments),
                    state=arguments.state_dir,
                    proc_root=arguments.proc_root,
                    cdi=CdiDirectory(_cdi_directories(arguments)),
                    kubelet_root=arguments.kubelet_root,
                    driver=arguments.driver,
                )
            )
    except (AlreadyRunningError, HardwareError, OSError) as error:
        left = [str(error)]
    for problem in left:
        sys.stderr.write(f"not cleaned up: {problem}\n")
    if not left:
        sys.stdout.write("The GPUs are as they were found, and nothing of the agent is left on this node.\n")
    return 1 if left else 0


def _hardware(arguments: argparse.Namespace) -> Hardware:
    return Hardware(
        arguments.driver_root,
        sysfs_root=arguments.sysfs_root,
        proc_root=arguments.proc_root,
        dev_root=arguments.dev_root,
        cdi_directories=_cdi_directories(arguments),
    )


def _cdi_directories(arguments: argparse.Namespace) -> tuple[Path, ...]:
    return tuple(arguments.cdi_dirs or (Path("/var/run/cdi"), Path("/etc/cdi")))


async def _main(arguments: argparse.Namespace) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    agent = asyncio.create_task(_agent(arguments))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({agent, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    agent.cancel()
    try:
        await agent
    except asyncio.CancelledError:
        log.info("stopped")
    except ExceptionGroup as group:
        if group.subgroup(DriverExchangedError) is None:
            raise
        raise DriverExchangedError("another GPU driver is loaded than the one this agent began with") from None


async def _agent(arguments: argparse.Namespace) -> None:
    credential = credentials.load(arguments.kubeconfig)
    hardware = _hardware(arguments)
    await hardware.open()
    records = Records(arguments.state_dir, proc_root=arguments.proc_root)
    gpus = NodeGpus(
        records,
        node=arguments.node_name,
        menus=arguments.menus,
        timing=Timing(patience=arguments.taken_wait, taken=arguments.taken_wait, idle=arguments.idle_wait),
    )
    specs = CdiSpecs(_cdi_directories(arguments))
    walls = Walls(hardware, records, specs, state=arguments.state_dir, packaged=arguments.wall_program)
    settler = Settler(hardware, records, mps_home=arguments.state_dir / "mps", at_rest=gpus.at_rest)
    health = NodeHealth(records, problem=settler.problem)
    survey = Survey(hardware=hardware, walls=walls, gpus=gpus, health=health)
    await survey.take()
    cdi = CdiDirectory(_cdi_directories(arguments))
    changed = asyncio.Event()
    stream = HealthService(records.claims.values, health.of_device)

    def on_change() -> None:
        stream.tell()
        changed.set()

    async with open_session(credential) as session:
        api = Api(session, credential.server, user_agent=f"gpusharing-agent/{__version__}")
        writer = ClaimStatusWriter(api, arguments.driver, health)
        preparer = Preparer(
            node=arguments.node_name,
            driver=arguments.driver,
            api=api,
            records=records,
            hardware=hardware,
            gpus=gpus,
            settler=settler,
            walls=walls,
            cdi=cdi,
            on_prepared=writer.announce,
            on_change=on_change,
        )
        await preparer.recover()
        for claim in records.claims.values():
            # What a predecessor may not have got round to.
            writer.announce(claim)
        events = Events(api, controller="gpusharing.dev/agent", instance=arguments.node_name)
        health_events = HealthEvents(events)
        watch = Watch(
            hardware=hardware,
            survey=survey,
            walls=walls,
            health=health,
            settler=settler,
            gate=preparer.gate,
            on_change=on_change,
        )
        service = DraService(preparer.prepare, preparer.unprepare)
        server = PluginServer(service, stream, kubelet_root=arguments.kubelet_root, driver=arguments.driver)
        # What can fail at a start stands before the group, which would wrap its error.
        async with server, asyncio.TaskGroup() as tasks:
            log.info("serving the kubelet", gpus=len(gpus.uuids), claims=len(records.claims), version=__version__)
            # What is alive now lives for as long as the process: the collector need not look at it again.
            gc.freeze()
            tasks.create_task(writer.run())
            tasks.create_task(health_events.run())
            tasks.create_task(watch.run())
            loop = NodeLoop(
                node=arguments.node_name,
                driver=arguments.driver,
                api=api,
                records=records,
                gpus=gpus,
                settler=settler,
                health=health,
                health_events=health_events,
                writer=writer,
                stream=stream,
                survey=survey,
                changed=changed,
                preparer=preparer,
            )
            await loop.run()


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
