"""Fills a World from a cluster: only what is asked for, as far as it may be read."""

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple

from gpusharing.cli.exits import CommandError
from gpusharing.cli.reading.client import Client, ReadError
from gpusharing.snapshots.lines import Lines
from gpusharing.snapshots.world import NOT_SERVED, TAINT_RULES, Json, Resource, World

FLOOR: Final = 36
_GROUP: Final = "/apis/resource.k8s.io"

Decode = Callable[[bytes], Sequence[Json]]


def decode_list(data: bytes) -> Sequence[Json]:
    """The objects of a page."""
    try:
        found: Sequence[Json] | None = json.loads(data)["items"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CommandError(f"not a list of an API server: {error}") from error
    return found or ()


class Ask(NamedTuple):
    """A list."""

    resource: Resource
    namespace: str = ""
    """Only of this one. Of all namespaces that may not be read, `fallback` is read instead."""
    fallback: str = ""
    fields: str = ""
    """A field selector."""
    labels: str = ""
    decode: Decode = decode_list
    collect: type[list[Json]] | type[Lines] = list
    """What the objects of all pages are gathered in."""


class Found(NamedTuple):
    objects: Sequence[Json] = ()
    unread: str = ""
    """Why they could not be read."""
    only_namespace: str = ""


def read(client: Client, asks: Sequence[Ask]) -> World:
    """Several lists at a time. What may not be read is named in the World, and does not stop the others."""
    minor = read_minor(client)
    with ThreadPoolExecutor(max(1, len(asks)), thread_name_prefix="list") as threads:
        found = list(threads.map(lambda ask: read_list(client, ask), asks))
    return world_of(minor, dict(zip((ask.resource.field for ask in asks), found, strict=True)))


def world_of(minor: int, found: Mapping[str, Found]) -> World:
    objects: dict[str, Any] = {name: one.objects for name, one in found.items()}
    return World(
        minor=minor,
        taken_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        unread={name: one.unread for name, one in found.items() if one.unread},
        only_namespace={name: one.only_namespace for name, one in found.items() if one.only_namespace},
        **objects,
    )


def read_list(client: Client, ask: Ask) -> Found:
    try:
        return Found(_objects(client, ask, ask.namespace), only_namespace=ask.namespace)
    except ReadError as error:
        if error.is_absent:
            return _absent(client, ask, error)
        if not error.is_forbidden:
            raise CommandError(str(error)) from error
        if not ask.fallback or ask.namespace:
            return Found(unread=error.message)
    try:
        return Found(_objects(client, ask, ask.fallback), only_namespace=ask.fallback)
    except ReadError as error:
        return Found(unread=error.message)


def _absent(client: Client, ask: Ask, error: ReadError) -> Found:
    """What is not served does not exist; the rules have an older version in 1.36."""
    if ask.resource == TAINT_RULES:
        older = ask._replace(resource=TAINT_RULES._replace(api_version="resource.k8s.io/v1beta2"))
        try:
            return Found(_objects(client, older, ""))
        except ReadError:
            return Found()
    return Found(unread=f"{NOT_SERVED} {ask.resource.api_version} {ask.resource.plural} ({error.status})")


def _objects(client: Client, ask: Ask, namespace: str) -> Sequence[Json]:
    query = {"fieldSelector": ask.fields, "labelSelector": ask.labels}
    path = ask.resource.path(namespace=namespace)
    found = ask.collect()
    for page in client.pages(path, {name: value for name, value in query.items() if value}):
        found.extend(ask.decode(page))
    return found


def read_minor(client: Client) -> int:
    """Of the Kubernetes that the server behaves as. Raises CommandError if it is too old."""
    try:
        answer = client.get_json("/version")
    except ReadError as error:
        raise CommandError(f"{client.access.server}: {error.message}") from error
    # Some vendors write "36+".
    minor = int(re.sub(r"[^0-9].*", "", answer.get("emulationMinor") or answer["minor"]) or 0)
    if minor < FLOOR:
        raise CommandError(
            f"the API server is Kubernetes 1.{minor} ({answer.get('gitVersion')}), but the oldest that is supported is "
            f"1.{FLOOR}: upgrade the cluster"
        )
    return minor


def served_versions(client: Client) -> Sequence[str]:
    """Of resource.k8s.io."""
    try:
        return [one["groupVersion"] for one in client.get_json(_GROUP)["versions"]]
    except ReadError:
        return []
