"""Objects as nobody should write them: valid ones, damaged in a few places, as JSON.

Names, uids and versions stay as they are, since no API server stores an object without; all the rest may be anything.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from hypothesis import strategies as st

from building import DRIVER, json_values

Path = tuple[str | int, ...]

_SCALARS: Final[Sequence[Any]] = (
    None, True, -1, 0, 1.5, 2**63 - 1, -(2**63), 1e308, "", " ", "x" * 70_000, "\ud800", "é\n\x00",
    "0", "1", "-1", "1e99", "1e-99", "9" * 5_000, "-5Gi", "5Gi", "0.0000001Gi", "99999999999Ti", "0%", "150%", "%",
    "gpu-0", "gpu-00", "gpu-1-timeslicing", "gpu-" + "9" * 5_000, f"gpu-0-mig-x-{'9' * 5_000}-0",
    "n1", "good-1", "good-1/", "good-1/good", "/", "//", "a/b/c", "good", "team", DRIVER, "TimeSlicing", "None",
    "2026-11-18T12:00:00Z", "0000-00-00T00:00:00Z", "9999-99-99T99:99:99Z", "2026-11-18T12:00:00+02:00",
    "true", "device.driver", "[" * 2_000, "(" * 9_000, "a" * 10_240, "[1,2].all(x, [1,2].all(y, [1,2].all(z, true)))",
    [], {}, [None], {"": None}, [[]], {"a": {"b": "c"}},
)  # fmt: skip
"""What has broken programs of this kind before."""

values: st.SearchStrategy[Any] = st.sampled_from(_SCALARS) | json_values.values | st.just(json_values.nested(300))

RAW: Final[Mapping[str, bytes]] = {
    "not UTF-8": b'{"a":"\xff"}',
    "half a character": b'{"a":"\xe2\x82"}',
    "a surrogate as UTF-8": b'{"a":"\xed\xa0\x80"}',
    "half a surrogate pair": b'{"a":"\\ud800"}',
    "a key that is not UTF-8": b'{"\xff":1,"\xfe":2}',
    "deep": b"[" * 5_000 + b"]" * 5_000,
    "deep and not UTF-8": b"[" * 5_000 + b'"\xff"' + b"]" * 5_000,
    "an integer of many digits": b"9" * 10_000,
    "a negative one": b"-" + b"9" * 10_000,
    "a number without end": b"1e999999999",
    "keys that stand twice": b'{"a":1,"a":2}',
}
"""What the API server stores as it was sent, in opaque parameters, and Python's own reader stumbles over."""

