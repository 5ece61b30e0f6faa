"""Writes what the demo's API server knows of Kubernetes' own kinds, from the sources of Kubernetes.

`python tools/kubernetes_kinds.py DIRECTORY`, of the module k8s.io/kubernetes with the modules k8s.io/api and
k8s.io/apimachinery of the same release beside it. A release publishes the descriptions that its API server gives to
clients, in api/discovery and api/openapi-spec, and how objects are written as protobuf, which clients of Go prefer.
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

TARGET: Final = Path(__file__).parents[1] / "operator/gpusharing/demo/apiserver/kubernetes.json"

# Group and version: plural names.
SERVED: Final[Mapping[str, tuple[str, ...]]] = {
    "v1": (
        "bindings", "configmaps", "events", "limitranges", "namespaces", "nodes", "pods", "resourcequotas", "secrets",
        "serviceaccounts", "services",
    ),
    "admissionregistration.k8s.io/v1": ("validatingadmissionpolicies", "validatingadmissionpolicybindings"),
    "apiextensions.k8s.io/v1": ("customresourcedefinitions",),
    "apps/v1": ("daemonsets", "deployments"),
    "authentication.k8s.io/v1": ("selfsubjectreviews",),
    "authorization.k8s.io/v1": ("selfsubjectaccessreviews", "selfsubjectrulesreviews"),
    "coordination.k8s.io/v1": ("leases",),
    "discovery.k8s.io/v1": ("endpointslices",),
    "events.k8s.io/v1": ("events",),
    "networking.k8s.io/v1": ("networkpolicies",),
    "policy/v1": ("poddisruptionbudgets",),
    "rbac.authorization.k8s.io/v1": ("clusterrolebindings", "clusterroles", "rolebindings", "roles"),
    "resource.k8s.io/v1": (
        "deviceclasses", "devicetaintrules", "resourceclaims", "resourceclaimtemplates", "resourceslices",
    ),
}  # fmt: skip
_SUBRESOURCES: Final = ("status", "binding")
_DELETE_OPTIONS: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
_MESSAGE: Final = re.compile(r"^message (\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD: Final = re.compile(r"^  (optional |repeated |map<string, )([\w.]+)>? (\w+) = (\d+);", re.MULTILINE)
# Messages whose fields are fields of the one that they are in, as JSON has it.
_INLINE: Final = frozenset({"EphemeralContainerCommon", "ProbeHandler", "VolumeSource"})
_SCALARS: Final = frozenset({"string", "bool", "int32", "int64", "double", "bytes"})


def main() -> None:
    source = Path(sys.argv[1])
    resources: dict[str, list[Any]] = {}
    schemas: dict[str, Any] = {}
    for group_version, plurals in SERVED.items():
        stem = f"{'api' if group_version == 'v1' else 'apis'}__{group_version.replace('/', '__')}"
        listed = json.loads((source / "api/discovery" / f"{stem}.json").read_text())["resources"]
        resources[group_version] = [one for one in listed if _is_served(one["name"], plurals)]
        openapi = json.loads((source / "api/openapi-spec/v3" / f"{stem}_openapi.json").read_text())
        known = openapi["components"]["schemas"]
        kinds = {one["kind"] for one in resources[group_version]}
        kinds |= {f"{kind}List" for kind in kinds}
        roots = [name for name, schema in known.items() if _is_of(schema, group_version, kinds)]
        _add(schemas, known, [*roots, *({_DELETE_OPTIONS} & known.keys())])
    release = source.name.rpartition("@")[2]
    beside = f"@v0.{release.partition('.')[2]}"
    messages = {
        name: fields
        for module in ("api", "apimachinery")
        for file in (source.parent / f"{module}{beside}").rglob("generated.proto")
        for name, fields in _messages(file.read_text())
        if name in schemas or name.rpartition(".")[2] in _INLINE
    }
    content = {"resources": resources, "schemas": schemas, "messages": messages, "columns": _columns(source, schemas)}
    TARGET.write_text(_lines(release, content))


def _columns(source: Path, schemas: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Of tables, by kinds: only the source says them."""
    text = (source / "pkg/printers/internalversion/printers.go").read_text()
    tables = {
        name: [
            {
                "name": column,
                "type": kind,
                "format": _found(r'Format: "(\w+)"', rest),
                "priority": int(_found(r"Priority: (\d)", rest) or 0),
                "description": _description(rest, schemas),
            }
            for column, kind, rest in re.findall(r'\{Name: "([^"]+)", Type: "(\w+)"(.*)\},?', body)
        ]
        for name, body in re.findall(r"(\w+) :?= \[\]metav1\.TableColumnDefinition\{\n(.*?)\n\t\}\n", text, re.DOTALL)
    }
    handled = {kind: name for name, kind in re.findall(r"TableHandler\((\w+), print(\w+)List\)", text)}
    known = {name.rpartition(".")[2] for name in schemas}
    return {kind: tables[name] for kind, name in handled.items() if kind in known}


