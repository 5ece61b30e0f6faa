"""What is served, for clients that ask: groups, resources, versions, and OpenAPI documents of all kinds."""

import base64
import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

from gpusharing.demo.apiserver.kinds import PREFIX, Kind, Kinds, definitions

Json = dict[str, Any]

_WRITES: Final = {"POST": "create", "PUT": "update", "PATCH": "patch"}
_SUBRESOURCE_VERBS: Final = {"binding": ("create",)}


def version() -> Json:
    git = definitions().version
    major, minor, _ = git.removeprefix("v").split(".", 2)
    return {
        "major": major, "minor": minor, "emulationMajor": major, "emulationMinor": minor,
        "minCompatibilityMajor": major, "minCompatibilityMinor": minor, "gitVersion": f"{git}+gpusharing-demo",
        "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none: this is the embedded API server of gpusharing demo", "compiler": "", "platform": "",
    }  # fmt: skip


def versions(address: str) -> Json:
    addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses}


def groups(kinds: Kinds) -> Json:
    found = [group(kinds, name) for name in kinds.groups() if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": found}


def group(kinds: Kinds, name: str) -> Json:
    served = [{"groupVersion": f"{name}/{one}", "version": one} for one in kinds.groups()[name]]
    return {"kind": "APIGroup", "apiVersion": "v1", "name": name, "versions": served, "preferredVersion": served[0]}


def resources(kinds: Iterable[Kind]) -> Json:
    """Of one group and version."""
    listed: list[Json] = []
    group_version = ""
    for kind in kinds:
        group_version = kind.group_version
        listed.append(
            {
                "name": kind.plural, "singularName": kind.singular, "namespaced": kind.namespaced, "kind": kind.kind,
                "verbs": list(kind.verbs),
                **({"shortNames": list(kind.short_names)} if kind.short_names else {}),
                **({"categories": list(kind.categories)} if kind.categories else {}),
                **({"storageVersionHash": _hash(kind)} if "list" in kind.verbs else {}),
            }
        )  # fmt: skip
        listed += [
            {
                "name": f"{kind.plural}/{one}", "singularName": "", "namespaced": kind.namespaced,
                "kind": _kind_below(kind, one), "verbs": list(_verbs_below(one)),
            }
            for one in kind.subresources
        ]  # fmt: skip
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": listed}


def aggregated(kinds: Kinds, *, core: bool) -> Json:
    """All of /api or /apis in one answer."""
    items = []
    for name, served in kinds.groups().items():
        if (name == "") is not core:
            continue
        of_versions = [
            {
                "version": one, "freshness": "Current",
                "resources": [_aggregated(kind) for kind in kinds if (kind.group, kind.version) == (name, one)],
            }
            for one in served
        ]  # fmt: skip
        metadata = {"name": name} if name else {}
        items.append({"metadata": metadata, "versions": of_versions})
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def _aggregated(kind: Kind) -> Json:
    def about(name: str) -> Json:
        # Of Kubernetes' own kinds, group and version are those around it.
        return {"group": kind.group, "version": kind.version, "kind": name} if kind.is_custom else {
            "group": "", "version": "", "kind": name,
        }  # fmt: skip

    below = [
        {"subresource": one, "responseKind": about(_kind_below(kind, one)), "verbs": list(_verbs_below(one))}
        for one in kind.subresources
    ]
    return {
        "resource": kind.plural, "responseKind": about(kind.kind), "verbs": list(kind.verbs),
        "scope": "Namespaced" if kind.namespaced else "Cluster", "singularResource": kind.singular,
        **({"shortNames": list(kind.short_names)} if kind.short_names else {}),
        **({"categories": list(kind.categories)} if kind.categories else {}),
        **({"subresources": below} if below else {}),
    }  # fmt: skip


def _kind_below(kind: Kind, subresource: str) -> str:
    return "Binding" if subresource == "binding" else kind.kind


def _verbs_below(subresource: str) -> tuple[str, ...]:
    return _SUBRESOURCE_VERBS.get(subresource, ("get", "patch", "update"))


def _hash(kind: Kind) -> str:
    text = f"{kind.group}/{kind.version}/{kind.kind}"
    return base64.b64encode(hashlib.sha256(text.encode()).digest()[:8]).decode()


def openapi_paths(kinds: Kinds) -> Json:
    """What documents there are. Clients keep them by the hash."""
    paths = {}
    for name, served in kinds.groups().items():
        for one in served:
            path = f"apis/{name}/{one}" if name else f"api/{one}"
            known = [kind for kind in kinds if (kind.group, kind.version) == (name, one)]
            digest = hashlib.sha256(repr([(kind.plural, kind.schema) for kind in known]).encode()).hexdigest()
            paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest[:32].upper()}"}
    return {"paths": paths}


