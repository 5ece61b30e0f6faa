"""Our own objects, as they are sent and read again."""

import json
from typing import Any

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import NOW, gpu_status
from gpusharing.api import strict_json
from gpusharing.api.base import ApiModel
from gpusharing.api.meta import (
    Condition,
    ConditionStatus,
    LabelSelector,
    LabelSelectorRequirement,
    ObjectMeta,
    WholeMeta,
)
from gpusharing.api.sharing.device_settings import DeviceSettings, SettingSources
from gpusharing.api.sharing.gpu_status import GpuStatus, PublishedDevice
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.api.sharing.node_spec import (
    ClaimSharing,
    GpuSharing,
    Loser,
    LossReason,
    NodeSharingSpec,
    PolicyReference,
    Verdict,
)
from gpusharing.api.sharing.node_status import NodeSharingStatus
from gpusharing.api.sharing.offers import ExclusiveOffer, Interval, Offers, TimeSlicingOffer
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.api.sharing.policy_spec import GpuSelection, SharingPolicySpec
from gpusharing.api.sharing.policy_status import ClientCount, GpuCount, NodeCount, SharingPolicyStatus
from gpusharing.core.quantities import mebibytes
from gpusharing.core.timestamps import seconds

text = st.text(min_size=1, max_size=8)
counts = st.integers(min_value=0, max_value=1_000)
_metadata: Any = {
    "name": text,
    "uid": text,
    "resource_version": text,
    "generation": counts,
    "deletion_timestamp": st.none() | st.just(NOW),
}
metadata = st.builds(ObjectMeta, **_metadata)
whole_metadata = st.builds(
    WholeMeta,
    **_metadata,
    labels=st.dictionaries(text, text, max_size=2),
    finalizers=st.lists(text, max_size=2).map(tuple),
)
# Spelled out: hypothesis cannot see the fields of a type that pydantic has not built yet.
conditions = st.lists(
    st.builds(
        Condition,
        type=text,
        status=st.sampled_from(ConditionStatus),
        reason=text,
        message=st.text(max_size=8),
        observed_generation=st.none() | counts,
        last_transition_time=st.just(NOW),
    ),
    max_size=2,
).map(tuple)
offers = st.builds(
    Offers,
    exclusive=st.none() | st.just(ExclusiveOffer()),
    time_slicing=st.none()
    | st.builds(
        TimeSlicingOffer,
        max_clients=st.integers(min_value=2, max_value=256),
        interval=st.sampled_from(Interval),
    ),
)
selectors = st.builds(
    LabelSelector,
    match_labels=st.dictionaries(text, text, max_size=2),
    match_expressions=st.lists(
        st.builds(
            LabelSelectorRequirement,
            key=text,
            operator=st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
            values=st.lists(text, max_size=2).map(tuple),
        ),
        max_size=2,
    ).map(tuple),
)
specs = st.builds(
    SharingPolicySpec,
    priority=st.integers(min_value=-1_000_000, max_value=1_000_000),
    nodes=selectors,
    gpus=st.builds(GpuSelection, max_per_node=st.none() | st.integers(min_value=1, max_value=64) | st.just("50%")),
    offers=offers,
)
statuses = st.builds(
    SharingPolicyStatus,
    observed_generation=st.none() | counts,
    conditions=conditions,
    nodes=st.none() | st.builds(NodeCount, selected=counts, ready=counts),
    gpus=st.none() | st.builds(GpuCount, won=counts, lost=counts),
    clients=st.none() | st.builds(ClientCount, current=counts, max=counts),
)
policies = st.builds(SharingPolicy, metadata=metadata, spec=specs, status=statuses)

references = st.none() | st.builds(PolicyReference, name=text, generation=counts)
settings = st.builds(
    DeviceSettings,
    request=text,
    device=text,
    interval=st.none() | st.sampled_from(Interval),
    sources=st.none() | st.builds(SettingSources, interval=st.none() | text),
    ignored=st.lists(text, max_size=2).map(tuple),
)
node_specs = st.builds(
    NodeSharingSpec,
    gpus=st.lists(
        st.builds(
            GpuSharing,
            uuid=text,
            policy=references,
            losers=st.lists(st.builds(Loser, policy=text, reason=st.sampled_from(LossReason)), max_size=2).map(tuple),
            offers=st.none() | offers,
        ),
        max_size=2,
    ).map(tuple),
    claims=st.lists(
        st.builds(
            ClaimSharing,
            uid=text,
            claim=text,
            allocation_hash=text,
            verdict=st.sampled_from(Verdict),
            reason=st.none() | text,
            settings=st.lists(settings, max_size=2).map(tuple),
        ),
        max_size=2,
    ).map(tuple),
)
node_statuses = st.builds(
    NodeSharingStatus,
    observed_generation=st.none() | counts,
    boot_id=st.none() | text,
    gpus=st.lists(
        st.builds(
            GpuStatus,
            uuid=text,
            slot=counts,
            minor=counts,
            model=text,
            memory=st.integers(1, 10**6).map("{}Mi".format),
            attributes=st.dictionaries(
                text,
                st.fixed_dictionaries({"string": text})
                | st.fixed_dictionaries({"version": text})
                | st.fixed_dictionaries({"int": counts})
                | st.fixed_dictionaries({"bool": st.booleans()}),
                max_size=2,
            ),
            policy=references,
            time_slice=st.none() | st.sampled_from(Interval),
            conditions=conditions,
        ),
        max_size=2,
    ).map(tuple),
    conditions=conditions,
)
node_sharings = st.builds(NodeSharing, metadata=whole_metadata, spec=node_specs, status=node_statuses)


