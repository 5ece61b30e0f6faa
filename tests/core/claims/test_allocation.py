"""What is kept of a claim says the same as all of it, and is small."""

import json
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import DRIVER, claim, config, hostile, interval_config, json_values, result, time_slicing
from gpusharing.api import strict_json
from gpusharing.api.dra import ResourceClaim
from gpusharing.api.sharing.device_settings import DeviceSettings
from gpusharing.api.sharing.node_spec import PolicyReference
from gpusharing.core.claims import allocation
from gpusharing.core.claims.settings import SettingsError, resolve
from gpusharing.kube.kinds import RESOURCE_CLAIMS

THIRDS = PolicyReference(name="thirds", generation=3)


@pytest.mark.parametrize(
    ("configs", "digest"),
    [
        ([], "b6acccbf0312e7e0"),
        (
            [
                config(interval_config("Short"), requests=["gpu"]),
                config({"x": [1.5, None, "é\ud800"]}, source="FromClass"),
            ],
            "cf9a4480db51d2df",
        ),
        ([config([[[[]]]])], "c24fe06efd283e99"),
        ([config({"a": json_values.nested(200)})], "0f2c84ed9b4e3d26"),
    ],
    ids=["no config", "two configs", "a list", "deep"],
)
def test_agents_and_operators_of_other_versions_name_an_allocation_alike(configs: Any, digest: str) -> None:
    results = [
        result("gpu-0-timeslicing", share_id="a", consumed={"shares": "1", "memory": "8Gi"}),
        result("gpu-1", request="b/x", admin_access=True),
        result("nic", driver="other"),
    ]
    item = claim("c", *results, configs=configs)
    assert allocation.digest(item, DRIVER) == digest
    assert allocation.digest(allocation.kept(item, DRIVER), DRIVER) == digest


def said(item: ResourceClaim) -> list[DeviceSettings | str]:
    found: list[DeviceSettings | str] = []
    for one in allocation.results(item, DRIVER):
        try:
            found.append(resolve(one, allocation.configs(item, DRIVER), time_slicing(4), THIRDS))
        except SettingsError as error:
            found.append(str(error))
    return found


written = json_values.values | st.sampled_from([*map(strict_json.loads, hostile.RAW.values()), hostile.PARAMETERS])


@given(st.lists(st.builds(config, written, driver=st.sampled_from([DRIVER, "other"])), max_size=3))
def test_what_is_kept_says_the_same(configs: Any) -> None:
    item = claim("c", result("gpu-0"), result("nic", driver="other"), result("gpu-1-timeslicing"), configs=configs)
    kept = allocation.kept(item, DRIVER)
    assert said(kept) == said(item)
    assert allocation.digest(kept, DRIVER) == allocation.digest(item, DRIVER)
    assert allocation.kept(kept, DRIVER) == kept
    assert [one.driver for one in allocation.results(kept, DRIVER)] == [DRIVER, DRIVER]


def test_a_claim_that_holds_nothing_of_ours_is_allocated_still() -> None:
    kept = allocation.kept(claim("c", result(driver="other"), configs=[config({}, driver="other")]), DRIVER)
    assert kept.status.allocation is not None
    assert (kept.status.allocation.devices.results, kept.status.allocation.devices.config) == ((), ())


def size(value: Any, seen: set[int]) -> int:
    """Of all objects that are reached from it, classes left out."""
    if id(value) in seen or isinstance(value, type):
        return 0
    seen.add(id(value))
    inside: list[Any] = []
    if isinstance(value, dict):
        inside += [*value, *value.values()]
    elif isinstance(value, tuple | list):
        inside += value
    elif hasattr(value, "__dict__"):
        inside += vars(value).values()
    for type_ in type(value).__mro__:
        inside += [getattr(value, name, None) for name in vars(type_).get("__slots__", ())]
    return sys.getsizeof(value) + sum(size(item, seen) for item in inside)


LISTS = '{"a":[' + ",".join(['{"b":[]}'] * 1120) + "]}"
MEBIBYTE = 2**20


def hostile_claims() -> dict[str, dict[str, Any]]:
    """Each of about 1 MiB, in one of the ways to have it."""
    result_ = {"request": "r", "driver": DRIVER, "pool": "n1", "device": "gpu-0-timeslicing"}
    tolerations = [{"key": f"{'k' * 200}{number}", "value": "v" * 63, "operator": "Equal"} for number in range(16)]
    opaque = {"driver": DRIVER, "parameters": json.loads(LISTS)}
    named = [f"{'n' * 60}{number}" for number in range(32)]
    selectors = [{"cel": {"expression": "x" * 10_000}}] * 32
    metadata = {"name": "c", "namespace": "n", "uid": "u", "resourceVersion": "1"}
    return {
        "annotations": {"metadata": metadata | {"annotations": {"a": "😀" + "x" * MEBIBYTE}}},
        "the name of the pod's claim": {
            "metadata": metadata | {"annotations": {"resource.kubernetes.io/pod-claim-name": "x" * MEBIBYTE}}
        },
        "labels": {"metadata": metadata | {"labels": {f"l{number}": "x" * 63 for number in range(15_000)}}},
        "finalizers": {"metadata": metadata | {"finalizers": [f"a/{number}" for number in range(50_000)]}},
        "owners": {
            "metadata": metadata
            | {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}] * 20_000}
        },
        "an owner": {
            "metadata": metadata
            | {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p" * MEBIBYTE, "uid": "u" * MEBIBYTE}]}
        },
        "selectors": {
            "metadata": metadata,
            "spec": {
                "devices": {
                    "requests": [
                        {"name": "r", "exactly": {"deviceClassName": "x", "selectors": selectors, "tolerations": []}}
                    ]
                    * 4
                }
            },
        },
        "configs of ours": {
            "metadata": metadata,
            "status": {
                "allocation": {
                    "devices": {
                        "results": [result_ | {"tolerations": tolerations}] * 32,
                        "config": [{"source": "FromClaim", "requests": named, "opaque": opaque}] * 64,
                    }
                }
            },
        },
        "configs and devices of others": {
            "metadata": metadata,
            "status": {
                "allocation": {
                    "devices": {
                        "results": [result_ | {"driver": "other"}] * 32,
                        "config": [{"source": "FromClaim", "requests": named, "opaque": opaque | {"driver": "other"}}]
                        * 64,
                    }
                },
                "devices": [{"driver": "other", "data": json.loads(LISTS)}] * 32,
            },
        },
    }


@pytest.mark.parametrize("value", hostile_claims().values(), ids=hostile_claims())
def test_a_claim_of_a_mebibyte_takes_a_tenth_of_that_at_most(value: dict[str, Any]) -> None:
    read: ResourceClaim = RESOURCE_CLAIMS.from_json(strict_json.loads(json.dumps(value)))
    assert size(allocation.kept(read, DRIVER), set()) < MEBIBYTE / 10
