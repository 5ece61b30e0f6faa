"""The agent as a process: everything that it is made of, from its arguments to its tasks."""

import argparse
import asyncio
import gc
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import structlog

from gpusharing import __version__
from gpusharing.agent import endpoints
from gpusharing.agent.claims.parts import ClaimParts
from gpusharing.agent.claims.recovery import ClaimRecovery
from gpusharing.agent.claims.status import ClaimStatusWriter
from gpusharing.agent.containers.cdi import CdiDirectory
from gpusharing.agent.containers.device_metadata import METADATA, MetadataFiles
from gpusharing.agent.containers.of_processes import ContainerClaims
from gpusharing.agent.health.events import HealthEvents
from gpusharing.agent.health.node_health import NodeHealth
from gpusharing.agent.inspection.inspection import Inspection, parts_of
from gpusharing.agent.inspection.mounts import MountedDirectories
from gpusharing.agent.inspection.node_problems import NodeProblems
from gpusharing.agent.inspection.survey import Survey
from gpusharing.agent.inspection.watch import Watch
from gpusharing.agent.kubelet.health_stream import HealthService
from gpusharing.agent.kubelet.server import PluginServer
from gpusharing.agent.kubelet.service import DraService
from gpusharing.agent.metrics.attribution import Attribution
from gpusharing.agent.metrics.claims import ClaimMeter
from gpusharing.agent.metrics.node import NodeMetrics, RecoveredGpus
from gpusharing.agent.metrics.operations import OperationMeter
from gpusharing.agent.metrics.use import ClaimUse
from gpusharing.agent.node_loop import NodeLoop
from gpusharing.agent.problems import DirectoryGoneError
from gpusharing.agent.publishing.node_gpus import NodeGpus
from gpusharing.agent.publishing.other_drivers import OtherDrivers
from gpusharing.agent.settling.settler import Settler
from gpusharing.agent.start import Start
from gpusharing.agent.state.records import Records
from gpusharing.agent.steps import InternalErrors, Steps
from gpusharing.agent.walls.claim_walls import Walls
from gpusharing.api import names
from gpusharing.core.publishing.narrowing import Timing
from gpusharing.kube import credentials
from gpusharing.kube.events import Events
from gpusharing.kube.http_server import serving
from gpusharing.kube.transport import Api, open_session
from gpusharing.kube.watches import Watches
from gpusharing.nvidia.cdi_generation import CdiGenerator
from gpusharing.nvidia.cdi_specs import CdiSpecs
from gpusharing.nvidia.errors import DriverExchangedError
from gpusharing.nvidia.hardware import Hardware
from gpusharing.nvidia.wall_support import CGROUPS

log = structlog.get_logger(__name__)

# Two for what is watched, one for what the node reports, one for claims' statuses, one for claims to prepare. Many pods
# that start at once are no reason for more: their claims are prepared one after the other.
_CONNECTIONS: Final = 5


def hardware_of(arguments: argparse.Namespace, specs: CdiSpecs) -> Hardware:
    return Hardware(
        arguments.driver_root,
        sysfs_root=arguments.sysfs_root,
        proc_root=arguments.proc_root,
        dev_root=arguments.dev_root,
        specs=specs,
        mps_shm_size=arguments.mps_shm_size,
    )


def cdi_specs_of(arguments: argparse.Namespace) -> CdiSpecs:
    return CdiSpecs(tuple(arguments.cdi_dirs or (Path("/var/run/cdi"), Path("/etc/cdi"))))


def _host_directories(arguments: argparse.Namespace, specs: CdiSpecs) -> tuple[Path, ...]:
    """Where the agent's container has directories of the node."""
    kubelet = arguments.kubelet_root
    sockets = (kubelet / "plugins", kubelet / "plugins_registry")
    return *sockets, *specs.directories, arguments.state_dir, arguments.mps_dir, arguments.driver_root


async def main(arguments: argparse.Namespace) -> None:
    if sys.version_info < (3, 12):
        # As newer ones do: without a thread for each program that is run.
        watcher = asyncio.PidfdChildWatcher()
        watcher.attach_loop(asyncio.get_running_loop())
        asyncio.set_child_watcher(watcher)
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
        if group.subgroup(DriverExchangedError):
            raise DriverExchangedError("another GPU driver is loaded than the one this agent began with") from None
        if gone := group.subgroup(DirectoryGoneError):
            raise gone.exceptions[0] from None
        raise


