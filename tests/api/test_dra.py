"""The partial types of resource.k8s.io and core, decoded as the API server sends them."""

import json
from dataclasses import replace
from typing import Any

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import json_values
from gpusharing.api import dra, strict_json
from gpusharing.api.meta import LabelledMeta, NamespaceMeta, WholeMeta


def decode(type_: type, value: Any) -> Any:
    return pydantic.TypeAdapter(type_).validate_python(strict_json.loads(json.dumps(value).encode()))


CLAIM = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "c1", "namespace": "team", "uid": "u1", "managedFields": [{"manager": "kubectl"}]},
    "spec": {
        "devices": {
            "requests": [
                {"name": "gpu", "exactly": {"deviceClassName": "a", "count": 2}},
                {"name": "other", "firstAvailable": [{"name": "big", "deviceClassName": "b"}]},
            ]
        }
    },
    "status": {
        "reservedFor": [{"resource": "pods", "name": "p", "uid": "u2"}],
        "allocation": {
            "allocationTimestamp": "2026-11-18T12:00:00Z",
            "nodeSelector": {"nodeSelectorTerms": []},
            "devices": {
                "results": [
                    {
                        "request": "gpu/big",
                        "driver": "gpu.nvidia.com",
                        "pool": "n1",
                        "device": "gpu-0-timeslicing",
                        "shareID": "7ae4",
                        "adminAccess": True,
                        "consumedCapacity": {"shares": "1", "memory": "0"},
                        "bindingConditions": None,
                        "tolerations": [{"operator": "Exists"}],
                    }
                ],
                "config": [
                    {
                        "source": "FromClaim",
                        "requests": ["gpu"],
                        "opaque": {"driver": "gpu.nvidia.com", "parameters": {"b": None, "a": [1]}},
                    }
                ],
            },
        },
        "devices": [{"driver": "other", "device": "nic-0", "data": {"x": None}}],
    },
}


def test_a_claim_and_what_is_not_read_of_it() -> None:
    assert decode(dra.ResourceClaim, CLAIM) == dra.ResourceClaim(
        metadata=dra.ClaimMeta(name="c1", namespace="team", uid="u1"),
        spec=dra.ResourceClaimSpec(
            devices=dra.DeviceClaim(
                requests=(
                    dra.DeviceRequest(exactly=dra.Wish(device_class_name="a")),
                    dra.DeviceRequest(first_available=(dra.Wish(device_class_name="b"),)),
                )
            )
        ),
        status=dra.ResourceClaimStatus(
            reserved_for=(dra.ResourceClaimConsumer(resource="pods", name="p", uid="u2"),),
            allocation=dra.Allocation(
                allocation_timestamp="2026-11-18T12:00:00Z",
                devices=dra.DeviceAllocation(
                    results=(
                        dra.AllocationResult(
                            request="gpu/big",
                            driver="gpu.nvidia.com",
                            pool="n1",
                            device="gpu-0-timeslicing",
                            share_id="7ae4",
                            admin_access=True,
                            consumed_capacity={"shares": "1", "memory": "0"},
                            tolerations=(dra.Toleration(operator="Exists"),),
                        ),
                    ),
                    config=(
                        dra.AllocationConfig(
                            source="FromClaim",
                            requests=("gpu",),
                            opaque=dra.OpaqueConfig(driver="gpu.nvidia.com", parameters={"b": None, "a": [1]}),
                        ),
                    ),
                ),
            ),
            devices=({"driver": "other", "device": "nic-0", "data": {"x": None}},),
        ),
    )


RESULT = {"request": "g", "driver": "d", "pool": "p", "device": "gpu-0"}
NULL_RESULT = {"shareID": None, "adminAccess": None, "consumedCapacity": None}


@pytest.mark.parametrize(
    ("type_", "absent", "null"),
    [
        pytest.param(
            WholeMeta,
            {"name": "x"},
            {
                "name": "x",
                "labels": None,
                "annotations": None,
                "finalizers": None,
                "ownerReferences": None,
                "deletionTimestamp": None,
            },
            id="metadata",
        ),
        pytest.param(dra.AllocationResult, RESULT, RESULT | NULL_RESULT, id="result"),
        pytest.param(
            dra.AllocationConfig,
            {"source": "FromClass"},
            {"source": "FromClass", "requests": None, "opaque": None},
            id="config",
        ),
        pytest.param(dra.DeviceAllocation, {}, {"results": None, "config": None}, id="devices"),
        pytest.param(dra.ResourceClaimStatus, {}, {"allocation": None, "devices": None}, id="claim status"),
        pytest.param(
            dra.DeviceClassSpec, {}, {"selectors": None, "config": None, "extendedResourceName": None}, id="class"
        ),
        pytest.param(dra.PodSpec, {}, {"resourceClaims": None}, id="pod"),
    ],
)
def test_null_is_absent_as_go_writes_it(type_: type, absent: dict[str, Any], null: dict[str, Any]) -> None:
    assert decode(type_, null) == decode(type_, absent)


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (dra.ResourceClaim, {"metadata": {"name": "x"}}),
        (dra.DeviceClass, {"metadata": {"name": "x"}, "spec": {}}),
        (dra.ResourceSlice, {"metadata": {"name": "x"}, "spec": {"pool": {"name": "n1"}}}),
        (dra.Node, {"metadata": {"name": "x"}, "spec": {}, "status": {}}),
        (dra.Namespace, {"metadata": {"name": "x"}, "spec": {"finalizers": ["kubernetes"]}}),
        (dra.Pod, {"metadata": {"name": "x"}, "spec": {"containers": []}}),
    ],
)
def test_the_smallest_objects_and_unknown_fields(type_: type, value: dict[str, Any]) -> None:
    plain = decode(type_, value)
    assert plain.metadata.name == "x"
    assert decode(type_, value | {"apiVersion": "v9", "unknown": [1]}) == plain


