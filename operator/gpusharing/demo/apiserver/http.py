"""Requests and answers: paths, media types, who asks, and what is refused."""

import asyncio
from typing import Any, Final

import structlog
from aiohttp import web

from gpusharing.demo.apiserver import builtin, discovery, proxying, reading, reviews, tables
from gpusharing.demo.apiserver.admission import User
from gpusharing.demo.apiserver.errors import (
    NoSuchPathError,
    StatusError,
    bad_request,
    no_such_resource,
    not_implemented,
)
from gpusharing.demo.apiserver.exchange import (
    JSON,
    as_json,
    body_of,
    decoded,
    delete_options,
    deleted,
    no_manager,
    no_such_method,
    object_of,
    respond,
    wanted_form,
    write_of,
)
from gpusharing.demo.apiserver.kinds import Kind
from gpusharing.demo.apiserver.objects import APPLY_PATCH, Objects, Place, Written
from gpusharing.demo.apiserver.users import Users

Json = dict[str, Any]

log = structlog.get_logger(__name__)

_AGGREGATED: Final = f"{JSON};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_OPENAPI_V2: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
# Of Kubernetes, and not served here. Any other is not served anywhere.
_SUBRESOURCES: Final = frozenset(
    {
        "attach", "ephemeralcontainers", "eviction", "exec", "finalize", "log", "portforward", "proxy", "resize",
        "scale", "token",
    }
)  # fmt: skip
_LARGEST_BODY: Final = 3 * 2**20


