"""What the API server has, kept up to date, for those of the demo that play Kubernetes' parts, and for the story."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import aiohttp

from gpusharing import __version__
from gpusharing.api.meta import Key
from gpusharing.kube import credentials
from gpusharing.kube.kinds import Kind
from gpusharing.kube.reflector import follow
from gpusharing.kube.transport import Api, ApiError, open_session
from gpusharing.kube.watches import Watches

T = TypeVar("T")

Json = Mapping[str, Any]

_DRA: Final = "resource.k8s.io/v1"
_OURS: Final = "gpusharing.dev/v1alpha1"


def _kind(api_version: str, kind: str, plural: str, *, namespaced: bool = False) -> Kind[dict[str, Any]]:
    return Kind(api_version, kind, plural, dict[str, Any], namespaced=namespaced)


NODES: Final = _kind("v1", "Node", "nodes")
NAMESPACES: Final = _kind("v1", "Namespace", "namespaces")
PODS: Final = _kind("v1", "Pod", "pods", namespaced=True)
CLAIMS: Final = _kind(_DRA, "ResourceClaim", "resourceclaims", namespaced=True)
TEMPLATES: Final = _kind(_DRA, "ResourceClaimTemplate", "resourceclaimtemplates", namespaced=True)
SLICES: Final = _kind(_DRA, "ResourceSlice", "resourceslices")
CLASSES: Final = _kind(_DRA, "DeviceClass", "deviceclasses")
TAINT_RULES: Final = _kind(_DRA, "DeviceTaintRule", "devicetaintrules")
POLICIES: Final = _kind(_OURS, "SharingPolicy", "sharingpolicies")
NODE_SHARINGS: Final = _kind(_OURS, "NodeSharing", "nodesharings")
CRDS: Final = _kind("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions")
GUARDS: Final = _kind("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies")
BINDINGS: Final = _kind(
    "admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"
)

_LOOK_EVERY: Final = 0.1
_TOLD_WITHIN: Final = 10.0
"""Seconds."""
_FOLLOWED: Final = (NODES, PODS, CLAIMS, TEMPLATES, SLICES, CLASSES, TAINT_RULES, POLICIES, NODE_SHARINGS)
_APPLIED: Final = {one.kind: one for one in (*_FOLLOWED, NAMESPACES, CRDS, GUARDS, BINDINGS)}


class Cluster:
    """Objects are JSON, as the API server has them."""

    def __init__(self, session: aiohttp.ClientSession, server: str, kinds: Sequence[Kind[Any]]) -> None:
        self._session = session
        self._server = server
        self._api = Api(session, server, user_agent=f"gpusharing-demo/{__version__}")
        self._objects: dict[str, dict[Key, dict[str, Any]]] = {kind.kind: {} for kind in kinds}
        self._read: set[str] = set()
        self._gone: set[str] = set()
        """By uid. The answer to a write may come later than the news that the object was deleted."""
        self._changed = asyncio.Event()

    # ------------------------------------------------------------------------------------------------------- reading

    def all(self, kind: Kind[Any]) -> Sequence[dict[str, Any]]:
        """In the order of their names."""
        return [one for _, one in sorted(self._objects[kind.kind].items())]

    def get(self, kind: Kind[Any], name: str, namespace: str = "") -> dict[str, Any] | None:
        return self._objects[kind.kind].get((namespace, name))

    def claims(self) -> Mapping[Key, dict[str, Any]]:
        return self._objects[CLAIMS.kind]

    def has_changed(self) -> asyncio.Future[Any]:
        """Ends when anything is not any more as it was at the call."""
        return asyncio.ensure_future(self._changed.wait())

    async def until(self, fact: Callable[[], T | None], *, within: float) -> T:
        """What `fact` finds, as soon as it finds something. Raises TimeoutError."""
        async with asyncio.timeout(within):
            while not (found := fact()):
                # Also what is no object of the API may be asked for, such as a setting of a GPU.
                await asyncio.wait({self.has_changed()}, timeout=_LOOK_EVERY)
        return found

    # ------------------------------------------------------------------------------------------------------- writing

    async def create(self, kind: Kind[Any], body: Json, namespace: str = "") -> dict[str, Any]:
        made: dict[str, Any] = await self._api.create(kind, body, namespace)
        self._put(kind, made)
        return made

    async def apply(self, *objects: Json) -> None:
        """Creates what is not there, and changes the spec of what is."""
        for one in objects:
            kind = _APPLIED[one["kind"]]
            metadata = one["metadata"]
            namespace = metadata.get("namespace", "")
            try:
                await self._api.create(kind, one, namespace)
            except ApiError as error:
                if error.reason != "AlreadyExists":
                    raise
                await self._api.merge_patch(kind, metadata["name"], {"spec": one["spec"]}, namespace=namespace)

    async def patch(self, kind: Kind[Any], of: Json, patch: Json, *, subresource: str = "") -> None:
        metadata = of["metadata"]
        namespace = metadata.get("namespace", "")
        name = metadata["name"]
        self._put(kind, await self._api.merge_patch(kind, name, patch, namespace=namespace, subresource=subresource))

    async def delete(self, kind: Kind[Any], *objects: Json) -> None:
        for one in objects:
            metadata = one["metadata"]
            await self._api.delete(kind, metadata["name"], uid=metadata["uid"], namespace=metadata.get("namespace", ""))

    async def remove(self, pod: Json) -> None:
        """At once: its kubelet has ended it."""
        namespace, name = _key(pod)
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
        async with self._session.delete(f"{self._server}{PODS.path(name, namespace)}", json=body) as answer:
            if answer.status not in {200, 202, 404}:
                raise ApiError("DELETE", name, answer.status, answer.reason or "", await answer.text())

    async def bind(self, pod: Json, node: str) -> None:
        metadata = pod["metadata"]
        binding = _kind("v1", "Binding", f"pods/{metadata['name']}/binding", namespaced=True)
        body = {
            "metadata": {"name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await self._api.create(binding, body, metadata["namespace"])
        # Until the watch tells, it would be scheduled again.
        await self.until(lambda: self._is_bound(pod), within=_TOLD_WITHIN)

    def _is_bound(self, pod: Json) -> bool:
        known = self._objects[PODS.kind].get(_key(pod))
        return known is None or known["metadata"]["uid"] != pod["metadata"]["uid"] or "nodeName" in known["spec"]

    # ------------------------------------------------------------------------------------------------------ following

    async def follow(self, kind: Kind[Any]) -> None:
        """Without end."""

        async def lists() -> str:
            version = ""
            found: dict[Key, dict[str, Any]] = {}
            async for page in self._api.pages(kind):
                found |= {_key(one): one for one in page.items}
                version = page.resource_version
            self._objects[kind.kind] = found
            self._read.add(kind.kind)
            self._tell()
            return version

        def takes_in(event: str, value: Any) -> None:
            if event == "DELETED":
                self._gone.add(value["metadata"]["uid"])
                self._objects[kind.kind].pop(_key(value), None)
                self._tell()
            elif event != "BOOKMARK":
                self._put(kind, value)

        await follow(self._api, kind, watch=Watches().add(kind), lists=lists, takes_in=takes_in)

    def _put(self, kind: Kind[Any], value: dict[str, Any]) -> None:
        """Also what a write of our own returned: nothing is decided on what it replaced."""
        objects = self._objects.get(kind.kind)
        if objects is None or value["metadata"]["uid"] in self._gone:
            return
        known = objects.get(_key(value))
        if known is None or _version(known) < _version(value):
            objects[_key(value)] = value
            self._tell()

    async def is_read(self) -> None:
        while len(self._read) < len(self._objects):
            await self.has_changed()

    def _tell(self) -> None:
        """To all who wait; who comes from now on waits for the next."""
        self._changed.set()
        self._changed = asyncio.Event()


def _key(value: Json) -> Key:
    metadata = value["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def _version(value: Json) -> int:
    return int(value["metadata"]["resourceVersion"])


def display_name(value: Json) -> str:
    namespace, name = _key(value)
    return f"{namespace}/{name}" if namespace else name


@contextlib.asynccontextmanager
async def following(kubeconfig: Path, kinds: Sequence[Kind[Any]] = _FOLLOWED) -> AsyncIterator[Cluster]:
    """By default all kinds, of which our own need their definitions."""
    credential = credentials.load(kubeconfig)
    async with open_session(credential) as session:
        cluster = Cluster(session, credential.server, kinds)
        async with running_beside() as begin:
            for kind in kinds:
                begin(cluster.follow(kind))
            await cluster.is_read()
            yield cluster


@contextlib.asynccontextmanager
async def running_beside() -> AsyncIterator[Callable[[Coroutine[Any, Any, None]], None]]:
    """Begins tasks without end. They end with what is inside, and if one of them fails, so does that."""
    began: list[asyncio.Task[None]] = []
    try:
        async with asyncio.TaskGroup() as tasks:
            yield lambda work: began.append(tasks.create_task(work))
            for task in began:
                task.cancel()
    except BaseExceptionGroup as group:
        # The others were cancelled for it.
        raise group.exceptions[0] from None
