"""The agent as a process: everything that it is made of, from its arguments to its tasks."""

import argparse
import asyncio
import gc
import signal
from pathlib import Path
from typing import Final

import structlog

from gpusharing import __version__
from gpusharing.agent import endpoints
from gpusharing.agent.cdi import CdiDirectory
from gpusharing.agent.cdi_specs import CdiSpecs
from gpusharing.agent.claim_status import ClaimStatusWriter
from gpusharing.agent.device_metadata import MetadataFiles
from gpusharing.agent.dra.health import HealthService
from gpusharing.agent.dra.server import PluginServer
from gpusharing.agent.dra.service import DraService
from gpusharing.agent.gpus import NodeGpus
from gpusharing.agent.hardware.errors import DriverExchangedError
from gpusharing.agent.hardware.node import Hardware
from gpusharing.agent.hardware.walls import CGROUPS
from gpusharing.agent.health import NodeHealth
from gpusharing.agent.health_events import HealthEvents
from gpusharing.agent.metrics.claims import ClaimMeter
from gpusharing.agent.metrics.memory import WallMemory
from gpusharing.agent.metrics.node import NodeMetrics, Recovery
from gpusharing.agent.metrics.operations import OperationMeter
from gpusharing.agent.node import NodeLoop
from gpusharing.agent.prepare import Preparer
from gpusharing.agent.records import Records
from gpusharing.agent.settling.settler import Settler
from gpusharing.agent.survey import Survey
from gpusharing.agent.verdicts import Verdicts
from gpusharing.agent.walls.walls import Walls
from gpusharing.agent.watch import Watch
from gpusharing.api import names
from gpusharing.core.publishing.narrowing import Timing
from gpusharing.kube import credentials
from gpusharing.kube.events import Events
from gpusharing.kube.http_server import serving
from gpusharing.kube.transport import Api, open_session
from gpusharing.kube.watches import Watches

log = structlog.get_logger(__name__)

# Two for what is watched, one for what the node reports, one for claims' statuses, one for claims to prepare. Many pods
# that start at once are no reason for more: their claims are prepared one after the other.
_CONNECTIONS: Final = 5


def hardware_of(arguments: argparse.Namespace) -> Hardware:
    return Hardware(
        arguments.driver_root,
        sysfs_root=arguments.sysfs_root,
        proc_root=arguments.proc_root,
        dev_root=arguments.dev_root,
        cdi_directories=cdi_directories(arguments),
    )


def cdi_directories(arguments: argparse.Namespace) -> tuple[Path, ...]:
    return tuple(arguments.cdi_dirs or (Path("/var/run/cdi"), Path("/etc/cdi")))


async def main(arguments: argparse.Namespace) -> None:
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
    operations = OperationMeter()
    hardware = operations.metered(hardware_of(arguments))
    await hardware.open()
    records = Records(arguments.state_dir, proc_root=arguments.proc_root)
    gpus = NodeGpus(
        records,
        node=arguments.node_name,
        menus=arguments.menus,
        timing=Timing(patience=arguments.taken_wait, taken=arguments.taken_wait, idle=arguments.idle_wait),
    )
    specs = CdiSpecs(cdi_directories(arguments))
    walls = Walls(hardware, records, specs, state=arguments.state_dir, packaged=arguments.wall_program)
    settler = Settler(
        hardware,
        records,
        mps_home=arguments.state_dir / "mps",
        shm_home=arguments.shm_dir,
        at_rest=gpus.at_rest,
    )
    health = NodeHealth(records, problem=settler.problem)
    survey = Survey(hardware=hardware, walls=walls, gpus=gpus, health=health)
    await survey.take()
    cdi = CdiDirectory(cdi_directories(arguments))
    changed = asyncio.Event()
    stream = HealthService(records.claims.values, health.of_device)

    def on_change() -> None:
        stream.tell()
        changed.set()

    async with open_session(credential, connections=_CONNECTIONS) as session:
        api = Api(session, credential.server, user_agent=f"gpusharing-agent/{__version__}")
        writer = ClaimStatusWriter(api, names.DRIVER, health)
        verdicts = Verdicts(node=arguments.node_name, driver=names.DRIVER)
        preparer = Preparer(
            node=arguments.node_name,
            driver=names.DRIVER,
            api=api,
            records=records,
            hardware=hardware,
            gpus=gpus,
            settler=settler,
            walls=walls,
            cdi=cdi,
            metadata=MetadataFiles(arguments.state_dir / "metadata", names.DRIVER),
            verdicts=verdicts,
            on_prepared=writer.announce,
            on_change=on_change,
        )
        changed_before = records.changed_gpus
        await preparer.recover()
        recovery = Recovery.of(changed_before, settler)
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
        claims = ClaimMeter(records)
        service = DraService(claims.metered_prepare(preparer.prepare), claims.metered_unprepare(preparer.unprepare))
        server = PluginServer(service, stream, kubelet_root=arguments.kubelet_root, driver=names.DRIVER)
        watches = Watches()
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
            survey=survey,
            changed=changed,
            preparer=preparer,
            verdicts=verdicts,
            watches=watches,
        )
        metrics = NodeMetrics(
            records=records,
            gpus=gpus,
            settler=settler,
            hardware=hardware,
            server=server,
            loop=loop,
            watches=watches,
            unreadables=api.unreadables.counts,
            recovery=recovery,
            memory=WallMemory(hardware, records, walls, arguments.sysfs_root / CGROUPS),
            metered=(*claims.families, *operations.families),
        )
        pages = endpoints.pages(
            hardware=hardware,
            server=server,
            is_published=lambda: loop.publisher.has_published,
            watches=watches,
            metrics=metrics.page,
        )
        # What can fail at a start stands before the group, which would wrap its error.
        async with server, serving(arguments.listen, pages), asyncio.TaskGroup() as tasks:
            log.info("serving the kubelet", gpus=len(gpus.uuids), claims=len(records.claims), version=__version__)
            # What is alive now lives for as long as the process: the collector need not look at it again. What is not
            # would stay with it for good.
            gc.collect()
            gc.freeze()
            tasks.create_task(writer.run())
            tasks.create_task(health_events.run())
            tasks.create_task(watch.run())
            await loop.run()