class Server:
    def __init__(self, objects: Objects, users: Users) -> None:
        self._objects = objects
        self._store = objects.store
        self._kinds = objects.kinds
        self._users = users
        self.hosts: frozenset[str] = frozenset()
        """What a request may have as Host: another one comes from a page in a browser."""
        self._watches: set[asyncio.Task[Any]] = set()

    def application(self) -> web.Application:
        application = web.Application(client_max_size=_LARGEST_BODY)
        application.router.add_route("*", "/{path:.*}", self._handle)
        application.on_shutdown.append(self._end_watches)
        return application

    async def _end_watches(self, _: web.Application) -> None:
        for task in self._watches:
            task.cancel()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        try:
            self._check_host(request.host)
            user = self._users.of(request.headers.get("Authorization", ""))
            return await self._answer(request, user)
        except StatusError as error:
            return respond(error.body(), error.code)
        except NoSuchPathError:
            return web.Response(text="404 page not found\n", status=404)
        except web.HTTPRequestEntityTooLarge:
            return respond(StatusError(413, "the request is larger than 3 MiB").body(), 413)
        except Exception:
            log.exception("request failed", method=request.method, path=request.path)
            body = StatusError(500, "the embedded API server has a defect: see its log", reason="InternalError").body()
            return respond(body, 500)

    def _check_host(self, host: str) -> None:
        if host not in self.hosts:
            raise StatusError(403, f"Host {host} is not the address of this server")

    async def _answer(self, request: web.Request, user: User) -> web.StreamResponse:
        parts = [part for part in request.path.split("/") if part]
        match parts:
            case ["version"]:
                return respond(discovery.version())
            case ["healthz" | "livez" | "readyz", *_]:
                return web.Response(text="ok")
            case []:
                return respond({"paths": ["/api", "/apis", "/healthz", "/openapi/v3", "/version"]})
            case ["openapi", "v3", *rest]:
                return self._openapi(rest)
            case ["openapi", "v2"]:
                # An empty document: kubectl looks here for kinds that it has not found in v3.
                return web.Response(body=b"", headers={"Content-Type": _OPENAPI_V2})
            case ["api"] | ["apis"]:
                return self._groups(request, is_core=parts == ["api"])
            case ["apis", group] if group in self._kinds.groups():
                return respond(discovery.group(self._kinds, group))
            case ["api", version, *rest]:
                return await self._of_version(request, "", version, rest, user)
            case ["apis", group, version, *rest]:
                return await self._of_version(request, group, version, rest, user)
        raise NoSuchPathError

    def _openapi(self, path: list[str]) -> web.Response:
        if not path:
            return respond(discovery.openapi_paths(self._kinds))
        group, version = ("", path[-1]) if path[0] == "api" else (path[1], path[-1])
        kinds = self._of_group_version(group, version)
        if not kinds:
            raise NoSuchPathError
        return respond(discovery.openapi(kinds))

    def _of_group_version(self, group: str, version: str) -> list[Kind]:
        return [kind for kind in self._kinds if (kind.group, kind.version) == (group, version)]

    def _groups(self, request: web.Request, *, is_core: bool) -> web.Response:
        if "as=APIGroupDiscoveryList" in request.headers.get("Accept", "") and "v=v2" in request.headers["Accept"]:
            return respond(discovery.aggregated(self._kinds, core=is_core), content_type=_AGGREGATED)
        return respond(discovery.versions(request.host) if is_core else discovery.groups(self._kinds))

    async def _of_version(
        self, request: web.Request, group: str, version: str, path: list[str], user: User
    ) -> web.StreamResponse:
        kinds = self._of_group_version(group, version)
        if not kinds:
            raise NoSuchPathError
        if not path:
            return respond(discovery.resources(kinds))
        namespace = ""
        if path[0] == "namespaces" and len(path) > 2 and path[2] not in {"status", "finalize"}:
            namespace, path = path[1], path[2:]
        kind = self._kinds.find(group, version, path[0])
        if kind is None and kinds[0].is_custom:
            raise NoSuchPathError
        if kind is None:
            raise no_such_resource()
        if kind.plural in reviews.PLURALS:
            if request.method != "POST":
                raise no_such_method()
            return respond(reviews.answered(kind, await body_of(request), user), 201)
        if len(path) == 1:
            return await self._collection(request, kind, namespace, user)
        return await self._named(request, Place(kind, namespace, path[1], "/".join(path[2:])), user)

    async def _named(self, request: web.Request, place: Place, user: User) -> web.StreamResponse:
        if not place.subresource or place.subresource in place.kind.subresources:
            answers = self._bind if place.subresource == "binding" else self._object
            return await answers(request, place, user)
        first, _, path = place.subresource.partition("/")
        if first == proxying.PROXY and place.kind.plural == "pods" and request.method == "GET":
            name, port = proxying.pod_and_port(place.name)
            pod = self._objects.get(Place(place.kind, place.namespace, name))
            return await proxying.answer_of(pod, port, path)
        if first in _SUBRESOURCES and not place.kind.is_custom:
            raise not_implemented(f"{place.kind.plural}/{place.subresource}")
        raise no_such_resource()

    async def _collection(self, request: web.Request, kind: Kind, namespace: str, user: User) -> web.StreamResponse:
        query = request.query
        match request.method:
            case "GET":
                if kind.namespaced is False and namespace:
                    raise NoSuchPathError
                selection = reading.Selection.of(kind, namespace, query)
                if query.get("watch") in {"1", "true"}:
                    return await self._watch(request, selection)
                return self._list(request, selection)
            case "POST":
                if kind.namespaced and not namespace:
                    raise bad_request("an empty namespace may not be set during creation")
                written = self._objects.create(kind, namespace, await object_of(request, kind), write_of(request, user))
                return self._written(request, kind, written)
            case "DELETE":
                return await self._delete_collection(request, reading.Selection.of(kind, namespace, query), user)
        raise no_such_method()

    def _list(self, request: web.Request, selection: reading.Selection) -> web.Response:
        kind = selection.kind
        page = reading.listed(self._store, selection, request.query)
        match wanted_form(request):
            case "Table":
                include = request.query.get("includeObject", "Metadata")
                return respond(tables.table(kind, page.items, page.metadata, include))
            case "PartialObjectMetadata" | "PartialObjectMetadataList":
                items = [tables.partial(value) for value in page.items]
                about = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1"}
                return respond({**about, "metadata": page.metadata, "items": items})
        about = {"kind": kind.list_kind, "apiVersion": kind.group_version}
        return respond({**about, "metadata": page.metadata, "items": page.items})

    async def _watch(self, request: web.Request, selection: reading.Selection) -> web.StreamResponse:
        form = wanted_form(request)
        if (error := reading.check_watch(self._store, selection.kind, request.query)) is not None:
            return respond({"type": "ERROR", "object": error.body()})
        response = web.StreamResponse(headers={"Content-Type": JSON})
        await response.prepare(request)
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a handler runs in one
        self._watches.add(task)
        is_first = True
        try:
            async for event in reading.watched(self._store, selection, request.query):
                value = event.value
                if event.type in {"ADDED", "MODIFIED", "DELETED"} and form:
                    value = self._shown(request, selection.kind, value)
                    if form == "Table" and not is_first:
                        value["columnDefinitions"] = None
                    is_first = False
                elif event.type == "BOOKMARK" and form == "Table":
                    value = tables.table(selection.kind, [], value["metadata"], "None")
                await response.write(as_json({"type": event.type, "object": value}))
        except ConnectionError:
            # The client has gone.
            pass
        finally:
            self._watches.discard(task)
        return response

    async def _delete_collection(
        self, request: web.Request, selection: reading.Selection, user: User
    ) -> web.StreamResponse:
        options = await body_of(request) or {}
        page = reading.listed(self._store, selection, request.query)
        for value in page.items:
            self._objects.delete(
                Place.of(selection.kind, value), {**options, **delete_options(request)}, write_of(request, user)
            )
        about = {"kind": selection.kind.list_kind, "apiVersion": selection.kind.group_version}
        return respond({**about, "metadata": page.metadata, "items": page.items})

    async def _object(self, request: web.Request, place: Place, user: User) -> web.StreamResponse:
        match request.method:
            case "GET":
                if request.query.get("watch") in {"1", "true"}:
                    raise not_implemented("a watch of one object by its path")
                return respond(self._shown(request, place.kind, builtin.served(place.kind, self._objects.get(place))))
            case "PUT":
                written = self._objects.replace(place, await object_of(request, place.kind), write_of(request, user))
                return self._written(request, place.kind, written)
            case "PATCH":
                content_type = request.content_type
                if content_type == APPLY_PATCH and "fieldManager" not in request.query:
                    raise no_manager()
                patch = decoded(await request.read())
                written = self._objects.patch(place, content_type, patch, write_of(request, user))
                return self._written(request, place.kind, written)
            case "DELETE" if not place.subresource:
                options = {**(await body_of(request) or {}), **delete_options(request)}
                value, has_gone = self._objects.delete(place, options, write_of(request, user))
                if has_gone and not place.kind.is_shown_when_deleted:
                    return respond(deleted(place, value))
                return respond(self._shown(request, place.kind, builtin.served(place.kind, value)))
        raise no_such_method()

    async def _bind(self, request: web.Request, place: Place, user: User) -> web.StreamResponse:
        if request.method != "POST":
            raise no_such_method()
        node = ((await body_of(request)).get("target") or {}).get("name")
        if not node:
            raise bad_request("a Binding needs target.name")
        self._objects.bind(place, node, write_of(request, user))
        return respond({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, 201)

    def _written(self, request: web.Request, kind: Kind, written: Written) -> web.Response:
        value = self._shown(request, kind, builtin.served(kind, written.value))
        response = respond(value, 201 if written.is_new else 200)
        for warning in written.warnings:
            quoted = warning.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
            response.headers.add("Warning", f'299 - "{quoted}"')
        return response

    def _shown(self, request: web.Request, kind: Kind, value: Json) -> Json:
        match wanted_form(request):
            case "Table":
                include = request.query.get("includeObject", "Metadata")
                metadata = {"resourceVersion": value["metadata"]["resourceVersion"]}
                return tables.table(kind, [value], metadata, include)
            case "PartialObjectMetadata":
                return tables.partial(value)
        return value
