"""Requests and answers: paths, media types, who asks, and what is refused."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Final

import structlog
import yaml
from aiohttp import web

from gpusharing.demo.apiserver import builtin, discovery, protobuf, reading, tables
from gpusharing.demo.apiserver.admission import User
from gpusharing.demo.apiserver.errors import StatusError, bad_request, no_such_path, not_implemented
from gpusharing.demo.apiserver.kinds import Kind
from gpusharing.demo.apiserver.objects import APPLY_PATCH, Objects, Place, Request, Written
from gpusharing.demo.apiserver.users import Users

Json = dict[str, Any]

log = structlog.get_logger(__name__)

_JSON: Final = "application/json"
_AGGREGATED: Final = f"{_JSON};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_OPENAPI_V2: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
# Of Kubernetes, and not served here. Any other is not served anywhere.
_SUBRESOURCES: Final = frozenset(
    {
        "attach", "ephemeralcontainers", "eviction", "exec", "finalize", "log", "portforward", "proxy", "resize",
        "scale", "token",
    }
)  # fmt: skip
_LARGEST_BODY: Final = 3 * 2**20
_SUPPORTED: Final = "application/json, application/yaml"
_REVIEWS: Final = frozenset({"selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews"})
_BODIES: Final = frozenset({"", _JSON, "application/yaml", "application/octet-stream", "text/plain"})


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
            return _response(error.body(), error.code)
        except web.HTTPRequestEntityTooLarge:
            return _response(StatusError(413, "the request is larger than 3 MiB").body(), 413)
        except Exception:
            log.exception("request failed", method=request.method, path=request.path)
            body = StatusError(500, "the embedded API server has a defect: see its log", reason="InternalError").body()
            return _response(body, 500)

    def _check_host(self, host: str) -> None:
        if host not in self.hosts:
            raise StatusError(403, f"Host {host} is not the address of this server")

    async def _answer(self, request: web.Request, user: User) -> web.StreamResponse:
        parts = [part for part in request.path.split("/") if part]
        match parts:
            case ["version"]:
                return _response(discovery.version())
            case ["healthz" | "livez" | "readyz", *_]:
                return web.Response(text="ok")
            case []:
                return _response({"paths": ["/api", "/apis", "/healthz", "/openapi/v3", "/version"]})
            case ["openapi", "v3", *rest]:
                return self._openapi(rest)
            case ["openapi", "v2"]:
                # An empty document: kubectl looks here for kinds that it has not found in v3.
                return web.Response(body=b"", headers={"Content-Type": _OPENAPI_V2})
            case ["api"] | ["apis"]:
                return self._groups(request, is_core=parts == ["api"])
            case ["apis", group] if group in self._kinds.groups():
                return _response(discovery.group(self._kinds, group))
            case ["api", version, *rest]:
                return await self._of_version(request, "", version, rest, user)
            case ["apis", group, version, *rest]:
                return await self._of_version(request, group, version, rest, user)
        raise no_such_path()

    def _openapi(self, path: list[str]) -> web.Response:
        if not path:
            return _response(discovery.openapi_paths(self._kinds))
        group, version = ("", path[-1]) if path[0] == "api" else (path[1], path[-1])
        kinds = self._of_group_version(group, version)
        if not kinds:
            raise no_such_path()
        return _response(discovery.openapi(kinds))

    def _of_group_version(self, group: str, version: str) -> list[Kind]:
        return [kind for kind in self._kinds if (kind.group, kind.version) == (group, version)]

    def _groups(self, request: web.Request, *, is_core: bool) -> web.Response:
        if "as=APIGroupDiscoveryList" in request.headers.get("Accept", "") and "v=v2" in request.headers["Accept"]:
            return _response(discovery.aggregated(self._kinds, core=is_core), content_type=_AGGREGATED)
        return _response(discovery.versions(request.host) if is_core else discovery.groups(self._kinds))

    async def _of_version(
        self, request: web.Request, group: str, version: str, path: list[str], user: User
    ) -> web.StreamResponse:
        kinds = self._of_group_version(group, version)
        if not kinds:
            raise no_such_path()
        if not path:
            return _response(discovery.resources(kinds))
        namespace = ""
        if path[0] == "namespaces" and len(path) > 2 and path[2] not in {"status", "finalize"}:
            namespace, path = path[1], path[2:]
        kind = self._kinds.find(group, version, path[0])
        if kind is None:
            raise no_such_path()
        if kind.plural in _REVIEWS:
            return _response(await self._review(request, kind, user), 201)
        if len(path) == 1:
            return await self._collection(request, kind, namespace, user)
        return await self._named(request, Place(kind, namespace, path[1], "/".join(path[2:])), user)

    async def _named(self, request: web.Request, place: Place, user: User) -> web.StreamResponse:
        if not place.subresource or place.subresource in place.kind.subresources:
            answers = self._bind if place.subresource == "binding" else self._object
            return await answers(request, place, user)
        if place.subresource.partition("/")[0] in _SUBRESOURCES and not place.kind.is_custom:
            raise not_implemented(f"{place.kind.plural}/{place.subresource}")
        raise no_such_path()

    async def _collection(self, request: web.Request, kind: Kind, namespace: str, user: User) -> web.StreamResponse:
        query = request.query
        match request.method:
            case "GET":
                if kind.namespaced is False and namespace:
                    raise no_such_path()
                selection = reading.Selection.of(kind, namespace, query)
                if query.get("watch") in {"1", "true"}:
                    return await self._watch(request, selection)
                return self._list(request, selection)
            case "POST":
                if kind.namespaced and not namespace:
                    raise bad_request("an empty namespace may not be set during creation")
                written = self._objects.create(kind, namespace, await _body(request), _write(request, user))
                return self._written(request, kind, written)
            case "DELETE":
                return await self._delete_collection(request, reading.Selection.of(kind, namespace, query), user)
        raise _no_such_method()

    def _list(self, request: web.Request, selection: reading.Selection) -> web.Response:
        kind = selection.kind
        page = reading.listed(self._store, selection, request.query)
        match _form(request):
            case "Table":
                include = request.query.get("includeObject", "Metadata")
                return _response(tables.table(kind, page.items, page.metadata, include))
            case "PartialObjectMetadata" | "PartialObjectMetadataList":
                items = [tables.partial(value) for value in page.items]
                about = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1"}
                return _response({**about, "metadata": page.metadata, "items": items})
        about = {"kind": kind.list_kind, "apiVersion": kind.group_version}
        return _response({**about, "metadata": page.metadata, "items": page.items})

    async def _watch(self, request: web.Request, selection: reading.Selection) -> web.StreamResponse:
        form = _form(request)
        if (error := reading.check_watch(self._store, selection.kind, request.query)) is not None:
            return _response({"type": "ERROR", "object": error.body()})
        response = web.StreamResponse(headers={"Content-Type": _JSON})
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
                await response.write(_json({"type": event.type, "object": value}))
        except ConnectionError:
            # The client has gone.
            pass
        finally:
            self._watches.discard(task)
        return response

    async def _delete_collection(
        self, request: web.Request, selection: reading.Selection, user: User
    ) -> web.StreamResponse:
        options = await _body(request) or {}
        page = reading.listed(self._store, selection, request.query)
        for value in page.items:
            self._objects.delete(
                Place.of(selection.kind, value), {**options, **_delete_options(request)}, _write(request, user)
            )
        about = {"kind": selection.kind.list_kind, "apiVersion": selection.kind.group_version}
        return _response({**about, "metadata": page.metadata, "items": page.items})

    async def _object(self, request: web.Request, place: Place, user: User) -> web.StreamResponse:
        match request.method:
            case "GET":
                if request.query.get("watch") in {"1", "true"}:
                    raise not_implemented("a watch of one object by its path")
                return _response(self._shown(request, place.kind, builtin.served(place.kind, self._objects.get(place))))
            case "PUT":
                written = self._objects.replace(place, await _body(request), _write(request, user))
                return self._written(request, place.kind, written)
            case "PATCH":
                content_type = request.content_type
                if content_type == APPLY_PATCH and "fieldManager" not in request.query:
                    raise _no_manager()
                patch = _decoded(await request.read())
                written = self._objects.patch(place, content_type, patch, _write(request, user))
                return self._written(request, place.kind, written)
            case "DELETE" if not place.subresource:
                options = {**(await _body(request) or {}), **_delete_options(request)}
                value, has_gone = self._objects.delete(place, options, _write(request, user))
                if has_gone and not place.kind.is_shown_when_deleted:
                    return _response(_deleted(place, value))
                return _response(self._shown(request, place.kind, builtin.served(place.kind, value)))
        raise _no_such_method()

    async def _bind(self, request: web.Request, place: Place, user: User) -> web.StreamResponse:
        if request.method != "POST":
            raise _no_such_method()
        node = ((await _body(request)).get("target") or {}).get("name")
        if not node:
            raise bad_request("a Binding needs target.name")
        self._objects.bind(place, node, _write(request, user))
        return _response({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, 201)

    async def _review(self, request: web.Request, kind: Kind, user: User) -> Json:
        """There is no RBAC: everybody may do everything."""
        if request.method != "POST":
            raise _no_such_method()
        body = await _body(request)
        about = {"kind": kind.kind, "apiVersion": kind.group_version, "metadata": {"creationTimestamp": None}}
        spec = {"spec": body.get("spec") or {}}
        match kind.kind:
            case "SelfSubjectAccessReview":
                why = "this embedded API server has no RBAC: everything is allowed"
                return {**about, **spec, "status": {"allowed": True, "reason": why}}
            case "SelfSubjectRulesReview":
                rules = {
                    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
                    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
                    "incomplete": False,
                }
                return {**about, **spec, "status": rules}
            case _:
                extra = {name: list(values) for name, values in (user.extra or {}).items()}
                info = {"username": user.name, "groups": list(user.groups), **({"extra": extra} if extra else {})}
                return {**about, "status": {"userInfo": info}}

    def _written(self, request: web.Request, kind: Kind, written: Written) -> web.Response:
        value = self._shown(request, kind, builtin.served(kind, written.value))
        response = _response(value, 201 if written.is_new else 200)
        for warning in written.warnings:
            quoted = warning.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
            response.headers.add("Warning", f'299 - "{quoted}"')
        return response

    def _shown(self, request: web.Request, kind: Kind, value: Json) -> Json:
        match _form(request):
            case "Table":
                include = request.query.get("includeObject", "Metadata")
                metadata = {"resourceVersion": value["metadata"]["resourceVersion"]}
                return tables.table(kind, [value], metadata, include)
            case "PartialObjectMetadata":
                return tables.partial(value)
        return value


def _response(value: Any, status: int = 200, content_type: str = _JSON) -> web.Response:
    return web.Response(body=_json(value), status=status, headers={"Content-Type": content_type})


def _json(value: Any) -> bytes:
    """As Go writes it: in one line, with an end."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def _form(request: web.Request) -> str:
    """What the client takes objects as, the first that is known: Table, PartialObjectMetadata(List), or as they are."""
    accept = request.headers.get("Accept") or _JSON
    for one in accept.split(","):
        media, *parameters = [part.strip() for part in one.split(";")]
        if media not in {_JSON, "application/*", "*/*"}:
            continue
        given = dict(part.split("=", 1) for part in parameters if "=" in part)
        form = given.get("as", "")
        if not form or (
            form in {"Table", "PartialObjectMetadata", "PartialObjectMetadataList"} and given.get("v") == "v1"
        ):
            return form
    message = f"only the following media types are accepted: {_SUPPORTED}"
    raise StatusError(406, message)


