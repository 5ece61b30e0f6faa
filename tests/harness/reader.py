"""What `kubectl get --output=json` tells, asked of the API server itself.

To start kubectl takes ten times the processor time, and tests ask again and again until they see what they wait for.
"""

import argparse
import asyncio
import http.client
import json
import ssl
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from harness.certificates import Certificate
from harness.commands import CommandError

_TIMEOUT: Final = 60.0
_JSON: Final = "application/json"
_DISCOVERY: Final = f"{_JSON};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class _Resource(NamedTuple):
    root: str
    """Of its group and version."""
    api_version: str
    plural: str
    kind: str
    is_namespaced: bool


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("get", add_help=False, allow_abbrev=False)
    parser.add_argument("resource")
    parser.add_argument("name", nargs="?", default="")
    parser.add_argument("--namespace", default="default")
    parser.add_argument("--all-namespaces", action="store_true")
    parser.add_argument("--selector", default="")
    parser.add_argument("--field-selector", default="")
    parser.add_argument("--show-managed-fields", action="store_true")
    return parser


class Reader:
    """Connects for each question, as kubectl does: nothing is left when the server or an event loop ends."""

    def __init__(self, address: str, port: int, *, ca: Path, user: Certificate) -> None:
        self._address = address
        self._port = port
        self._ca = ca
        self._user = user
        self._resources: dict[str, _Resource] = {}

    async def get(self, *arguments: str) -> Any:
        """Takes the arguments of `kubectl get`, as far as tests use them."""
        return await asyncio.to_thread(self._get, _parser().parse_args(arguments))

    def _get(self, asked: argparse.Namespace) -> Any:
        name, _, named = asked.resource.partition("/")
        resource, object_name = self._resource(name), asked.name or named
        in_namespace = resource.is_namespaced and not asked.all_namespaces
        parts = [resource.root, *(["namespaces", asked.namespace] if in_namespace else []), resource.plural]
        selectors = {"labelSelector": asked.selector, "fieldSelector": asked.field_selector}
        query = urlencode({key: value for key, value in selectors.items() if value})
        path = "/".join([*parts, *([object_name] if object_name else [])])
        found = self._read(f"{path}?{query}" if query else path)
        items = [found] if object_name else found["items"]
        for item in items:
            item.update(apiVersion=resource.api_version, kind=resource.kind)
            if not asked.show_managed_fields:
                item["metadata"].pop("managedFields", None)
        return found

    def _resource(self, name: str) -> _Resource:
        """By its plural, singular or short name. What is not known may have come since."""
        if name not in self._resources:
            self._resources = self._served()
        if name not in self._resources:
            raise CommandError(f"get {name}: the server does not have such a resource")
        return self._resources[name]

    def _served(self) -> dict[str, _Resource]:
        """Of equal names, the first: groups and versions come in the order of kubectl."""
        found: dict[str, _Resource] = {}
        for root in ("/api", "/apis"):
            for group in self._read(root, accept=_DISCOVERY)["items"]:
                for version in group["versions"]:
                    parts = [*([group["metadata"]["name"]] if root == "/apis" else []), version["version"]]
                    for one in version.get("resources", ()):
                        resource = _Resource(
                            "/".join([root, *parts]),
                            "/".join(parts),
                            one["resource"],
                            one["responseKind"]["kind"],
                            one["scope"] == "Namespaced",
                        )
                        for name in (one["resource"], one.get("singularResource"), *one.get("shortNames", ())):
                            found.setdefault(name, resource)
        return found

    def _read(self, path: str, *, accept: str = _JSON) -> Any:
        connection = http.client.HTTPSConnection(self._address, self._port, timeout=_TIMEOUT, context=self._tls)
        with closing(connection):
            try:
                connection.request("GET", path, headers={"Accept": accept})
                response = connection.getresponse()
                data = response.read()
            except (OSError, http.client.HTTPException) as error:
                raise CommandError(f"get {path}: {type(error).__name__}: {error}") from error
        if response.status != http.HTTPStatus.OK:
            raise CommandError(f"get {path}: {response.status}: {data.decode(errors='replace')}")
        return json.loads(data)

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self._ca)
        context.load_cert_chain(self._user.certificate, self._user.key)
        return context
