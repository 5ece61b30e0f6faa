"""A GPU that is held in two ways, on every API server that we support: whose pod goes, and what people are told.

The test is the scheduler that did it. The pods' deletion stays unfinished, since no kubelet ends them.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from building import DRIVER
from controller.bed import Everybody, Operator, eventually, everybody, install
from gpusharing.api.sharing.node_spec import Verdict
from gpusharing.kube.kinds import DEVICE_TAINT_RULES, DEVICE_TAINT_RULES_BETA, EVENTS, PODS, RESOURCE_CLAIMS, Kind
from harness.controlplane import ControlPlane

pytestmark = pytest.mark.cluster

RAW_PODS: Kind[Any] = Kind("v1", "Pod", "pods", dict[str, Any], namespaced=True)


@asynccontextmanager
async def cluster(control_plane: ControlPlane) -> AsyncIterator[Everybody]:
    """With the operator, and a node with one GPU."""
    async with control_plane:
        await install(control_plane)
        async with await Operator.of(control_plane), everybody(control_plane) as they:
            await they.make_node("n1")
            yield they


async def give(they: Everybody, name: str, device: str, at: str, *, tolerates: bool = False) -> None:
    """A pod with a claim that was allocated the device."""
    claim = await they.make_claim(name)
    container = {"name": "main", "image": "none", "resources": {"claims": [{"name": "gpu"}]}}
    pod = await they.api.create(
        PODS,
        {
            "metadata": {"name": name},
            "spec": {
                "nodeName": "n1",
                "containers": [container],
                "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
            },
        },
        "default",
    )
    result: dict[str, Any] = {"request": "gpu", "driver": DRIVER, "pool": "n1", "device": device}
    if tolerates:
        result["tolerations"] = [{"operator": "Exists"}]
    selector = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    status = {
        "allocation": {
            "allocationTimestamp": at,
            "devices": {"results": [result]},
            "nodeSelector": {"nodeSelectorTerms": [selector]},
        },
        "reservedFor": [{"resource": "pods", "name": name, "uid": pod.metadata.uid}],
    }
    protected = {"metadata": {"finalizers": ["resource.kubernetes.io/delete-protection"]}}
    await they.api.merge_patch(RESOURCE_CLAIMS, claim.metadata.name, protected, namespace="default")
    await they.api.merge_patch(
        RESOURCE_CLAIMS, claim.metadata.name, {"status": status}, namespace="default", subresource="status"
    )


async def going(they: Everybody) -> list[str]:
    """Pods that are being deleted, and why."""
    pods, _ = await they.api.list(RAW_PODS)
    return [
        f"{pod['metadata']['name']} {condition['reason']}"
        for pod in pods
        if "deletionTimestamp" in pod["metadata"]
        for condition in pod["status"]["conditions"]
        if condition["type"] == "DisruptionTarget"
    ]


async def verdicts(they: Everybody) -> dict[str, Verdict]:
    return {entry.claim: entry.verdict for entry in (await they.sharing("n1")).spec.claims}


async def test_the_later_one_is_evicted_and_comes_back_when_there_is_room(toolchain: object) -> None:
    control_plane = ControlPlane()
    async with cluster(control_plane) as they:
        await give(they, "first", "gpu-0-timeslicing", "2026-11-18T12:00:00Z")
        await give(they, "second", "gpu-0-timeslicing", "2026-11-18T12:00:02Z")
        await eventually(lambda: verdicts(they), dict.fromkeys(("default/first", "default/second"), Verdict.ALLOWED))
        await give(they, "late", "gpu-0", "2026-11-18T12:00:01Z")
        await eventually(lambda: going(they), ["late DeletionByDeviceTaintManager"])
        # The rule and the verdict are two writes, in no order.
        both = dict.fromkeys(("default/first", "default/second"), Verdict.ALLOWED)
        await eventually(lambda: verdicts(they), both | {"default/late": Verdict.DENIED})
        [rule], _ = await they.api.list(DEVICE_TAINT_RULES)
        assert rule.spec.device_selector == {"driver": DRIVER, "pool": "n1", "device": "gpu-0"}

        async def rules() -> int:
            return len((await they.api.list(DEVICE_TAINT_RULES))[0])

        # As a kubelet does when the containers have ended.
        await control_plane.kubectl("delete", "pod", "late", "--force", "--grace-period=0")
        await eventually(rules, 0)
        assert await going(they) == []
        await eventually(lambda: verdicts(they), both)


async def test_on_1_36_the_rule_is_a_beta(toolchain: object) -> None:
    """That is all that can be seen here: the controller manager, which only behaves as one of 1.36, waits for v1."""
    control_plane = ControlPlane(
        emulated_version="1.36",
        runtime_config="resource.k8s.io/v1beta2=true",
        feature_gates={"DRADeviceTaintRules": True},
    )
    async with cluster(control_plane) as they:

        async def tainted() -> list[str]:
            return [rule.spec.device_selector["device"] for rule in (await they.api.list(DEVICE_TAINT_RULES_BETA))[0]]

        await give(they, "first", "gpu-0-timeslicing", "2026-11-18T12:00:00Z")
        await give(they, "late", "gpu-0", "2026-11-18T12:00:01Z")
        await eventually(tainted, ["gpu-0"])
        await control_plane.kubectl("delete", "pod", "first", "--force", "--grace-period=0")
        await eventually(tainted, [])


@pytest.mark.parametrize("tolerates", [False, True])
async def test_where_nobody_can_be_evicted_people_are_told_whom_to_delete(
    toolchain: object, *, tolerates: bool
) -> None:
    control_plane = ControlPlane() if tolerates else ControlPlane(emulated_version="1.36")
    async with cluster(control_plane) as they:
        await give(they, "first", "gpu-0-timeslicing", "2026-11-18T12:00:00Z")
        await give(they, "late", "gpu-0", "2026-11-18T12:00:01Z", tolerates=tolerates)

        async def told() -> list[str]:
            events, _ = await they.api.list(EVENTS)
            return sorted(
                f"{event['type']} {event['reason']} {event['regarding']['kind']} {event['regarding']['name']}"
                for event in events
                if event["reportingController"] == "gpusharing-operator" and event["regarding"]["kind"] != "NodeSharing"
            )

        await eventually(told, ["Warning ClaimDenied Pod late", "Warning ClaimDenied ResourceClaim late"])
        [entry] = [entry for entry in (await they.sharing("n1")).spec.claims if entry.verdict is Verdict.DENIED]
        assert entry.reason == (
            "device n1/gpu-0 conflicts with n1/gpu-0-timeslicing on the same GPU, which is allocated to claim "
            "default/first: delete pod late in namespace default"
        )
        assert await going(they) == []
