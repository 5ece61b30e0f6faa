"""What admission policies say of a request: what our guards need of ValidatingAdmissionPolicies.

Without params, selectors of namespaces and objects, audit annotations, warnings and authorizers.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpusharing.validating.evaluation import refusals

Json = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class AdmissionRequest:
    operation: str
    """CREATE, UPDATE or DELETE."""
    group: str
    version: str
    resource: str
    subresource: str = ""
    name: str = ""
    namespace: str = ""
    object: Json | None = None
    """Of a DELETE there is none."""
    old_object: Json | None = None
    namespace_object: Json | None = None
    user: Json = field(default_factory=dict)
    """With username, groups and extra."""
    is_dry_run: bool = False


def refusal(request: AdmissionRequest, policies: Sequence[Json], bindings: Sequence[Json]) -> str | None:
    """The message of the first binding that denies it; None: it is admitted."""
    return next(_refusals(request, policies, bindings), None)


def _refusals(request: AdmissionRequest, policies: Sequence[Json], bindings: Sequence[Json]) -> Iterator[str]:
    by_name = {one["metadata"]["name"]: one["spec"] for one in policies}
    for binding in bindings:
        name = binding["spec"]["policyName"]
        spec = by_name.get(name)
        if spec is None or "Deny" not in binding["spec"]["validationActions"] or not _matches(request, spec):
            continue
        for message in refusals(spec, _values(request)):
            what = f'{request.resource}{f".{request.group}" if request.group else ""} "{request.name}"'
            bound = binding["metadata"]["name"]
            yield f"{what} is forbidden: ValidatingAdmissionPolicy '{name}' with binding '{bound}' denied request: {message}"


def _matches(request: AdmissionRequest, spec: Json) -> bool:
    resource = "/".join(filter(None, (request.resource, request.subresource)))
    return any(
        _has(rule["apiGroups"], request.group)
        and _has(rule["apiVersions"], request.version)
        and _has(rule["operations"], request.operation)
        and (resource in rule["resources"] or ("*" in rule["resources"] and not request.subresource))
        and (not rule.get("resourceNames") or request.name in rule["resourceNames"])
        for rule in (spec.get("matchConstraints") or {}).get("resourceRules") or ()
    )


def _has(some: Sequence[str], one: str) -> bool:
    return one in some or "*" in some


def _values(request: AdmissionRequest) -> Json:
    resource = {"group": request.group, "version": request.version, "resource": request.resource}
    return {
        "object": request.object,
        "oldObject": request.old_object,
        "namespaceObject": request.namespace_object,
        "request": {
            "operation": request.operation,
            "resource": resource,
            "requestResource": resource,
            "subResource": request.subresource,
            "requestSubResource": request.subresource,
            "name": request.name,
            "namespace": request.namespace,
            "userInfo": request.user,
            "dryRun": request.is_dry_run,
        },
    }