@given(policies)
def test_policies_survive_the_wire(policy: SharingPolicy) -> None:
    sent = strict_json.canonical(policy.to_json())
    assert b":null" not in sent
    assert SharingPolicy.model_validate(strict_json.loads(sent)) == policy
    assert SharingPolicy.model_validate_json(sent) == policy


@given(node_sharings)
def test_node_sharings_survive_the_wire(node_sharing: NodeSharing) -> None:
    sent = strict_json.canonical(node_sharing.to_json())
    assert b":null" not in sent
    assert NodeSharing.model_validate(strict_json.loads(sent)) == node_sharing
    assert NodeSharing.model_validate_json(sent) == node_sharing


@given(st.from_regex(r"[1-9][0-9]{0,13}(Mi|Gi|Ti)", fullmatch=True))
def test_what_a_status_says_of_memory_can_be_calculated_with(memory: str) -> None:
    status = GpuStatus(uuid="GPU-1", slot=0, minor=0, model="L4", memory=memory, attributes={})
    assert mebibytes(status.memory) > 0


@given(st.from_regex(r"[0-9]{4}(-[0-9]{2}){2}T[0-9]{2}(:[0-9]{2}){2}(\.[0-9]{1,9})?Z", fullmatch=True))
def test_what_a_status_says_of_time_can_be_calculated_with(moment: str) -> None:
    published = PublishedDevice(device="gpu-0", closing_since=moment)
    assert isinstance(seconds(published.closing_since or ""), int)


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (PublishedDevice, {"device": "gpu-0", "closingSince": "2026-11-18T12:00:00+01:00"}),
        (PublishedDevice, {"device": "gpu-0", "closingSince": "yesterday"}),
        (PublishedDevice, {"device": "gpu-0", "closingSince": f"2026-11-18T12:00:00.{'0' * 5000}Z"}),
        (GpuStatus, {"uuid": "GPU-1", "slot": 0, "minor": 0, "model": "L4", "memory": "80G"}),
        (GpuStatus, {"uuid": "GPU-1", "slot": 0, "minor": 0, "model": "L4", "memory": "01Mi"}),
        (GpuStatus, {"uuid": "GPU-1", "slot": 0, "minor": 0, "model": "L4", "memory": f"{'9' * 5000}Mi"}),
    ],
)
def test_what_nobody_could_calculate_with_is_refused(model: type[ApiModel], told: Any) -> None:
    with pytest.raises(pydantic.ValidationError):
        model.model_validate(told)


def test_names_on_the_wire() -> None:
    """Spelled out once, because a renamed field would still survive the way there and back."""
    settings_ = DeviceSettings(request="g", device="gpu-0", sources=SettingSources(interval="claim"))
    entry = ClaimSharing(uid="u", claim="ns/c", allocation_hash="h", verdict=Verdict.ALLOWED, settings=(settings_,))
    assert entry.to_json() == {
        "uid": "u",
        "claim": "ns/c",
        "allocationHash": "h",
        "verdict": "Allowed",
        "settings": [{"request": "g", "device": "gpu-0", "from": {"interval": "claim"}, "ignored": []}],
    }
    assert NodeSharingStatus(boot_id="b").to_json()["bootID"] == "b"
    spec = SharingPolicySpec(offers=Offers(time_slicing=TimeSlicingOffer(max_clients=4)))
    assert spec.to_json() == {
        "priority": 0,
        "nodes": {"matchLabels": {}, "matchExpressions": []},
        "gpus": {"selectors": []},
        "offers": {"timeSlicing": {"maxClients": 4, "interval": "Default", "transparent": False}},
        "tenants": {"namespaces": {"matchLabels": {}, "matchExpressions": []}, "allow": {}},
        "classes": {"create": True, "extendedResources": {}, "templates": False, "templateVariants": []},
        "rollout": {"disruption": "WaitForIdle", "maxUnavailable": 1, "mode": "Apply", "paused": False},
    }


def test_fields_of_a_newer_version_are_passed_over() -> None:
    stored = {"metadata": {"name": "x"}, "spec": {"offers": {"exclusive": {}, "teleporting": {}}, "rollout": {}}}
    assert SharingPolicy.model_validate_json(json.dumps(stored)).spec.offers == Offers(exclusive=ExclusiveOffer())


def test_what_gpus_have_in_common_is_kept_once() -> None:
    value = gpu_status(0).to_json()
    first, second = (GpuStatus.model_validate(value) for _ in range(2))
    assert first == second == gpu_status(0)
    assert first.attributes["architecture"] is second.attributes["architecture"]


def test_a_changed_copy_says_all_of_it() -> None:
    # Which fields an object was given is not kept.
    status = gpu_status(0)
    changed = status.model_copy(update={"memory": "1Gi"})
    assert changed.to_json() == status.to_json() | {"memory": "1Gi"}


def test_of_a_policy_it_is_known_which_fields_were_given() -> None:
    value = {"metadata": {"name": "a"}, "spec": {"offers": {"timeSlicing": {"maxClients": 4}}}}
    offers = SharingPolicy.model_validate(value).spec.offers
    assert offers.time_slicing
    assert offers.time_slicing.model_fields_set == {"max_clients"}
    assert offers.model_dump(by_alias=True, exclude_unset=True) == {"timeSlicing": {"maxClients": 4}}