_RESULT: Final = {
    "request": "gpu",
    "driver": DRIVER,
    "pool": "bad-1",
    "device": "gpu-0-timeslicing",
    "shareID": "7ae4",
    "adminAccess": False,
    "consumedCapacity": {"shares": "1", "memory": "8Gi", "threads": "10"},
    "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3}],
}
PARAMETERS: Final = {
    "apiVersion": "resource.nvidia.com/v1beta1",
    "kind": "GpuConfig",
    "sharing": {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Short"}},
}
_CONDITION: Final = {
    "type": "Ready",
    "status": "True",
    "reason": "Ready",
    "message": "",
    "lastTransitionTime": "2026-11-18T12:00:00Z",
}

POLICY: Final[dict[str, Any]] = {
    "metadata": {"generation": 1, "labels": {"a": "b"}},
    "spec": {
        "priority": 7,
        "nodes": {
            "matchLabels": {"pool": "bad"},
            "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}],
        },
        "gpus": {
            "maxPerNode": "50%",
            "selectors": [{"cel": {"expression": 'device.attributes["gpu.nvidia.com"].architecture == "Hopper"'}}],
        },
        "offers": {
            "exclusive": {},
            "timeSlicing": {"maxClients": 4, "interval": "Short", "memory": {"default": "25%", "min": "1Gi"}},
            "mps": {"maxClients": 8, "memory": {"default": "8Gi", "max": "20Gi"}, "threads": {"default": 25, "min": 5}},
            "mig": {"profiles": ["1g.10gb"]},
        },
        "tenants": {
            "namespaces": {"matchLabels": {"team": "bad"}},
            "allow": {"gpuConfig": ["MPS"], "intervals": [], "maxThreads": 5, "maxMemory": "1Gi", "maxShares": 1},
            "quota": {"timeSlicing": 3},
        },
        "classes": {"create": True, "extendedResources": {"timeSlicing": "example.com/shared"}},
        "rollout": {"disruption": "Evict", "maxUnavailable": "10%", "mode": "Apply", "paused": False},
    },
    "status": {"observedGeneration": 1, "conditions": [_CONDITION], "nodes": {"selected": 1, "ready": 1}},
}
CLAIM: Final[dict[str, Any]] = {
    "metadata": {"namespace": "team", "creationTimestamp": "2026-11-18T12:00:00Z", "labels": {}},
    "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "bad-timeslicing"}}]}},
    "status": {
        "allocation": {
            "allocationTimestamp": "2026-11-18T12:00:00Z",
            "devices": {
                "results": [_RESULT],
                "config": [
                    {
                        "source": "FromClaim",
                        "requests": ["gpu"],
                        "opaque": {"driver": DRIVER, "parameters": PARAMETERS},
                    }
                ],
            },
        },
        "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}],
        "devices": [{"driver": DRIVER, "pool": "bad-1", "device": "gpu-0", "conditions": [_CONDITION]}],
    },
}
NODE_SHARING: Final[dict[str, Any]] = {
    "metadata": {"generation": 2},
    "spec": {
        "gpus": [
            {
                "uuid": "GPU-bad",
                "policy": {"name": "bad", "generation": 1},
                "losers": [{"policy": "x", "reason": "LowerPriority"}],
                "offers": {"timeSlicing": {"maxClients": 4}},
                "restricted": True,
                "allow": {"maxMemory": "1Gi"},
                "drain": {"mode": "Evict"},
                "allocated": [{"claim": "u", "device": "gpu-0"}],
                "closeApproved": ["gpu-0"],
            }
        ],
        "claims": [{"uid": "u", "claim": "team/c", "allocationHash": "h", "verdict": "Denied", "reason": "r"}],
    },
    "status": {
        "observedGeneration": 2,
        "bootID": "b",
        "gpus": [
            {
                "uuid": "GPU-bad",
                "slot": 0,
                "minor": 0,
                "model": "NVIDIA H100 80GB HBM3",
                "memory": "81559Mi",
                "migProfiles": ["1g.10gb"],
                "instances": [{"profile": "1g.10gb", "start": 0}],
                "attributes": {
                    "architecture": {"string": "Hopper"},
                    "driverVersion": {"version": "580.0.0"},
                    "index": {"int": 0},
                    "healthy": {"bool": True},
                },
                "policy": {"name": "bad", "generation": 1},
                "memoryWall": {"supported": False, "reason": "r"},
                "published": [{"device": "gpu-0", "closingSince": "2026-11-18T12:00:00Z"}],
                "conditions": [_CONDITION],
            }
        ],
        "claims": [{"uid": "u", "claim": "team/c", "settings": [{"request": "gpu", "device": "gpu-0-timeslicing"}]}],
        "conditions": [_CONDITION],
    },
}
NODE: Final[dict[str, Any]] = {"metadata": {"labels": {"pool": "bad", "a": "b"}}}
NAMESPACE: Final[dict[str, Any]] = {"metadata": {"labels": {"team": "bad"}}}
DEVICE_CLASS: Final[dict[str, Any]] = {
    "metadata": {
        "labels": {"gpusharing.dev/policy": "bad"},
        "ownerReferences": [{"kind": "SharingPolicy", "uid": "u"}],
    },
    "spec": {
        "selectors": [{"cel": {"expression": "true"}}],
        "config": [{"opaque": {"driver": DRIVER, "parameters": PARAMETERS}}],
        "extendedResourceName": "example.com/shared",
    },
}
TAINT_RULE: Final[dict[str, Any]] = {
    "metadata": {"labels": {"app.kubernetes.io/managed-by": "gpusharing-operator"}},
    "spec": {
        "deviceSelector": {"driver": DRIVER, "pool": "bad-1", "device": "gpu-0"},
        "taint": {"key": "gpusharing.dev/conflict", "effect": "NoExecute"},
    },
}
QUOTA: Final[dict[str, Any]] = {
    "metadata": {
        "namespace": "team",
        "labels": {"gpusharing.dev/policy": "bad"},
        "ownerReferences": [
            {"apiVersion": "gpusharing.dev/v1alpha1", "kind": "SharingPolicy", "name": "bad", "uid": "u"}
        ],
    },
    "spec": {"hard": {"bad-timeslicing.deviceclass.resource.k8s.io/devices": "3"}},
    "status": {"hard": {}, "used": {"bad-timeslicing.deviceclass.resource.k8s.io/devices": "1"}},
}
TEMPLATE: Final[dict[str, Any]] = {
    "metadata": {
        "namespace": "team",
        "labels": {"gpusharing.dev/policy": "bad"},
        "ownerReferences": [{"apiVersion": "v1", "kind": "SharingPolicy", "name": "bad", "uid": "u"}],
    },
    "spec": {
        "metadata": {"labels": {"a": "b"}},
        "spec": {
            "devices": {
                "requests": [
                    {
                        "name": "gpu",
                        "exactly": {
                            "deviceClassName": "bad-mps",
                            "selectors": [{"cel": {"expression": "true"}}],
                            "allocationMode": "ExactCount",
                            "count": 1,
                            "adminAccess": False,
                            "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute"}],
                            "capacity": {"requests": {"memory": "8Gi"}},
                        },
                    },
                    {"name": "other", "firstAvailable": [{"name": "a", "deviceClassName": "bad-mps"}]},
                ],
                "constraints": [{"requests": [], "matchAttribute": "a.b/c"}],
                "config": [{"requests": [], "opaque": {"driver": DRIVER, "parameters": PARAMETERS}}],
            }
        },
    },
}