def test_a_slice_is_kept_as_it_was_read() -> None:
    spec = {"pool": {"name": "n1", "generation": 3}, "unknown": {"deep": [None]}}
    assert decode(dra.ResourceSlice, {"metadata": {"name": "x"}, "spec": spec}).spec == spec


def test_repeated_keys_of_opaque_parameters_are_still_known_after_decoding() -> None:
    text = '{"source":"FromClaim","opaque":{"driver":"d","parameters":{"a":{"b":1,"b":2}}}}'
    config = pydantic.TypeAdapter(dra.AllocationConfig).validate_python(strict_json.loads(text))
    assert config.opaque is not None
    assert strict_json.repeated_keys(config.opaque.parameters) == ["a.b"]


@given(json_values.values)
def test_opaque_parameters_may_be_anything(parameters: Any) -> None:
    read = decode(dra.OpaqueConfig, {"driver": "d", "parameters": parameters})
    assert json.dumps(read.parameters) == json.dumps(parameters)


POD = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}


@pytest.mark.parametrize(
    ("owners", "kept"),
    [
        ([POD | {"controller": True}], ["p"]),
        ([POD | {"name": f"p{number}"} for number in range(100)], [f"p{number}" for number in range(8)]),
        ([POD | {"apiVersion": "nosuch.example/v1"}, POD], ["p"]),
        ([POD | {"kind": "Deployment", "apiVersion": "apps/v1"}], []),
        ([POD | {"name": "a" * 254}], []),
        ([POD | {"name": "a.b-c.0"}], ["a.b-c.0"]),
        ([POD | {"uid": "u" * 254}], []),
        ([{}], []),
        (None, []),
    ],
)
def test_of_the_owners_of_a_claim_those_are_kept_that_can_be_pods(owners: Any, kept: list[str]) -> None:
    metadata = decode(dra.ClaimMeta, {"name": "c", "ownerReferences": owners})
    assert [owner.name for owner in metadata.owner_references] == kept
    assert replace(metadata, resource_version="2").owner_references == metadata.owner_references


def test_the_name_that_a_pod_gives_its_claim_stays_when_something_else_changes() -> None:
    annotations = {"resource.kubernetes.io/pod-claim-name": "gpus", "other": "x"}
    metadata = decode(dra.ClaimMeta, {"name": "c", "annotations": annotations})
    assert metadata.pod_claim_name == "gpus"
    assert replace(metadata, resource_version="2").pod_claim_name == "gpus"


@pytest.mark.parametrize(("count", "is_known"), [(0, True), (256, True), (257, False)])
def test_of_a_namespace_with_too_many_labels_none_is_kept(count: int, *, is_known: bool) -> None:
    labels = {f"l{number}": "x" for number in range(count)}
    metadata = decode(NamespaceMeta, {"name": "n", "labels": labels})
    assert metadata.labels == (labels if is_known else None)
    assert replace(metadata, resource_version="2").labels == metadata.labels


def test_one_name_of_many_labels_is_one_in_memory_and_values_are_let_go() -> None:
    """As is all else that differs from object to object."""
    texts = {"name": "the name", "uid": "the uid", "resourceVersion": "the version", "creationTimestamp": "the moment"}

    def read() -> LabelledMeta:
        value = json.loads(json.dumps(texts | {"labels": {"the-key": "the-value"}}))
        metadata: LabelledMeta = decode(LabelledMeta, value)
        return metadata

    one, other = read(), read()
    [(key, value)], [(other_key, other_value)] = one.labels.items(), other.labels.items()
    assert key is other_key
    assert value is not other_value
    assert one.name is not other.name
    assert one.uid is not other.uid
    assert one.resource_version is not other.resource_version
    assert one.creation_timestamp is not other.creation_timestamp


names = st.text(min_size=1, max_size=5)
string_maps = st.dictionaries(names, names, max_size=3)


@given(
    string_maps,
    string_maps,
    st.lists(names),
    st.lists(st.fixed_dictionaries({"kind": names, "controller": st.booleans()})),
)
def test_an_update_takes_nothing_away_that_others_put_there(
    labels: dict[str, str], annotations: dict[str, str], finalizers: list[str], owners: list[dict[str, Any]]
) -> None:
    stored = {
        "name": "x",
        "uid": "u",
        "resourceVersion": "7",
        "labels": labels,
        "annotations": annotations,
        "finalizers": finalizers,
        "ownerReferences": owners,
    }
    served_as_well = {"generation": 3, "creationTimestamp": "2026-11-18T12:00:00Z", "managedFields": [{}]}
    assert decode(WholeMeta, stored | served_as_well).for_update() == stored


@pytest.mark.parametrize(
    ("conditions", "since"),
    [
        (None, None),
        ([], None),
        ([{"type": "Ready", "status": "True", "lastTransitionTime": "t"}], None),
        ([{"type": "Ready", "status": "False", "lastTransitionTime": "t"}], "t"),
        (
            [
                {"type": "MemoryPressure", "status": "False"},
                {"type": "Ready", "status": "Unknown", "lastTransitionTime": "t"},
            ],
            "t",
        ),
    ],
)
def test_of_a_nodes_status_is_kept_since_when_it_is_not_ready(conditions: Any, since: str | None) -> None:
    value = {"metadata": {"name": "n1"}, "status": {"conditions": conditions, "images": ["many"]}}
    assert pydantic.TypeAdapter(dra.Node).validate_python(value).not_ready_since == since
