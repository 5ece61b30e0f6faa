"""Writes what the demo's API server knows of Kubernetes' own kinds, from the sources of Kubernetes.

`python tools/kubernetes_kinds.py DIRECTORY-OF-k8s.io/kubernetes`: its release publishes the descriptions that its API
server gives to clients, in api/discovery and api/openapi-spec.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

TARGET: Final = Path(__file__).parents[1] / "operator/gpusharing/demo/apiserver/kubernetes.json"

# Group and version: plural names.
SERVED: Final[Mapping[str, tuple[str, ...]]] = {
    "v1": (
        "bindings", "configmaps", "events", "namespaces", "nodes", "pods", "resourcequotas", "secrets",
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
    "rbac.authorization.k8s.io/v1": ("clusterrolebindings", "clusterroles", "rolebindings", "roles"),
    "resource.k8s.io/v1": (
        "deviceclasses", "devicetaintrules", "resourceclaims", "resourceclaimtemplates", "resourceslices",
    ),
}  # fmt: skip
_SUBRESOURCES: Final = ("status", "binding")


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
        _add(schemas, known, [name for name, schema in known.items() if _is_of(schema, group_version, kinds)])
    TARGET.write_text(_lines({"version": source.name.rpartition("@")[2], "resources": resources, "schemas": schemas}))


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


def _lines(content: Mapping[str, Any]) -> str:
    """One line for each schema: a newer Kubernetes changes few of them."""
    schemas = content["schemas"]
    kept = ",\n".join(f"{json.dumps(name)}:{_compact(schemas[name])}" for name in sorted(schemas))
    resources = ",\n".join(f"{json.dumps(name)}:{_compact(value)}" for name, value in content["resources"].items())
    return f'{{"version":{json.dumps(content["version"])},\n"resources":{{\n{resources}}},\n"schemas":{{\n{kept}}}}}\n'


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


if __name__ == "__main__":
    main()
