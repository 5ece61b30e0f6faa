"""Keeps the node's ResourceSlices in the API as the published set says, also when the kubelet deletes them."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import structlog

from gpusharing.agent.gpus import NodeGpus, Shown
from gpusharing.agent.health import NodeHealth
from gpusharing.agent.records import Records
from gpusharing.api.dra import ResourceSlice
from gpusharing.core.devices.offered import OfferedGpu
from gpusharing.core.publishing import slice_updates
from gpusharing.core.publishing.slices import PublishedGpu, slice_specs
from gpusharing.kube.clock import seconds_since_boot
from gpusharing.kube.kinds import NODES, RESOURCE_SLICES
from gpusharing.kube.reflector import Reflector
from gpusharing.kube.transport import Api
from gpusharing.kube.watches import Watches

log = structlog.get_logger(__name__)


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
        watches: Watches,
        on_change: Callable[[], None],
    ) -> None:
        self._api = api
        self._node = node
        self._driver = driver
        self._records = records
        self._gpus = gpus
        self._health = health
        self._on_change = on_change
        self.writes = Counter(create=0, update=0, delete=0)
        self.has_published = False
        self._settled: dict[str, tuple[list[ResourceSlice], list[PublishedGpu]]] = {}
        """By the pool: the slices that were there when they were last found to say all of these GPUs."""
        self.slices = Reflector(
            api,
            RESOURCE_SLICES,
            watches=watches,
            on_change=on_change,
            field_selector=f"spec.nodeName={node},spec.driver={driver}",
        )

    def shown(self) -> list[Shown]:
        """The devices that the API has."""
        return [
            Shown(pool_of(slice_), device["name"])
            for slice_ in self.slices.objects
            for device in slice_.spec.get("devices") or ()
        ]

    async def publish(self) -> None:
        stored = self._gpus.publications()
        members: dict[str, list[str]] = {pool_of(slice_): [] for slice_ in self.slices.objects}
        for uuid in self._gpus.uuids:
            members.setdefault(self._gpus.pool(uuid), []).append(uuid)
        # First those that are not there any more: their slices may have the names of others.
        for name, uuids in sorted(members.items(), key=lambda member: (bool(member[1]), member[0])):
            await self._publish(name, uuids)
        # Pools come and go with policies.
        self._settled = {name: settled for name, settled in self._settled.items() if name in members}
        self.has_published = True
        if self._gpus.written(stored, now=seconds_since_boot()):
            self._on_change()

    async def _publish(self, name: str, uuids: Iterable[str]) -> None:
        gpus = [PublishedGpu(self._offered(uuid), self._gpus.entries(uuid)) for uuid in uuids]
        existing = [slice_ for slice_ in self.slices.objects if pool_of(slice_) == name]
        if self._settled.get(name) == (existing, gpus):
            return

        def specs_at(generation: int) -> list[dict[str, Any]]:
            return slice_specs(gpus, node=self._node, pool=name, driver=self._driver, generation=generation)

        plan = slice_updates.plan_pool(
            existing,
            specs_at,
            pool=name,
            driver=self._driver,
            last_generation=self._records.generation(name),
        )
        self._records.put_generation(name, plan.generation)
        for write in plan.writes:
            await self._write(write)
        if plan.writes:
            log.info("devices published", pool=name, generation=plan.generation, writes=len(plan.writes))
        else:
            self._settled[name] = existing, gpus

    def _offered(self, uuid: str) -> OfferedGpu:
        return replace(self._gpus.published(uuid), unhealthy=self._health.withheld(uuid))

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