def openapi(kinds: Iterable[Kind]) -> Json:
    """Of one group and version."""
    schemas: dict[str, Any] = {}
    paths: dict[str, Any] = {}
    for kind in kinds:
        name = _add_schema(schemas, kind)
        paths |= _paths(kind, name)
    return {
        "openapi": "3.0.0", "info": {"title": "Kubernetes", "version": definitions().version},
        "paths": paths, "components": {"schemas": schemas},
    }  # fmt: skip


def _add_schema(schemas: dict[str, Any], kind: Kind) -> str:
    """And all that it refers to."""
    known = definitions().schemas
    name = next((name for name, schema in known.items() if schema is kind.schema), "")
    if not name:
        name = ".".join([*reversed(kind.group.split(".")), kind.version, kind.kind])
    waiting: list[tuple[str, Any]] = [(name, kind.schema)]
    while waiting:
        one, schema = waiting.pop()
        if one not in schemas:
            schemas[one] = schema
            waiting += [(other, known[other]) for other in _references(schema)]
    return name


def _references(value: Any) -> Iterable[str]:
    if isinstance(value, Mapping):
        reference = value.get("$ref")
        if isinstance(reference, str):
            yield reference.removeprefix(PREFIX)
        for part in value.values():
            yield from _references(part)
    elif isinstance(value, list):
        for part in value:
            yield from _references(part)


def _paths(kind: Kind, schema: str) -> Json:
    root = "/apis" if kind.group else "/api"
    inside = "/namespaces/{namespace}" if kind.namespaced else ""
    collection = f"{root}/{kind.group_version}{inside}/{kind.plural}"
    paths = {collection: _operations(kind, schema, {"GET": "list", "POST": "create"})}
    item = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
    paths[f"{collection}/{{name}}"] = _operations(kind, schema, item)
    return paths


def _operations(kind: Kind, schema: str, verbs: Mapping[str, str]) -> Json:
    about = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    found: Json = {}
    for method, verb in verbs.items():
        if verb not in kind.verbs:
            continue
        names = ("pretty", "dryRun", "fieldManager", "fieldValidation") if method in _WRITES else ("pretty", "dryRun")
        names = (*names, "force") if method == "PATCH" else names
        answer = {"content": {"application/json": {"schema": {"$ref": PREFIX + schema}}}, "description": "OK"}
        operation: Json = {
            "parameters": [{"name": name, "in": "query", "schema": {"type": "string"}} for name in names],
            "responses": {"200": answer},
            "x-kubernetes-action": {"GET": verb, "POST": "post", "PUT": "put"}.get(method, method.lower()),
            "x-kubernetes-group-version-kind": about,
        }
        if method in _WRITES:
            kinds = ["application/json"] if method != "PATCH" else _patch_types(kind)
            content = {one: {"schema": {"$ref": PREFIX + schema}} for one in kinds}
            operation["requestBody"] = {"content": content, "required": True}
        found[method.lower()] = operation
    return found


def _patch_types(kind: Kind) -> list[str]:
    common = ["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"]
    return common if kind.is_custom else [*common, "application/strategic-merge-patch+json"]
