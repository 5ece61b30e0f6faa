"""The kubelet of a simulated node: it prepares the claims of its pods with our agent, and runs their containers."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from grpclib.exceptions import GRPCError, StreamTerminatedError

from gpusharing.api import names
from gpusharing.demo import dra
from gpusharing.demo.claims import has_ended
from gpusharing.demo.cluster import CLAIMS, PODS, Cluster, Json
from gpusharing.demo.container_status import ContainerStatus, phase
from gpusharing.demo.containers import Container, ContainerError, Edits, edits_of
from gpusharing.kube.clock import now
from gpusharing.kube.transport import ApiError
from gpusharing.sim import cuda
from gpusharing.sim.node import SimNode

_AGAIN: Final = 1.0
"""Seconds after which it tries again what failed."""
_SELDOM: Final = 8.0
_LOOK_EVERY: Final = 0.2
_LOST: Final = (OSError, GRPCError, StreamTerminatedError, TimeoutError, AttributeError)
"""What a call meets whose agent ends."""
MIRROR: Final = "kubernetes.io/config.mirror"
"""The annotation of a pod that is not started because the API server has it."""
_HEALTH: Final = {0: "Unknown", 1: "Healthy", 2: "Unhealthy"}


class Kubelet:
    def __init__(
        self,
        cluster: Cluster,
        name: str,
        node: SimNode,
        *,
        root: Path,
        cdi: Sequence[Path],
        containers: Path,
        is_isolated: bool,
    ) -> None:
        """`root`: the kubelet's directory, where drivers have their sockets. `cdi`: the directories with CDI specs."""
        self._cluster = cluster
        self._name = name
        self._node = node
        self._root = root
        self._cdi = cdi
        self._containers = containers
        self._is_isolated = is_isolated
        self._endpoint: Path | None = None
        self._pods: dict[str, asyncio.Task[None]] = {}
        self._running: dict[str, dict[str, Container]] = {}
        """By the uid of the pod, and their names."""
        self._health: Mapping[tuple[str, str], tuple[str, str]] = {}
        """Health and message of devices in use, by pool and device."""

    async def run(self) -> None:
        """Without end."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._register())
            tasks.create_task(self._watch_health())
            while True:
                changed = self._cluster.has_changed()
                for pod in self._cluster.all(PODS):
                    uid = pod["metadata"]["uid"]
                    if _is_of(self._name, pod) and uid not in self._pods and not has_ended(pod):
                        self._pods[uid] = tasks.create_task(self._care(pod))
                await changed

    # ------------------------------------------------------------------------------------------------------ the driver

    async def _register(self) -> None:
        """Whenever there is another socket: an agent has started."""
        socket = self._root / "plugins_registry" / f"{names.DRIVER}-reg.sock"
        known: tuple[int, int] | None = None
        while True:
            with suppress(*_LOST):
                status = socket.stat()
                if known != (status.st_ino, status.st_ctime_ns):
                    self._endpoint = await dra.register(socket)
                    known = status.st_ino, status.st_ctime_ns
            await asyncio.sleep(_LOOK_EVERY)

    def _registered(self) -> Path:
        """Raises PrepareError."""
        if self._endpoint is None:
            raise dra.PrepareError(f"DRA driver {names.DRIVER} is not registered")
        return self._endpoint

    async def _watch_health(self) -> None:
        while True:
            with suppress(*_LOST):
                if self._endpoint:
                    async for devices in dra.health(self._endpoint):
                        self._health = {
                            (one.device.pool_name, one.device.device_name): (_HEALTH[one.health], one.message)
                            for one in devices
                        }
                        await self._report_health()
            await asyncio.sleep(_LOOK_EVERY)

    async def _report_health(self) -> None:
        for uid in list(self._running):
            pod = self._pod(uid)
            if pod is None or has_ended(pod):
                continue
            statuses = pod["status"].get("containerStatuses") or ()
            told = self._resources_status(pod)
            if any(one.get("allocatedResourcesStatus") != told for one in statuses):
                await self._write(
                    pod, containerStatuses=[{**one, "allocatedResourcesStatus": told} for one in statuses]
                )

    def _resources_status(self, pod: Json) -> list[Json]:
        found: list[Json] = []
        for entry, claim in self._claims(pod):
            results = claim["status"]["allocation"]["devices"]["results"]
            resources = []
            for one in results:
                health, message = self._health.get((one["pool"], one["device"]), ("Unknown", ""))
                device = f"{one['driver']}/{one['pool']}/{one['device']}"
                resources.append({"resourceID": device, "health": health} | ({"message": message} if message else {}))
            found.append({"name": f"claim:{entry}", "resources": resources})
        return found

    # -------------------------------------------------------------------------------------------------------- the pods

    async def _care(self, pod: Json) -> None:
        """From its first container to its last."""
        uid = pod["metadata"]["uid"]
        prepared: list[Json] = []
        try:
            edits = await self._prepare(pod, prepared)
            if edits is not None:
                await self._run(pod, edits)
        finally:
            for container in self._running.pop(uid, {}).values():
                await container.stop()
        await self._unprepare(prepared)
        if (left := self._pod(uid)) is not None and self._is_to_end(uid):
            await self._cluster.remove(left)

    async def _prepare(self, pod: Json, prepared: list[Json]) -> Mapping[str, Edits] | None:
        """By container. None: the pod was deleted before."""
        uid = pod["metadata"]["uid"]
        devices: dict[str, Sequence[dra.Prepared]] = {}
        while not self._is_to_end(uid):
            try:
                for entry, claim in self._claims(self._pod(uid) or pod):
                    if entry not in devices:
                        if claim["metadata"]["uid"] not in {one["metadata"]["uid"] for one in prepared}:
                            prepared.append(claim)
                        devices[entry] = await dra.prepare(self._registered(), claim)
                return {
                    one["name"]: edits_of(list(_cdi_devices(one, devices)), self._cdi)
                    for one in pod["spec"]["containers"]
                }
            except (dra.PrepareError, ContainerError, *_LOST) as error:
                await self._waits(pod, "FailedPrepareDynamicResources", str(error))
                await asyncio.sleep(_AGAIN)
        return None

    async def _unprepare(self, prepared: Sequence[Json]) -> None:
        for claim in prepared:
            while True:
                with suppress(dra.PrepareError, *_LOST):
                    await dra.unprepare(self._registered(), claim)
                    break
                await asyncio.sleep(_AGAIN)

    async def _run(self, pod: Json, edits: Mapping[str, Edits]) -> None:
        """Until its containers have ended for good, or it is to end."""
        uid = pod["metadata"]["uid"]
        self._running[uid] = {}
        together = asyncio.create_task(self._run_containers(pod, edits))
        ending = asyncio.create_task(self._until_to_end(uid))
        try:
            await asyncio.wait({together, ending}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            together.cancel()
            ending.cancel()
        with suppress(asyncio.CancelledError):
            await together

    async def _run_containers(self, pod: Json, edits: Mapping[str, Edits]) -> None:
        statuses = {one["name"]: ContainerStatus(one["name"], one["image"]) for one in pod["spec"]["containers"]}
        async with asyncio.TaskGroup() as tasks:
            for one in pod["spec"]["containers"]:
                tasks.create_task(self._run_container(pod, one, edits[one["name"]], statuses))

    async def _run_container(
        self, pod: Json, spec: Json, edits: Edits, statuses: Mapping[str, ContainerStatus]
    ) -> None:
        uid, status = pod["metadata"]["uid"], statuses[spec["name"]]
        delay = _AGAIN
        while True:
            container = Container(self._node, self._containers / uid / spec["name"], is_isolated=self._is_isolated)
            self._running[uid][spec["name"]] = container
            try:
                await container.start(_options(spec), edits)
                status.runs()
                await self._report(pod, statuses)
                said = await container.ended()
            except ContainerError as error:
                said = str(error)
            await container.stop()
            status.has_ended(container.exit_code or 0, said)
            if not _starts_again(pod, container.exit_code or 0):
                await self._report(pod, statuses)
                return
            status.waits("CrashLoopBackOff", f"back-off {delay:g}s restarting container {spec['name']}")
            await self._report(pod, statuses)
            await asyncio.sleep(delay)
            status.restarts += 1
            delay = min(delay * 2, _SELDOM)

    async def _until_to_end(self, uid: str) -> None:
        while not self._is_to_end(uid):
            await self._cluster.has_changed()

    def _is_to_end(self, uid: str) -> bool:
        pod = self._pod(uid)
        return pod is None or bool(pod["metadata"].get("deletionTimestamp"))

    def _pod(self, uid: str) -> Json | None:
        return next((one for one in self._cluster.all(PODS) if one["metadata"]["uid"] == uid), None)

    def _claims(self, pod: Json) -> list[tuple[str, Json]]:
        """As the pod calls them."""
        made = {one["name"]: one.get("resourceClaimName") for one in (pod["status"].get("resourceClaimStatuses") or ())}
        found: list[tuple[str, Json]] = []
        for entry in pod["spec"].get("resourceClaims") or ():
            name = entry.get("resourceClaimName") or made.get(entry["name"])
            claim = self._cluster.get(CLAIMS, name, pod["metadata"]["namespace"]) if name else None
            if claim is not None and (claim.get("status") or {}).get("allocation"):
                found.append((entry["name"], claim))
        return found

    # -------------------------------------------------------------------------------------------------------- statuses

    async def _waits(self, pod: Json, reason: str, message: str) -> None:
        statuses = {one["name"]: ContainerStatus(one["name"], one["image"]) for one in pod["spec"]["containers"]}
        for one in statuses.values():
            one.waits(reason, message)
        await self._report(pod, statuses)

    async def _report(self, pod: Json, statuses: Mapping[str, ContainerStatus]) -> None:
        known = self._pod(pod["metadata"]["uid"])
        if known is None:
            return
        resources = self._resources_status(known)
        await self._write(
            known,
            phase=phase(statuses.values()),
            containerStatuses=[one.as_json(resources) for one in statuses.values()],
            startTime=known["status"].get("startTime") or now(),
        )

    async def _write(self, pod: Json, **status: Any) -> None:
        is_ready = status.get("phase", pod["status"].get("phase")) == "Running"
        conditions = {one["type"]: one for one in pod["status"].get("conditions") or ()}
        conditions["PodScheduled"] = {"type": "PodScheduled", "status": "True"}
        for type_ in ("Initialized", "ContainersReady", "Ready"):
            conditions[type_] = {"type": type_, "status": "True" if is_ready else "False"}
        body = {"status": {**status, "conditions": list(conditions.values())}}
        try:
            await self._cluster.patch(PODS, pod, body, subresource="status")
        except ApiError as error:
            # It was deleted meanwhile.
            if error.status not in {404, 409}:
                raise


def _cdi_devices(container: Json, prepared: Mapping[str, Sequence[dra.Prepared]]) -> Iterator[str]:
    """Raises PrepareError."""
    for asked in (container.get("resources") or {}).get("claims") or ():
        if asked["name"] not in prepared:
            raise dra.PrepareError(f"claim {asked['name']} of the pod is not allocated")
        for device in prepared[asked["name"]]:
            if device.is_for(asked.get("request")):
                yield from device.cdi_devices


def _options(container: Json) -> list[str]:
    """Of the simulated CUDA process. A container that names another program gets one with a little memory."""
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    return [str(word) for word in words[1:]] if words[:1] == [cuda.PROGRAM] else ["--memory=64M"]


def _starts_again(pod: Json, code: int) -> bool:
    policy = pod["spec"].get("restartPolicy", "Always")
    return policy == "Always" or (policy == "OnFailure" and code != 0)


def _is_of(node: str, pod: Json) -> bool:
    return pod["spec"].get("nodeName") == node and MIRROR not in (pod["metadata"].get("annotations") or {})