async def _agent(arguments: argparse.Namespace) -> None:
    credential = credentials.load(arguments.kubeconfig)
    operations = OperationMeter()
    specs = cdi_specs_of(arguments)
    hardware = operations.metered(hardware_of(arguments, specs))
    records = Records(arguments.state_dir, proc_root=arguments.proc_root, runtime=arguments.mps_dir)
    gpus = NodeGpus(
        records,
        node=arguments.node_name,
        menus=arguments.full_menus,
        waits_for_slots=True,
        timing=Timing(patience=arguments.taken_wait, taken=arguments.taken_wait),
    )
    walls = Walls(hardware, records, specs, state=arguments.state_dir, packaged=arguments.wall_program)
    changed = asyncio.Event()
    settler = Settler(
        hardware,
        records,
        mps_home=arguments.mps_dir,
        at_rest=gpus.at_rest,
        on_settled=changed.set,
    )
    health = NodeHealth(records, problem=settler.problem, ignored_xids=arguments.additional_xids_to_ignore)
    survey = Survey(hardware=hardware, walls=walls, gpus=gpus, health=health, gates=settler.gates)
    start = Start()
    cdi = CdiDirectory(specs, CdiGenerator(arguments.driver_root, arguments.nvidia_ctk))
    stream = HealthService(records.claims.values, health.of_device)

    def on_change() -> None:
        stream.tell()
        changed.set()

    async with open_session(credential, connections=_CONNECTIONS) as session:
        api = Api(session, credential.server, user_agent=f"gpusharing-agent/{__version__}")
        writer = ClaimStatusWriter(api, names.DRIVER, health, on_change=changed.set)
        internal_errors = InternalErrors()
        # Those of the node loop's rounds, and those that do not wait for one.
        steps, others = Steps(internal_errors), Steps(internal_errors)
        parts = ClaimParts.assemble(
            node=arguments.node_name,
            driver=names.DRIVER,
            api=api,
            records=records,
            hardware=hardware,
            gpus=gpus,
            settler=settler,
            walls=walls,
            cdi=cdi,
            metadata=MetadataFiles(arguments.state_dir / METADATA, names.DRIVER, sysfs=arguments.sysfs_root),
            unallocated=health.unallocated,
            start=start,
            steps=steps,
            on_change=on_change,
        )
        verdicts, preparer, recovery = parts.verdicts, parts.preparer, parts.recovery
        recovered = RecoveredGpus(records, settler)
        health_events = HealthEvents(Events(api, controller="gpusharing.dev/agent", instance=arguments.node_name))
        watch = Watch(
            hardware=hardware,
            survey=survey,
            walls=walls,
            health=health,
            settler=settler,
            on_change=on_change,
        )
        claims = ClaimMeter(records)
        server = PluginServer(
            DraService(claims.metered_prepare(preparer.prepare), claims.metered_unprepare(preparer.unprepare)),
            stream,
            kubelet_root=arguments.kubelet_root,
            driver=names.DRIVER,
            on_change=on_change,
        )
        watches = Watches()
        other_drivers = OtherDrivers(
            api, node=arguments.node_name, driver=names.DRIVER, are_accepted=arguments.beside_others
        )
        problems = NodeProblems(
            steps=(steps, others),
            records=records,
            server=server,
            watches=watches,
            start=start,
            others=other_drivers,
        )
        inspection = Inspection(
            parts_of(server=server, claims=recovery, records=records),
            mounts=MountedDirectories(_host_directories(arguments, specs)),
            steps=others,
            drift=settler.drift,
            problems=problems.find,
            on_restored=health_events.report_restored,
            on_change=on_change,
        )
        loop = NodeLoop(
            node=arguments.node_name,
            driver=names.DRIVER,
            api=api,
            records=records,
            gpus=gpus,
            settler=settler,
            health=health,
            health_events=health_events,
            writer=writer,
            stream=stream,
            steps=steps,
            problems=problems.find,
            is_registered=lambda: server.registered,
            calls=lambda: preparer.calls,
            survey=survey,
            changed=changed,
            start=start,
            recovery=recovery,
            verdicts=verdicts,
            watches=watches,
            others=other_drivers,
        )
        metrics = NodeMetrics(
            records=records,
            gpus=gpus,
            settler=settler,
            hardware=hardware,
            server=server,
            loop=loop,
            watches=watches,
            internal_errors=internal_errors.counts,
            unreadables=api.unreadables.counts,
            recovery=recovered,
            attribution=Attribution(
                node=arguments.node_name, records=records, gpus=gpus, withheld=health.withheld, steps=others
            ),
            use=ClaimUse(
                node=arguments.node_name,
                hardware=hardware,
                records=records,
                walls=walls,
                claims=ContainerClaims(arguments.state_dir / METADATA),
                cgroups=arguments.sysfs_root / CGROUPS,
                steps=others,
            ),
            metered=(*claims.families, *operations.families),
        )
        pages = endpoints.pages(
            start=start,
            server=server,
            is_published=lambda: loop.publisher.has_published,
            watches=watches,
            metrics=metrics.page,
        )
        # What is alive now lives for as long as the process: the collector need not look at it again. What is not
        # would stay with it for good. Before anybody is served, because that takes a while.
        gc.collect()
        gc.freeze()
        # What can fail at a start stands before the group, which would wrap its error.
        async with loop.publisher.tainted_at_stop(), server, serving(arguments.listen, pages):
            # What cannot be served now is told, and served later.
            await inspection.begin()
            log.info("serving the kubelet", claims=len(records.claims), version=__version__)

            async def begin() -> None:
                await start.run(hardware, survey.take, on_change=on_change)
                # New GPUs have no slot yet, and are not among gpus.uuids.
                log.info("GPUs found", gpus=len(gpus.minors))
                await asyncio.to_thread(cdi.begin, gpus.minors)
                await _recover(recovery, start, recovered, on_change)

            async def watch_gpus() -> None:
                await start.gpus_known.wait()
                await watch.run()

            await _run_together(others, begin, loop.run, writer.run, health_events.run, watch_gpus, inspection.run)


async def _run_together(steps: Steps, *works: Callable[[], Awaitable[None]]) -> None:
    async with asyncio.TaskGroup() as tasks:
        for work in works:
            tasks.create_task(steps.keep_running(work))


async def _recover(
    recovery: ClaimRecovery, start: Start, recovered: RecoveredGpus, on_change: Callable[[], None]
) -> None:
    recovered.begin()
    await recovery.renew()
    recovering = recovery.settle()
    # From here on whoever comes for a GPU comes after its recovery.
    start.gpus_known.set()
    on_change()
    await recovering
    recovered.end()
    on_change()
