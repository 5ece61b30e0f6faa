"""Each finding of `doctor` is brought about on a real API server."""

import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final
from xml.etree import ElementTree as ET

import pytest

from agent.on_cluster import SHARINGS
from diagnosing.bed import DRIVER, HAS_GPUS, NODES, Bed, Diagnosed, condition, gpu_node
from explaining.bed import CLASSES, SLICES
from gpusharing import __version__
from harness.controlplane import ControlPlane
from harness.eventually import eventually
from harness.gpu_cluster import NAMESPACE

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="module")]

ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
GUARDS: Final = f"{ADMISSION}/validatingadmissionpolicies"
BINDINGS: Final = f"{ADMISSION}/validatingadmissionpolicybindings"
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ROLES: Final = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
DAEMON_SETS: Final = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets"
DEPLOYMENT: Final = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/gpusharing-operator"
JSON_PATCH: Final = "application/json-patch+json"


def finds(diagnosed: Diagnosed, expected: dict[str, str]) -> None:
    """Each code, with this in its sentence; and no other."""
    assert dict.fromkeys(expected, True) == {
        code: expected.get(code, "?") in diagnosed.said(code) for code in diagnosed.codes
    }, json.dumps(diagnosed.findings, indent=1)


# ---------------------------------------------------------------------------------------------- before the installation

BEFORE: Final = {
    "GSH0902": "The kubelet of node old is 1.35.4, and the oldest",
    "GSH0904": "kubelet 1.36.3 on node older has kubernetes#140274",
    "GSH0910": "containerd 1.6.20 on node old gives",
    "GSH0911": "containerd 1.7.27 on node older gives",
    "GSH0912": "publishes the GPUs of node other",
    "GSH0913": "offers nvidia.com/gpu, nvidia.com/mig-1g.10gb on nodes other, plugged",
    "GSH0914": "nvidia.com/mig.config of node other",
    "GSH0915": "GKE",
    "GSH0916": "no PodMonitors and PrometheusRules",
}


async def test_an_empty_cluster(bare_bed: Bed) -> None:
    before = await bare_bed.doctor("--pre")
    finds(before, {"GSH0909": "nvidia.com/gpu.present", "GSH0916": "no PodMonitors"})
    assert (before.exit, before.states["version"], before.states["feature-gates"]) == (0, "Well", "Well")
    assert (await bare_bed.doctor("--pre", "--strict")).exit == 1
    after = await bare_bed.doctor()
    finds(after, {"GSH0919": "There is no gpu-sharing in this cluster."})
    assert after.exit == 1