async def _body(request: web.Request) -> Any:
    if request.content_type == protobuf.MEDIA_TYPE:
        return protobuf.decoded(await request.read())
    if request.content_type not in _BODIES and request.body_exists:
        raise StatusError(
            415, f"the body of the request was in an unknown format - accepted media types include: {_SUPPORTED}"
        )
    data = await request.read()
    return _decoded(data) if data else {}


def _decoded(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        pass
    try:
        return yaml.safe_load(data)
    except (ValueError, yaml.YAMLError) as error:
        raise bad_request(f"the object provided is unrecognized: {error}") from None


def _write(request: web.Request, user: User) -> Request:
    query = request.query
    if (dry_run := query.get("dryRun")) not in {None, "", "All"}:
        why = f'Unsupported value: "{dry_run}": supported values: "All"'
        raise StatusError(422, f"CreateOptions.meta.k8s.io is invalid: dryRun: {why}")
    agent = request.headers.get("User-Agent", "").partition("/")[0][:128]
    return Request(
        user=user,
        manager=query.get("fieldManager") or agent or "unknown",
        dry_run=bool(dry_run),
        field_validation=query.get("fieldValidation") or "Warn",
        force=query.get("force") in {"1", "true"},
    )


def _delete_options(request: web.Request) -> Json:
    query: Mapping[str, str] = request.query
    options: Json = {}
    if "propagationPolicy" in query:
        options["propagationPolicy"] = query["propagationPolicy"]
    if "gracePeriodSeconds" in query:
        options["gracePeriodSeconds"] = int(query["gracePeriodSeconds"])
    return options


def _deleted(place: Place, value: Json) -> Json:
    details = {"name": place.name, "kind": place.kind.plural, "uid": value["metadata"]["uid"]}
    if place.kind.group:
        details["group"] = place.kind.group
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def _no_such_method() -> StatusError:
    return StatusError(405, "the server does not allow this method on the requested resource", details={})


def _no_manager() -> StatusError:
    what = "PatchOptions.meta.k8s.io"
    return StatusError(422, f'{what} "" is invalid: fieldManager: Required value: is required for apply patch')