@st.composite
def damaged(draw: st.DrawFn, body: Mapping[str, Any]) -> dict[str, Any]:
    """In up to three places; what is in the metadata keeps its shape, as every API server sees to that."""
    result: dict[str, Any] = copy.deepcopy(dict(body))
    for _ in range(draw(st.sampled_from([1, 1, 1, 2, 3]))):
        paths = [path for path in _paths(result) if path[0] != "metadata"]
        labels = [path for path in _paths(result) if path[:2] == ("metadata", "labels") and len(path) == 3]
        if labels and (not paths or draw(st.integers(0, 5)) == 0):
            _put(result, draw(st.sampled_from(labels)), draw(st.text(max_size=63)))
        elif paths:
            path = draw(st.sampled_from(paths))
            match draw(st.integers(0, 6)):
                case 0:
                    _put(result, path, _REMOVED)
                case 1:
                    twice = _at(result, path[:-1])
                    if isinstance(twice, list):
                        twice.append(copy.deepcopy(_at(result, path)))
                    else:
                        twice[draw(st.sampled_from(["", "x", "0", "a/b"]))] = copy.deepcopy(draw(values))
                case 2:
                    _put(result, path, draw(values))
                case _:
                    _put(result, path, draw(_like(_at(result, path))))
    return result


def _like(value: Any) -> st.SearchStrategy[Any]:
    """Of the same type, so that the object may still be read."""
    alike = [scalar for scalar in _SCALARS if type(scalar) is type(value)]
    return st.sampled_from(alike) if alike else values


_REMOVED: Final = object()


def _paths(value: Any, path: Path = ()) -> Iterator[Path]:
    items: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in items:
        yield (*path, key)
        if len(path) < 12:
            yield from _paths(child, (*path, key))


def _at(value: Any, path: Path) -> Any:
    for key in path:
        value = value[key]
    return value


def _put(value: Any, path: Path, new: Any) -> None:
    parent = _at(value, path[:-1])
    if new is _REMOVED:
        del parent[path[-1]]
    else:
        parent[path[-1]] = copy.deepcopy(new)
