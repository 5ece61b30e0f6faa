"""What stands in requests and answers beside objects: media types, bodies, options."""

import json
from typing import Any, Final

import yaml
from aiohttp import web

from gpusharing.demo.apiserver import protobuf
from gpusharing.demo.apiserver.admission import User
from gpusharing.demo.apiserver.errors import Cause, StatusError, bad_request, invalid, required
from gpusharing.demo.apiserver.kinds import Kind
from gpusharing.demo.apiserver.objects import Place, Request

Json = dict[str, Any]

JSON: Final = "application/json"
_SUPPORTED: Final = "application/json, application/yaml"
_BODIES: Final = frozenset({"", JSON, "application/yaml", "application/octet-stream", "text/plain"})
_SHOWN: Final = 30
_PARTIAL: Final = frozenset({"Table", "PartialObjectMetadata", "PartialObjectMetadataList"})


def respond(value: Any, status: int = 200, content_type: str = JSON) -> web.Response:
    return web.Response(body=as_json(value), status=status, headers={"Content-Type": content_type})


def as_json(value: Any) -> bytes:
    """As Go writes it: in one line, with an end."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def wanted_form(request: web.Request) -> str:
    """What the client takes objects as, the first that is known: Table, PartialObjectMetadata(List), or as they are."""
    accept = request.headers.get("Accept") or JSON
    for one in accept.split(","):
        media, *parameters = [part.strip() for part in one.split(";")]
        if media not in {JSON, "application/*", "*/*"}:
            continue
        given = dict(part.split("=", 1) for part in parameters if "=" in part)
        form = given.get("as", "")
        if not form or (form in _PARTIAL and given.get("v") == "v1"):
            return form
    message = f"only the following media types are accepted: {_SUPPORTED}"
    raise StatusError(406, message)


async def body_of(request: web.Request) -> Any:
    if request.content_type == protobuf.MEDIA_TYPE:
        return protobuf.decoded(await request.read())
    if request.content_type not in _BODIES and request.body_exists:
        raise StatusError(
            415, f"the body of the request was in an unknown format - accepted media types include: {_SUPPORTED}"
        )
    data = await request.read()
    return decoded(data) if data else {}


async def object_of(request: web.Request, kind: Kind) -> Any:
    """Of a custom kind, who sends it says what it is. Raises StatusError."""
    value = await body_of(request)
    if kind.is_custom and isinstance(value, dict):
        for field, named in (("kind", "Kind"), ("apiVersion", "apiVersion")):
            if not value.get(field):
                text = (await request.read()).decode()
                beginning = text if len(text) <= _SHOWN else f"{text[:_SHOWN]} ..."
                raise bad_request(
                    f"the object provided is unrecognized (must be of type {kind.kind}): "
                    f"Object '{named}' is missing in '{text}' ({beginning})"
                )
    return value


def decoded(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        pass
    try:
        return yaml.safe_load(data)
    except (ValueError, yaml.YAMLError) as error:
        raise bad_request(f"the object provided is unrecognized: {error}") from None


def write_of(request: web.Request, user: User) -> Request:
    query = request.query
    if (dry_run := query.get("dryRun")) not in {None, "", "All"}:
        options = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions"}
        why = Cause("dryRun", "FieldValueNotSupported", f'Unsupported value: "{dry_run}": supported values: "All"')
        raise invalid("meta.k8s.io", options.get(request.method, "DeleteOptions"), "", [why])
    agent = request.headers.get("User-Agent", "").partition("/")[0][:128]
    return Request(
        user=user,
        manager=query.get("fieldManager") or agent or "unknown",
        dry_run=bool(dry_run),
        field_validation=query.get("fieldValidation") or "Warn",
        force=query.get("force") in {"1", "true"},
    )


def delete_options(request: web.Request) -> Json:
    query = request.query
    options: Json = {}
    if "propagationPolicy" in query:
        options["propagationPolicy"] = query["propagationPolicy"]
    if "gracePeriodSeconds" in query:
        seconds = query["gracePeriodSeconds"]
        if not seconds.isdecimal():
            raise bad_request(f"gracePeriodSeconds={seconds} is not a number of seconds")
        options["gracePeriodSeconds"] = int(seconds)
    return options


def deleted(place: Place, value: Json) -> Json:
    details = {"name": place.name, "kind": place.kind.plural, "uid": value["metadata"]["uid"]}
    if place.kind.group:
        details["group"] = place.kind.group
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def no_such_method() -> StatusError:
    return StatusError(405, "the server does not allow this method on the requested resource", details={})


def no_manager() -> StatusError:
    return invalid("meta.k8s.io", "PatchOptions", "", [required("fieldManager", "is required for apply patch")])
