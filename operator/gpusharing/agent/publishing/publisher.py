"""Keeps the node's ResourceSlices in the API as the published set says, also when the kubelet deletes them."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final

import structlog

from gpusharing.agent.health.node_health import NodeHealth
from gpusharing.agent.publishing.instance_uuids import ByGpu, InstanceUuids
from gpusharing.agent.publishing.node_gpus import NodeGpus, Shown
from gpusharing.agent.publishing.other_drivers import OtherDrivers
from gpusharing.agent.state.records import Records
from gpusharing.agent.steps import Steps
from gpusharing.api.dra import ResourceSlice
from gpusharing.core.devices.offered import OfferedGpu
from gpusharing.core.devices.options import exclude_each_other
from gpusharing.core.publishing import slice_updates
from gpusharing.core.publishing.slices import PublishedGpu, slice_specs
from gpusharing.kube.clock import seconds_since_boot
from gpusharing.kube.kinds import NODES, RESOURCE_SLICES
from gpusharing.kube.reflector import Reflector
from gpusharing.kube.transport import Api
from gpusharing.kube.watches import Watches

log = structlog.get_logger(__name__)

# Seconds; less than the pod's terminationGracePeriodSeconds.
_STOP_WITHIN: Final = 5.0
_PUBLISH: Final = "publish"
_DESCRIBE: Final = "describe devices"


class Publisher:
    def __init__(
        self,
        *,
        api: Api,
        node: str,
        driver: str,
        records: Records,
        gpus: NodeGpus,
        health: NodeHealth,
        uuids: InstanceUuids,
        steps: Steps,
        watches: Watches,
        others: OtherDrivers,
        is_registered: Callable[[], bool],
        on_change: Callable[[], None],
    ) -> None:
        """`is_registered`: whether the kubelet knows the driver."""
        self._api = api
        self._node = node
        self._driver = driver
        self._records = records
        self._gpus = gpus
        self._health = health
        self._uuids = uuids
        self.others = others
        self._steps = steps
        self._is_registered = is_registered
        self._on_change = on_change
        self.writes = Counter(create=0, update=0, delete=0)
        self.has_published = False
        self._is_stopping = False
        self._left: set[str] = set()
        """The names of the slices that there were when the last round ended."""
        self._is_wiped = False
        self._settled: dict[str, tuple[list[ResourceSlice], list[PublishedGpu]]] = {}
        """By the pool: the slices that were there when they were last found to say all of these GPUs."""
        self.slices = Reflector(
            api,
            RESOURCE_SLICES,
            watches=watches,
            on_change=on_change,
            field_selector=f"spec.nodeName={node},spec.driver={driver}",
        )

    @property
    def look_again(self) -> float:
        """When time alone will change something."""
        return self._uuids.next_due(now=seconds_since_boot())

    def shown(self) -> list[Shown]:
        """The devices that the API has."""
        return [
            Shown(pool_of(slice_), device["name"])
            for slice_ in self._own
            for device in slice_.spec.get("devices") or ()
        ]

    @asynccontextmanager
    async def tainted_at_stop(self) -> AsyncIterator[None]:
        """At an orderly stop, taints all devices: the kubelet withdraws them only half a minute later, and until then
        the scheduler would go on sending pods. The next agent publishes them without the taint."""
        try:
            yield
        except asyncio.CancelledError:
            if self.has_published:
                await self._taint_all()
            raise

    async def _taint_all(self) -> None:
        self._is_stopping = True
        self._steps.retry_now()
        try:
            async with asyncio.timeout(_STOP_WITHIN):
                await self.publish()
        except TimeoutError:
            log.warning("devices not tainted at stop", error=f"the API server did not answer within {_STOP_WITHIN:g} s")

    @property
    def _own(self) -> list[ResourceSlice]:
        return [slice_ for slice_ in self.slices.objects if slice_updates.is_ours(slice_, driver=self._driver)]

    async def publish(self) -> None:
        """Each pool for itself: one that cannot be written does not keep the others from what they should say. Nothing
        while others serve these GPUs: what is published already stays as it is."""
        await self._steps.run("look for other drivers", partial(self.others.look, self.slices.objects))
        if self.others.found:
            return
        stored = self._gpus.publications()
        members: dict[str, list[str]] = {pool_of(slice_): [] for slice_ in self._own}
        for uuid in self._gpus.uuids:
            members.setdefault(self._gpus.pool(uuid), []).append(uuid)
        self._steps.forget_others(_PUBLISH, members)
        self._note_wiped()
        published: list[str] = []
        # First those that are not there any more: their slices may have the names of others.
        for name, uuids in sorted(members.items(), key=lambda member: (bool(member[1]), member[0])):
            if await self._steps.run(_PUBLISH, partial(self._publish, name, uuids), pool=name):
                published.append(name)
        # Pools come and go with policies.
        self._settled = {name: settled for name, settled in self._settled.items() if name in members}
        self._left = self._names()
        self.has_published = self.has_published or len(published) == len(members)
        written = {uuid: stored[uuid] for uuid in stored if self._gpus.pool(uuid) in published}
        if self._gpus.written(written, now=seconds_since_boot()):
            self._on_change()

    def _names(self) -> set[str]:
        return {slice_.metadata.name for slice_ in self._own}

    def _note_wiped(self) -> None:
        """The kubelet deletes the slices of drivers that it does not know. To make them again before it has called
        again would send it pods that it cannot start, until it deletes them the next time."""
        there = self._names()
        was_wiped = self._is_wiped
        self._is_wiped = not self._is_registered() and (was_wiped or not self._left <= there)
        if self._is_wiped and not was_wiped:
            log.warning("slices deleted by others, made again when the kubelet registers the driver")

    async def _publish(self, name: str, uuids: Sequence[str]) -> bool:
        """Whether the API has what it should."""
        existing = [slice_ for slice_ in self._own if pool_of(slice_) == name]
        gpus, plan = self._steps.without_failing(
            _DESCRIBE, uuids, lambda uuids: self._plan(name, uuids, existing), kind="gpu"
        )
        if plan is None:
            return True
        if self._is_wiped and any(isinstance(write, slice_updates.Create) for write in plan.writes):
            return False
        await self._records.put_generation(name, plan.generation)
        for write in plan.writes:
            await self._write(write)
        if plan.writes:
            log.info("devices published", pool=name, generation=plan.generation, writes=len(plan.writes))
        else:
            self._settled[name] = existing, gpus
        return True

    def _plan(
        self, name: str, uuids: Iterable[str], existing: list[ResourceSlice]
    ) -> tuple[list[PublishedGpu], slice_updates.PoolPlan | None]:
        """None: the slices were found to say just this."""
        made = self._uuids.made(uuids)
        due = self._uuids.due(made, existing, now=seconds_since_boot())
        gpus, plan = self._plan_with(due, name, existing)
        return self._plan_with(made, name, existing) if plan and plan.writes and due != made else (gpus, plan)

    def _plan_with(
        self, made: ByGpu, name: str, existing: list[ResourceSlice]
    ) -> tuple[list[PublishedGpu], slice_updates.PoolPlan | None]:
        gpus = [
            PublishedGpu(replace(self._offered(uuid), made=tuple(instances)), self._gpus.entries(uuid))
            for uuid, instances in made.items()
        ]
        if self._settled.get(name) == (existing, gpus):
            return gpus, None

        def specs_at(generation: int) -> list[dict[str, Any]]:
            return slice_specs(gpus, node=self._node, pool=name, driver=self._driver, generation=generation)

        plan = slice_updates.plan_pool(
            existing,
            specs_at,
            pool=name,
            driver=self._driver,
            last_generation=self._records.generation(name),
        )
        return gpus, plan

    def _offered(self, uuid: str) -> OfferedGpu:
        offered = self._gpus.published(uuid)
        devices = [entry.device for entry in self._gpus.entries(uuid)]
        holders = [device.device for _, device in self._health.unallocated.on(uuid)]
        held = {one for one in devices for other in holders if exclude_each_other(offered.gpu, one, other)}
        return replace(
            offered,
            unhealthy=self._health.withheld(uuid, devices),
            held=frozenset(held),
            agent_stopped=self._is_stopping,
        )

    async def _write(self, write: slice_updates.Create | slice_updates.Update | slice_updates.Delete) -> None:
        match write:
            case slice_updates.Delete(before):
                async with self.slices.believing(before.metadata.name):
                    await self._api.delete(RESOURCE_SLICES, before.metadata.name, uid=before.metadata.uid)
                self.slices.drop(before)
                self.writes["delete"] += 1
            case slice_updates.Update(before, spec):
                body = {"metadata": before.metadata.for_update(), "spec": spec}
                async with self.slices.believing(before.metadata.name):
                    self.slices.put(await self._api.replace(RESOURCE_SLICES, before.metadata.name, body))
                self.writes["update"] += 1
            case slice_updates.Create(name, spec):
                await self._create(name, spec)
                self.writes["create"] += 1

    async def _create(self, name: str, spec: dict[str, Any]) -> None:
        metadata = {"name": name, "ownerReferences": [await owner(self._api, self._node)]}
        # It may have been made by us, but the answer was lost or the watch is behind: the next round sees it.
        async with self.slices.believing(name):
            self.slices.put(await self._api.create(RESOURCE_SLICES, {"metadata": metadata, "spec": spec}))


def pool_of(slice_: ResourceSlice) -> str:
    name: str = slice_.spec["pool"]["name"]
    return name


async def owner(api: Api, node: str) -> dict[str, Any]:
    """The Node as it is now: what is owned by one of the same name that was deleted is deleted as well."""
    metadata = (await api.get(NODES, node)).metadata
    return {"apiVersion": "v1", "kind": "Node", "name": metadata.name, "uid": metadata.uid, "controller": True}