def _description(text: str, schemas: Mapping[str, Any]) -> str:
    """As it stands, or that of a field."""
    if literal := _found(r'Description: "((?:[^"\\]|\\.)*)"', text):
        return literal.replace('\\"', '"')
    match = re.search(r'Description: \w+\.(\w+)\{\}[\w.]*?\.SwaggerDoc\(\)\["(\w+)"\]', text)
    owner, field = match.groups() if match else ("", "")
    fields = (one["properties"] for name, one in schemas.items() if name.endswith(f".{owner}") and "properties" in one)
    return next((str(one[field].get("description", "")) for one in fields if field in one), "")


def _found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    return match[1] if match else ""


def _messages(text: str) -> Iterator[tuple[str, dict[str, list[str]]]]:
    """By their names as schemas have them, fields by their numbers: name, type, and how often."""
    package = _schema_name(re.search(r"^package (\S+);", text, re.MULTILINE)[1])  # type: ignore[index]
    for name, body in _MESSAGE.findall(text):
        fields = {}
        for label, kind, field, number in _FIELD.findall(body):
            whole = kind if kind in _SCALARS else _schema_name(kind[1:]) if kind[0] == "." else f"{package}.{kind}"
            fields[number] = [field, whole, label.partition("<")[0].strip()]
        yield f"{package}.{name}", fields


def _schema_name(name: str) -> str:
    return re.sub(r"^k8s\.io\.", "io.k8s.", name)


def _is_served(name: str, plurals: tuple[str, ...]) -> bool:
    plural, _, subresource = name.partition("/")
    return plural in plurals and (not subresource or subresource in _SUBRESOURCES)


def _is_of(schema: Any, group_version: str, kinds: set[str]) -> bool:
    group, _, version = group_version.rpartition("/")
    named = schema.get("x-kubernetes-group-version-kind", ())
    return any((one["group"], one["version"]) == (group, version) and one["kind"] in kinds for one in named)


def _add(schemas: dict[str, Any], known: Mapping[str, Any], names: list[str]) -> None:
    """These, and all that they refer to."""
    while names:
        name = names.pop()
        if name not in schemas:
            schemas[name] = known[name]
            names += _references(known[name])


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        reference = value.get("$ref")
        if isinstance(reference, str):
            yield reference.rpartition("/")[2]
        for part in value.values():
            yield from _references(part)
    elif isinstance(value, list):
        for part in value:
            yield from _references(part)


def _lines(release: str, content: Mapping[str, Mapping[str, Any]]) -> str:
    """One line for each schema: a newer Kubernetes changes few of them."""
    parts = [
        f"{json.dumps(part)}:{{\n"
        + ",\n".join(f"{json.dumps(name)}:{_compact(value)}" for name, value in sorted(values.items()))
        + "}"
        for part, values in content.items()
    ]
    head = f'{{"version":{json.dumps(release)},"license":"Apache-2.0, Copyright The Kubernetes Authors",\n'
    return head + ",\n".join(parts) + "}\n"


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


if __name__ == "__main__":
    main()