async def test_nodes_before_the_installation(bare_bed: Bed) -> None:
    old = {"kubeletVersion": "v1.35.4", "containerRuntimeVersion": "containerd://1.6.20"}
    older = {"kubeletVersion": "v1.36.3-gke.7", "containerRuntimeVersion": "containerd://1.7.27"}
    nodes = [
        gpu_node("old", info=old),
        gpu_node("older", info=older, labels={"cloud.google.com/gke-accelerator": "nvidia-h100"}),
        gpu_node(
            "other",
            labels=HAS_GPUS | {"nvidia.com/mig.config": "all-1g.10gb", "nvidia.com/gpu.deploy.driver": "true"},
            offers={"nvidia.com/mig-1g.10gb": "7"},
        ),
        gpu_node("plugged", offers={"nvidia.com/gpu": "8"}),
        gpu_node("without", labels={}, info=old, offers={"nvidia.com/gpu": "8"}),
    ]
    for node in nodes:
        await bare_bed.add_node(node)
    pool = {"name": "other", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": "other", "pool": pool, "devices": [{"name": "gpu-0"}]}
    await bare_bed.admin.call("POST", SLICES, {"metadata": {"generateName": "other-"}, "spec": spec})
    try:
        found = await bare_bed.doctor("--pre")
        finds(found, BEFORE)
        assert "nodes other are" not in found.said("GSH0915")
        assert "node other are looked after by NVIDIA's GPU operator" in found.said("GSH0915")
    finally:
        await bare_bed.admin.call("DELETE", SLICES)
        await bare_bed.admin.call("DELETE", "/api/v1/nodes")


OLD_SERVER: Final = {
    "GSH0907": "serves no DeviceTaintRules",
    "GSH0908": "Feature gate DRAConsumableCapacity is off",
    "GSH0909": "",
    "GSH0916": "",
}


async def test_an_api_server_that_lacks_something(bare_bed: Bed) -> None:
    async with ControlPlane(emulated_version="1.36", feature_gates={"DRAConsumableCapacity": False}) as control_plane:
        found = await Bed(control_plane, bare_bed.admin).doctor("--pre")
    finds(found, OLD_SERVER)
    assert found.exit == 1


# ---------------------------------------------------------------------------------------------------------- all is well

CHECKS: Final = {
    *("version", "scheduler", "api", "taint-rules", "feature-gates"),
    *("definitions", "classes", "operator", "versions", "lease", "rights"),
    *("guards", "guards-in-force", "daemonset", "reports", "gpus", "slices", "monitored"),
}


async def test_all_is_well(bed: Bed) -> None:
    found = await bed.doctor()
    finds(found, {})
    assert found.exit == 0
    assert found.states == dict.fromkeys(CHECKS, "Well")

    _, text, _ = await bed.run()
    assert "✓ Agents are ready on 5 of 5 nodes.\n✓ 5 agents reported, and none has a problem.\n" in text
    assert text.endswith("18 checks: 18 well\n")
    assert await bed.run("-o", "short") == (0, "", "")
    _, report, _ = await bed.run("-o", "junit")
    (suite,) = ET.fromstring(report)  # noqa: S314 (it is ours)
    assert (suite.attrib["tests"], suite.attrib["failures"]) == ("18", "0")


async def test_installed_already(bed: Bed) -> None:
    found = await bed.doctor("--pre")
    finds(found, {"GSH0918": f"Version {__version__} is installed in namespace {NAMESPACE}"})
    assert found.states["other-drivers"] == "Well"


async def test_nobody_monitors_it(bed: Bed) -> None:
    await bed.control_plane.kubectl("delete", "podmonitors", "--all", f"--namespace={NAMESPACE}")
    try:
        finds(await bed.doctor(), {"GSH0917": f"no PodMonitor in namespace {NAMESPACE}"})
    finally:
        await bed.monitor()


# -------------------------------------------------------------------------------------- what is not as it was installed

OBJECTS: Final = {
    "GSH0919": "There is no ValidatingAdmissionPolicy gpusharing-tolerations, "
    "ValidatingAdmissionPolicyBinding gpusharing-allocation.",
    "GSH0920": "sharingpolicies.gpusharing.dev is not the one",
    "GSH0922": "The operator is of version 0.0.1, and this command",
    "GSH0926": "gpusharing-system/gpusharing-agent may not create nodesharings.gpusharing.dev",
    "GSH0927": "ValidatingAdmissionPolicy gpusharing-pods is not as it was installed",
    "GSH0928": "gpusharing-allocation let pass",
    "GSH0929": "DeviceClass mig.nvidia.com selects",
}


async def test_objects_that_differ(bed: Bed) -> None:
    call, merge = bed.admin.call, bed.admin.merge
    await call("DELETE", f"{GUARDS}/gpusharing-tolerations")
    await call("DELETE", f"{BINDINGS}/gpusharing-allocation")
    await merge(f"{BINDINGS}/gpusharing-claims", {"spec": {"validationActions": ["Audit"]}})
    await merge(f"{GUARDS}/gpusharing-pods", {"spec": {"validations": [{"expression": "true"}]}})
    await merge(f"{CLASSES}/mig.nvidia.com", {"spec": {"selectors": [{"cel": {"expression": "true"}}]}})
    schema = "/spec/versions/0/schema/openAPIV3Schema/description"
    changed = [{"op": "replace", "path": schema, "value": "Another one."}]
    await call("PATCH", f"{DEFINITIONS}/sharingpolicies.gpusharing.dev", changed, content_type=JSON_PATCH)
    await merge(DEPLOYMENT, {"metadata": {"labels": {"app.kubernetes.io/version": "0.0.1"}}})
    role = await call("GET", f"{ROLES}/gpusharing-agent")
    first = [{"op": "replace", "path": "/rules/0/verbs", "value": ["get", "list", "watch"]}]
    await call("PATCH", f"{ROLES}/gpusharing-agent", first, content_type=JSON_PATCH)
    assert "create" in role["rules"][0]["verbs"]
    try:

        async def all_is_seen() -> None:
            # API servers take over a changed guard some time after the write.
            found = await bed.doctor()
            finds(found, OBJECTS)
            assert "Binding gpusharing-claims is not as it" in found.said("GSH0927")
            assert found.exit == 1

        await eventually(all_is_seen)
    finally:
        await bed.install()

    async def is_well_again() -> None:
        assert (await bed.doctor()).codes == set()

    await eventually(is_well_again)


async def test_definition_that_is_not_served(bed: Bed) -> None:
    path = f"{DEFINITIONS}/sharingpolicies.gpusharing.dev"
    served = [{"op": "replace", "path": "/spec/versions/0/served", "value": False}]
    await bed.admin.call("PATCH", path, served, content_type=JSON_PATCH)
    try:
        finds(
            await bed.doctor(), {"GSH0921": "does not serve sharingpolicies.gpusharing.dev: it has no version v1alpha1"}
        )
    finally:
        await bed.install()


# ----------------------------------------------------------------------------------------------- what does not run well

PROGRAMS: Final = {
    "GSH0924": "1 of 2 replicas of the operator are available.",
    "GSH0930": "No node takes pods of DaemonSet nowhere: none has label no=where.",
    "GSH0931": "The agents of node n0 do not run or are not ready: agent: ImagePullBackOff (no such image).",
    "GSH0932": "Node n1: DriverDown: the driver is away",
    "GSH0933": "n1/gpu-0: FatalXid: Xid 79",
    "GSH0934": "There is no NodeSharing with a status of node n2.",
    "GSH0935": "There are no ResourceSlices of node n3",
    "GSH0936": "Slices of pool n4 are missing",
}


@asynccontextmanager
async def another_daemon_set(bed: Bed) -> AsyncIterator[None]:
    labels = {"app.kubernetes.io/name": "gpusharing-agent", "of": "nowhere"}
    container = {"name": "agent", "image": "none"}
    body = {
        "metadata": {"name": "nowhere", "labels": labels},
        "spec": {
            "selector": {"matchLabels": {"of": "nowhere"}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"nodeSelector": {"no": "where"}, "containers": [container]},
            },
        },
    }
    await bed.admin.call("POST", DAEMON_SETS, body)
    try:
        yield
    finally:
        await bed.admin.call("DELETE", f"{DAEMON_SETS}/nowhere")


