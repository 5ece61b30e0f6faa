"""Which objects are checked, and which API versions Kubernetes does not serve any more."""

from typing import Any, Final

from gpusharing.api import names
from gpusharing.findings import validating
from gpusharing.validating.problems import Problem
from gpusharing.validating.structure import nearest

OURS: Final = names.API_VERSION
DRA_GROUP: Final = "resource.k8s.io"
DRA: Final = f"{DRA_GROUP}/v1"

_OUR_KINDS: Final = ("SharingPolicy", "NodeSharing")
_FOR_COMMANDS: Final = ("Snapshot", "SharingTest")
"""They are in files only."""
_DRA_KINDS: Final = ("ResourceClaim", "ResourceClaimTemplate", "DeviceClass", "ResourceSlice", "DeviceTaintRule")
_WHEN: Final = {
    "v1beta2": "by default",
    "v1beta1": "by default, and not at all from 1.38 on",
    "v1alpha3": "from 1.32 on",
    "v1alpha2": "from 1.31 on",
    "v1alpha1": "from 1.27 on",
}
_STILL_THERE: Final = {("v1alpha3", "DeviceTaintRule"), ("v1alpha3", "ResourcePoolStatusRequest")}
"""Alpha APIs, which an administrator may have switched on."""


def problem(api_version: str, kind: str) -> Problem | None:
    """Of a version or kind that is not served; None of all that is, and of all that is not about sharing GPUs."""
    group, _, version = api_version.rpartition("/")
    if group == names.GROUP:
        return _of_ours(api_version, kind)
    if group != DRA_GROUP or (version, kind) in _STILL_THERE:
        return None
    if version == "v1":
        return None if kind in _DRA_KINDS else _unknown(api_version, kind, _DRA_KINDS)
    when = _WHEN.get(version)
    if when is None:
        return _not_served(f"has no version {version} of {group}", f"Use {DRA}.")
    return _not_served(
        f"does not serve {kind} of {api_version} {when}",
        f"Rewrite it to {DRA}: `gpusharing convert` does that.",
    )


def is_checked(api_version: str, kind: str) -> bool:
    return (api_version == OURS and kind in _OUR_KINDS) or (api_version == DRA and kind in _DRA_KINDS[:3])


def pod_spec(value: Any) -> tuple[str, ...] | None:
    """Where an object has the spec of pods; None: it makes none."""
    match value:
        case {"kind": "Pod", "spec": {"containers": list()}}:
            return ("spec",)
        case {"spec": {"template": {"spec": {"containers": list()}}}}:
            return ("spec", "template", "spec")
        case {"spec": {"jobTemplate": {"spec": {"template": {"spec": {"containers": list()}}}}}}:
            return ("spec", "jobTemplate", "spec", "template", "spec")
        case _:
            return None


def _of_ours(api_version: str, kind: str) -> Problem | None:
    if kind in _FOR_COMMANDS:
        return None
    if api_version != OURS:
        return _not_served(f"has no API version {api_version}", f"Use {OURS}.")
    return None if kind in _OUR_KINDS else _unknown(api_version, kind, _OUR_KINDS)


def _unknown(api_version: str, kind: str, known: tuple[str, ...]) -> Problem:
    near = nearest(kind, list(known))
    return _not_served(f"has no kind {kind} in {api_version}", f"Did you mean {near}?" if near else "Correct the kind.")


def _not_served(message: str, remedy: str) -> Problem:
    return Problem(validating.NOT_SERVED, ("apiVersion",), message, remedy)