async def test_programs_that_do_not_run_well(bed: Bed) -> None:
    (replica, *_) = [one for one in await bed.pods() if one["metadata"]["name"].startswith("gpusharing-operator")]
    await bed.set_ready(replica, waiting={"reason": "CrashLoopBackOff"})
    await bed.set_ready(await bed.agent_of("n0"), waiting={"reason": "ImagePullBackOff", "message": "no such image"})
    down = condition("Ready", is_so=False, reason="DriverDown", message="the driver is away")
    await bed.report(
        "n1", problem=down, unhealthy=condition("Healthy", is_so=False, reason="FatalXid", message="Xid 79")
    )
    await bed.admin.call("DELETE", f"{SHARINGS}/n2")
    await bed.admin.call("DELETE", f"{SLICES}?fieldSelector=spec.nodeName%3Dn3")
    await bed.admin.call("DELETE", f"{SLICES}/00001-{DRIVER}-n4")
    async with another_daemon_set(bed):
        try:

            async def all_is_seen() -> None:
                finds(await bed.doctor(), PROGRAMS)

            await eventually(all_is_seen)
        finally:
            await bed.admin.call("DELETE", SLICES)
            for node in NODES:
                await bed.publish(node)
                await bed.report(node)
            await bed.all_ready()


LEADING: Final = {"GSH0923": "None of 2 replicas of the operator is available", "GSH0925": "has not renewed it for"}


async def test_nobody_leads(bed: Bed) -> None:
    """And `--wait` waits until somebody does."""
    for pod in await bed.pods():
        if pod["metadata"]["name"].startswith("gpusharing-operator"):
            await bed.set_ready(pod, waiting={"reason": "CrashLoopBackOff"})
    os.kill(bed.operator.pid, signal.SIGSTOP)
    try:

        async def all_is_seen() -> None:
            finds(await bed.doctor(), LEADING)

        await eventually(all_is_seen)
        assert (await bed.doctor("--wait", "1s")).exit == 1
        waiting = await bed.start("--wait", "2m", "-o", "short")
        assert waiting.stderr is not None
        assert await waiting.stderr.readline() == b"waiting: operator, lease\n"
    finally:
        os.kill(bed.operator.pid, signal.SIGCONT)
    await bed.operator.restart()
    await bed.all_ready()
    out, _ = await waiting.communicate()
    assert (waiting.returncode, out) == (0, b"")


async def test_the_lease_is_released_or_missing(bed: Bed) -> None:
    await bed.operator.stop()
    try:
        finds(await bed.doctor(), {"GSH0925": f"Nobody holds Lease {NAMESPACE}/gpusharing-operator"})
        lease = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/gpusharing-operator"
        await bed.admin.call("DELETE", lease)
        finds(await bed.doctor(), {"GSH0925": f"There is no Lease {NAMESPACE}/gpusharing-operator"})
    finally:
        await bed.operator.start()


# ----------------------------------------------------------------------------------------------------------- few rights

NOT_CHECKED: Final = {
    "": {
        *("feature-gates", "definitions", "classes", "operator", "lease", "rights", "guards", "guards-in-force"),
        *("daemonset", "reports", "monitored"),
    },
    "view": {
        *("feature-gates", "definitions", "classes", "lease", "rights", "guards", "guards-in-force"),
        *("reports",),
    },
}


@pytest.mark.parametrize("role", NOT_CHECKED)
async def test_with_few_rights(bed: Bed, role: str) -> None:
    """What may not be looked at is said, and is no failure."""
    kubeconfig = await bed.control_plane.user_kubeconfig(f"jane-{role}")
    if role:
        binding = ("create", "clusterrolebinding", f"jane-{role}", f"--clusterrole={role}", f"--user=jane-{role}")
        await bed.control_plane.kubectl(*binding)
    found = await bed.doctor(kubeconfig=kubeconfig)
    assert {name for name, state in found.states.items() if state == "NotChecked"} >= NOT_CHECKED[role]
    assert found.states["version"] == "Well"
    assert "because you may not get /metrics" in found.said("GSH0901")
    assert "Error" not in found.states.values(), found.findings
    assert found.exit == 0
    before = await bed.doctor("--pre", kubeconfig=kubeconfig)
    assert (before.states["gpu-nodes"], before.exit) == ("NotChecked", 0)


# --------------------------------------------------------------------------------------------------------------- probes

PROBES: Final = {
    "GSH0937": "No GPU is offered to everybody",
    "GSH0938": "The pod or claim for mode Exclusive in namespace nowhere was refused: ",
    "GSH0939": "The pod for mode Exclusive did not end within",
    "GSH0942": "it is still ending after 2 s",
}


async def left_behind(bed: Bed) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for path in ("/api/v1/pods", "/apis/resource.k8s.io/v1/resourceclaims"):
        found += (await bed.admin.call("GET", f"{path}?labelSelector=gpusharing.dev/probe"))["items"]
    return found


async def test_probes_that_cannot_begin(bed: Bed) -> None:
    found = await bed.doctor("--probe", "--image", "none", "-n", "nowhere")
    assert PROBES["GSH0938"] in found.said("GSH0938")
    assert 'namespaces "nowhere" not found' in found.said("GSH0938")
    assert found.exit == 1
    for node in NODES:
        await bed.admin.merge(f"{SHARINGS}/{node}/status", {"status": {"gpus": []}})
    try:
        found = await bed.doctor("--probe", "-n", "default")
        finds(found, {"GSH0937": PROBES["GSH0937"]})
    finally:
        for node in NODES:
            await bed.report(node)


async def test_a_probe_that_hangs(bed: Bed) -> None:
    """Nobody runs pods here, nor removes them."""
    found = await bed.doctor("--probe", "--image", "none", "--timeout", "2s")
    for code in ("GSH0939", "GSH0942"):
        assert PROBES[code] in found.said(code), found.findings
    # explain's findings stand below.
    (probe,) = [check for check in found.checks if check["name"] == "probe-exclusive"]
    assert [one["code"] for one in probe["findings"]] == ["GSH0939", "GSH0305", "GSH0942"]
    await bed.admin.call("DELETE", "/api/v1/namespaces/default/pods", {"gracePeriodSeconds": 0})

    async def nothing_is_left() -> None:
        assert await left_behind(bed) == []

    await eventually(nothing_is_left)


@pytest.mark.parametrize("signal_", [signal.SIGINT, signal.SIGTERM])
async def test_an_interrupted_probe_is_removed(bed: Bed, signal_: signal.Signals) -> None:
    # No class has such a device, so no node has to end the pod.
    await bed.admin.merge(f"{CLASSES}/{DRIVER}", {"spec": {"selectors": [{"cel": {"expression": "false"}}]}})
    try:
        process = await bed.start("--probe", "--image", "none", "--timeout", "60s")

        async def is_there() -> None:
            assert len(await left_behind(bed)) == 2

        await eventually(is_there)
        process.send_signal(signal_)
        await process.communicate()
        assert process.returncode == 130
        assert await left_behind(bed) == []
    finally:
        await bed.install()


CODES: Final = (
    {"GSH0901", "GSH0909", "GSH0917", "GSH0918"}
    | BEFORE.keys()
    | OLD_SERVER.keys()
    | OBJECTS.keys()
    | {"GSH0921"}
    | PROGRAMS.keys()
    | LEADING.keys()
    | PROBES.keys()
)
"""That are brought about here."""
