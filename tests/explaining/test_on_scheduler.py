"""Each finding about pods and claims is brought about in front of the real scheduler, and both verdicts compared."""

import pytest

from agent.on_cluster import RESOURCE
from explaining.bed import (
    CLAIMS,
    DAEMON_SETS,
    DRIVER,
    FOREIGN,
    INSTALLED_IN,
    PODS,
    Bed,
    device,
    foreign_slice,
    our_slices,
    request,
)
from gpusharing.api.names import GROUP
from harness.eventually import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

SHARED = "timeslicing.gpu.nvidia.com"
WHOLE = "gpu.nvidia.com"
MIG = "mig.nvidia.com"
ANY = f'device.driver == "{FOREIGN}"'
NO_DEVICES = "cannot allocate all claims"

POLICIES = "/apis/gpusharing.dev/v1alpha1/sharingpolicies"
ADMIN_ACCESS = {"resource.kubernetes.io/admin-access": "true"}

WAITS, NEVER = 3, 4


async def waits(
    bed: Bed, *claims: str, said: str | None, code: str, exit_: int, **spec: object
) -> tuple[str, str, str]:
    """A pod that waits: sentence, remedy and screen. `said`: part of the scheduler's message; None: it says nothing."""
    await bed.add_pod("asker", *claims, **spec)  # type: ignore[arg-type]
    message = "has not said anything about the pod yet"
    if said is not None:
        message = await bed.until_refused("asker", said)
    found = await bed.explain("pod", "asker")
    assert found.codes[:1] == [code], found.text
    assert "GSH0230" not in found.codes, found.text
    assert found.exit == exit_, found.text
    assert message.partition(" preemption")[0][:30] in " ".join(found.value["scheduler"].split())
    return found.sentence(code), found.remedy(code), found.text


async def test_no_slices(bed: Bed) -> None:
    await bed.add_claim("c", request(SHARED))
    sentence, _, _ = await waits(bed, "c", said=NO_DEVICES, code="GSH0201", exit_=NEVER)
    assert sentence == f"Request gpu needs a device of class {SHARED}, and no node publishes any device."


async def test_no_slices_because_no_node_is_labelled_for_the_agent(bed: Bed) -> None:
    labels = {"app.kubernetes.io/name": "gpusharing-agent"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"nodeSelector": {"gpu": "yes"}, "containers": [{"name": "agent", "image": "none"}]},
    }
    body = {
        "metadata": {"name": "gpusharing-agent", "labels": labels},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
    await bed.admin.call("POST", "/api/v1/namespaces", {"metadata": {"name": INSTALLED_IN}})
    await bed.admin.call("POST", DAEMON_SETS, body)
    await bed.add_claim("c", request(SHARED))
    sentence, remedy, _ = await waits(bed, "c", said=NO_DEVICES, code="GSH0202", exit_=NEVER)
    assert sentence == "The agent does not run on any node: no node has the labels of its DaemonSet (gpu=yes)."
    assert remedy == "Label the nodes with GPUs: `kubectl label node NAME gpu=yes`."


async def test_no_device_matches_the_request(bed: Bed) -> None:
    await bed.publish(*our_slices("n0"), *our_slices("n1"))
    selector = f'device.attributes["{DRIVER}"].productName == "B200"'
    await bed.add_claim("c", request(WHOLE, selector=selector))
    sentence, _, _ = await waits(bed, "c", said=NO_DEVICES, code="GSH0203", exit_=NEVER)
    assert sentence == f"None of 2 devices matches the selector of request gpu: {selector}"


async def test_no_device_is_of_the_class(bed: Bed) -> None:
    await bed.publish(foreign_slice("n0", device("d0")))
    await bed.add_claim("c", request(WHOLE))
    sentence, _, _ = await waits(bed, "c", said=NO_DEVICES, code="GSH0203", exit_=NEVER)
    assert sentence.startswith(f"None of 1 device matches class {WHOLE} of request gpu: device.driver ==")


async def test_no_device_gives_so_much(bed: Bed) -> None:
    await bed.publish(*our_slices("n0"), *our_slices("n1"))
    await bed.add_claim("c", request("mps.gpu.nvidia.com", capacity={"requests": {"memory": "30Gi"}}))
    sentence, remedy, _ = await waits(bed, "c", said=NO_DEVICES, code="GSH0204", exit_=NEVER)
    assert sentence == "Request gpu asks for 30Gi of memory, and no device that matches gives more than 20Gi."
    assert remedy == "Ask for 20Gi or less: fits on n0/gpu-0-mps now."
    # The remedy is right.
    await bed.add_claim("less", request("mps.gpu.nvidia.com", capacity={"requests": {"memory": "20Gi"}}))
    await bed.add_pod("less", "less")
    await bed.until_bound("less")


async def test_all_devices_are_in_use(bed: Bed) -> None:
    await bed.add_class("any", ANY)
    await bed.publish(foreign_slice("n0", device("d0")), foreign_slice("n1", device("d0")))
    for name in ("first", "second"):
        await bed.add_claim(name, request("any"))
        await bed.add_pod(f"{name}-pod", name)
        await bed.until_bound(f"{name}-pod")
    await bed.add_claim("c", request("any"))
    sentence, _, _ = await waits(bed, "c", said=NO_DEVICES, code="GSH0205", exit_=WAITS)
    assert sentence.startswith("Request gpu needs 1 of 2 devices, and all are in use: pod default/")


async def test_too_little_is_left(bed: Bed) -> None:
    await bed.publish(*our_slices("n0"))
    await bed.hold("big", SHARED, "n0", "gpu-0-timeslicing", share={"shares": "1", "memory": "70Gi"})
    await bed.add_claim("c", request(SHARED, capacity={"requests": {"memory": "20Gi"}}))
    sentence, remedy, _ = await waits(bed, "c", said=NO_DEVICES, code="GSH0206", exit_=WAITS)
    assert sentence.startswith("Request gpu asks for 20Gi of memory, and no device has more than ")
    assert "left: pod default/big-pod (for " in sentence
    assert remedy.endswith("or less: fits on n0/gpu-0-timeslicing now.")


async def test_all_gpus_are_reserved(bed: Bed) -> None:
    await bed.publish(*our_slices("n0", policy="search"), *our_slices("n1", policy="search"))
    await bed.add_claim("c", request(WHOLE))
    sentence, _, _ = await waits(bed, "c", said=NO_DEVICES, code="GSH0239", exit_=NEVER)
    assert sentence == "All 2 GPUs for request gpu are reserved for tenants of SharingPolicy search."


async def test_no_gpu_has_the_mode_of_a_policys_class(bed: Bed) -> None:
    policy = {
        "apiVersion": "gpusharing.dev/v1alpha1",
        "kind": "SharingPolicy",
        "metadata": {"name": "search"},
        "spec": {"offers": {"mps": {"maxClients": 2, "memory": {"default": "8Gi"}, "threads": {"default": 25}}}},
    }
    await bed.admin.call("POST", POLICIES, policy)
    await bed.add_class("search-mps", f'device.attributes["{GROUP}"].?policy.orValue("") == "search"')
    await bed.publish(*our_slices("n0"))
    await bed.add_claim("c", request("search-mps"))
    sentence, remedy, _ = await waits(bed, "c", said=NO_DEVICES, code="GSH0240", exit_=NEVER)
    assert sentence.startswith("Class search-mps is for MPS on GPUs of SharingPolicy search, ")
    assert remedy == "Run `gpusharing explain policy search`: it has the cause."


async def test_admin_access_to_a_gpu_that_is_used_whole(bed: Bed) -> None:
    await bed.admin.merge("/api/v1/namespaces/default", {"metadata": {"labels": ADMIN_ACCESS}})
    await bed.publish(*our_slices("n0"))
    await bed.hold("whole", WHOLE, "n0", "gpu-0")
    await bed.add_claim("c", request(WHOLE, adminAccess=True))
    sentence, _, _ = await waits(bed, "c", said=NO_DEVICES, code="GSH0241", exit_=WAITS)
    assert "pod default/whole-pod" in sentence


async def test_the_gpu_is_in_use_in_another_mode(bed: Bed) -> None:
    await bed.publish(*our_slices("n0"))
    await bed.hold("share", SHARED, "n0", "gpu-0-timeslicing", share={"shares": "1", "memory": "1Gi"})
    await bed.add_claim("c", request(WHOLE))
    sentence, _, _ = await waits(bed, "c", said=NO_DEVICES, code="GSH0207", exit_=WAITS)
    assert sentence.startswith(
        "Request gpu: 1 device cannot be allocated because the GPUs are in use in another mode: "
    )
    assert "pod default/share-pod" in sentence


async def test_devices_of_others_exclude_each_other(bed: Bed) -> None:
    """They have no modes."""
    half = {"consumesCounters": [{"counterSet": "set", "counters": {"parts": {"value": "1"}}}]}
    full = {"consumesCounters": [{"counterSet": "set", "counters": {"parts": {"value": "2"}}}]}
    counters = {"sharedCounters": [{"name": "set", "counters": {"parts": {"value": "2"}}}]}
    devices = foreign_slice("n0", device("half", size="half") | half, device("full", size="full") | full, count=2)
    await bed.publish(devices, {**foreign_slice("n0", count=2), "devices": None, **counters})
    await bed.add_class("any", ANY)
    await bed.add_claim("first", request("any", selector=f'device.attributes["{FOREIGN}"].size == "half"'))
    await bed.add_pod("first-pod", "first")
    await bed.until_bound("first-pod")
    await bed.add_claim("c", request("any", selector=f'device.attributes["{FOREIGN}"].size == "full"'))
    sentence, _, _ = await waits(bed, "c", said=NO_DEVICES, code="GSH0237", exit_=WAITS)
    assert sentence.startswith(
        "Request gpu: 1 device cannot be allocated together with devices that are in use: pod default/first-pod"
    )


async def test_a_driver_prepares_the_devices_first(bed: Bed) -> None:
    prepared = {"bindingConditions": ["example.com/attached"], "bindingFailureConditions": ["example.com/failed"]}
    await bed.publish(foreign_slice("n0", device("attached-late") | prepared))
    await bed.add_class("any", ANY)
    await bed.add_claim("c", request("any"))
    await bed.add_pod("asker", "c")

    async def is_allocated() -> None:
        assert "allocation" in (await bed.admin.call("GET", f"{CLAIMS}/c")).get("status", {})

    await eventually(is_allocated)
    found = await bed.explain("pod", "asker")
    assert (found.codes, found.exit) == (["GSH0238"], WAITS), found.text
    assert found.sentence("GSH0238") == (
        f"Claim c has {FOREIGN}/n0/attached-late, of which driver {FOREIGN} has not reported yet: example.com/attached."
    )
    is_attached = {
        "type": "example.com/attached",
        "status": "True",
        "reason": "Attached",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    reported = {"driver": FOREIGN, "pool": "n0", "device": "attached-late", "conditions": [is_attached]}
    await bed.admin.merge(f"{CLAIMS}/c/status", {"status": {"devices": [reported]}})
    # Until then the scheduler keeps the device for the pod, also if the pod is deleted.
    await bed.until_bound("asker")


async def test_mig_instances_are_fragmented(bed: Bed) -> None:
    await bed.publish(*our_slices("n0"))
    for start in (1, 5):
        await bed.hold(f"small-{start}", MIG, "n0", f"gpu-0-mig-1g10gb-19-{start}")
    profile = f'device.attributes["{DRIVER}"].profile == "3g.40gb"'
    await bed.add_claim("c", request(MIG, selector=profile))
    sentence, _, _ = await waits(bed, "c", said=NO_DEVICES, code="GSH0208", exit_=WAITS)
    assert sentence.startswith(
        "n0/gpu-0 has 6 memory slices free, but not where a 3g.40gb can start: pod default/small-1"
    )


async def test_a_capacity_that_is_not_there(bed: Bed) -> None:
    await bed.publish(*our_slices("n0"))
    await bed.add_claim("c", request(SHARED, capacity={"requests": {f"{DRIVER}/memory": "1Gi"}}))
    sentence, _, _ = await waits(bed, "c", said=NO_DEVICES, code="GSH0209", exit_=NEVER)
    assert sentence.startswith(
        f"Request gpu asks for capacity {DRIVER}/memory, which the devices do not have; they have "
    )


async def test_capacities_of_other_devices_do_not_help(bed: Bed) -> None:
    other = device("d0") | {"capacity": {"rooms": {"value": "2"}}}
    await bed.publish(*our_slices("n0"), foreign_slice("n0", other))
    await bed.add_claim("c", request(SHARED, capacity={"requests": {"rooms": "1"}}))
    sentence, _, _ = await waits(bed, "c", said=NO_DEVICES, code="GSH0209", exit_=NEVER)
    assert sentence.endswith("they have memory, shares.")


async def test_a_selector_fails(bed: Bed) -> None:
    await bed.add_class("any", ANY)
    await bed.publish(foreign_slice("n0", device("d0", model="a")))
    await bed.add_claim("c", request("any", selector=f'device.attributes["{FOREIGN}"].size == "large"'))
    sentence, remedy, _ = await waits(bed, "c", said="no such key: size", code="GSH0210", exit_=NEVER)
    assert sentence == (
        f"The selector of request gpu fails on device {FOREIGN}/n0/d0, so Kubernetes does not schedule the pod: "
        "no such key: size"
    )
    assert ".?size.orValue(...)" in remedy


async def test_memory_as_an_attribute(bed: Bed) -> None:
    await bed.publish(*our_slices("n0"))
    await bed.add_claim("c", request(WHOLE, selector=f'device.attributes["{DRIVER}"].memory >= "16Gi"'))
    sentence, remedy, _ = await waits(bed, "c", said="no such key: memory", code="GSH0211", exit_=NEVER)
    assert (
        sentence == "The selector of request gpu reads attribute memory, which is a capacity: it fails on every device."
    )
    right = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("16Gi")) >= 0'
    assert remedy == f"Write `{right}`."
    await bed.add_claim("right", request(WHOLE, selector=right))
    await bed.add_pod("right", "right")
    await bed.until_bound("right")


async def test_an_amount_as_text(bed: Bed) -> None:
    await bed.add_class("any", ANY)
    await bed.publish(foreign_slice("n0", device("d0", memory="80Gi")))
    await bed.add_claim("c", request("any", selector=f'device.attributes["{FOREIGN}"].memory < "9Gi"'))
    # "80Gi" is less than "9Gi": it runs, although it should not. The other way round it waits.
    await bed.add_claim("other", request("any", selector=f'device.attributes["{FOREIGN}"].memory >= "9Gi"'))
    sentence, _, _ = await waits(bed, "other", said=NO_DEVICES, code="GSH0212", exit_=NEVER)
    assert sentence.startswith('The selector of request gpu compares with the text "9Gi", by letters:')


async def test_no_such_class(bed: Bed) -> None:
    await bed.publish(*our_slices("n0"))
    await bed.add_claim("c", request("timeslicing.gpu.nvidia.co"))
    said = "device class timeslicing.gpu.nvidia.co does not exist"
    sentence, remedy, _ = await waits(bed, "c", said=said, code="GSH0213", exit_=NEVER)
    assert sentence == "Request gpu needs device class timeslicing.gpu.nvidia.co, which does not exist."
    assert remedy.startswith(f"Did you mean {SHARED}?")


async def policy(bed: Bed, name: str, **spec: object) -> None:
    kind = {"apiVersion": "gpusharing.dev/v1alpha1", "kind": "SharingPolicy"}
    body = {**kind, "metadata": {"name": name}, "spec": {"offers": {"exclusive": {}}, **spec}}
    await bed.admin.call("POST", "/apis/gpusharing.dev/v1alpha1/sharingpolicies", body)


async def test_no_class_because_the_policy_does_not_offer_the_mode(bed: Bed) -> None:
    await policy(bed, "thirds")
    await bed.publish(*our_slices("n0"))
    await bed.add_claim("c", request("thirds-mps"))
    sentence, remedy, _ = await waits(
        bed, "c", said="device class thirds-mps does not exist", code="GSH0213", exit_=NEVER
    )
    assert sentence.endswith("which does not exist: SharingPolicy thirds does not offer MPS.")
    assert remedy == "Use a class of a mode that it offers (thirds-exclusive)."


async def test_the_policy_of_the_class_does_not_offer_the_mode_any_more(bed: Bed) -> None:
    await policy(bed, "thirds")
    await bed.add_class("thirds-mps", f'device.driver == "{DRIVER}" && false')
    await bed.publish(*our_slices("n0"))
    await bed.add_claim("c", request("thirds-mps"))
    sentence, remedy, _ = await waits(bed, "c", said=NO_DEVICES, code="GSH0214", exit_=NEVER)
    assert sentence == "Class thirds-mps is for MPS on GPUs of SharingPolicy thirds, which does not offer MPS."
    assert remedy.endswith("(thirds-exclusive), or add mps to its spec.offers.")


async def test_devices_are_closing(bed: Bed) -> None:
    (counters, devices) = our_slices("n0")
    for one in devices["devices"]:
        one["attributes"]["gpusharing.dev/closing"] = {"bool": True}
        one["taints"] = [{"key": "gpusharing.dev/closing", "effect": "NoSchedule"}]
    await bed.publish(counters, devices)
    await bed.add_claim("c", request(WHOLE))
    sentence, _, _ = await waits(bed, "c", said=NO_DEVICES, code="GSH0216", exit_=WAITS)
    assert sentence.startswith("Request gpu: 1 device is closing:")


@pytest.mark.parametrize(
    ("key", "code", "exit_", "end"),
    [
        ("gpusharing.dev/unhealthy", "GSH0236", WAITS, " by the agent or the operator."),
        ("example.com/mine", "GSH0217", NEVER, ", which the request does not tolerate."),
    ],
)
async def test_devices_are_tainted(bed: Bed, key: str, code: str, exit_: int, end: str) -> None:
    await bed.add_class("any", ANY)
    await bed.publish(foreign_slice("n0", device("d0") | {"taints": [{"key": key, "effect": "NoSchedule"}]}))
    await bed.add_claim("c", request("any"))
    sentence, _, _ = await waits(bed, "c", said=NO_DEVICES, code=code, exit_=exit_)
    assert sentence == f"Request gpu: 1 device is tainted with {key}{end}"


async def test_a_rule_taints_devices(bed: Bed) -> None:
    await bed.add_class("any", ANY)
    rule = {"deviceSelector": {"driver": FOREIGN, "pool": "n0"}, "taint": {"key": "rule", "effect": "NoSchedule"}}
    await bed.admin.call("POST", f"{RESOURCE}/devicetaintrules", {"metadata": {"name": "r"}, "spec": rule})
    await bed.publish(foreign_slice("n0", device("d0")))
    await bed.add_claim("c", request("any"))
    sentence, _, _ = await waits(bed, "c", said=NO_DEVICES, code="GSH0217", exit_=NEVER)
    assert "tainted with rule" in sentence


async def test_a_pool_is_incomplete(bed: Bed) -> None:
    await bed.add_class("any", ANY)
    await bed.publish(foreign_slice("n0", device("d0"), count=2))
    await bed.add_claim("c", request("any"))
    sentence, _, _ = await waits(bed, "c", said=NO_DEVICES, code="GSH0218", exit_=WAITS)
    assert sentence == f"Slices of pool {FOREIGN}/n0 are missing, so Kubernetes does not use it."


async def test_a_pool_is_invalid(bed: Bed) -> None:
    await bed.add_class("any", ANY)
    await bed.publish(*(foreign_slice("n0", device("twice"), count=2) for _ in range(2)))
    await bed.add_claim("c", request("any"))
    sentence, _, _ = await waits(bed, "c", said="", code="GSH0219", exit_=NEVER)
    assert sentence == f"Kubernetes does not use pool {FOREIGN}/n0: duplicate device name twice."


async def test_not_enough_devices_together(bed: Bed) -> None:
    await bed.add_class("any", ANY)
    await bed.publish(foreign_slice("n0", device("d0", group="a"), device("d1", group="b")))
    constraint = {"matchAttribute": f"{FOREIGN}/group"}
    await bed.add_claim("c", request("any", name="one"), request("any", name="two"), constraints=[constraint])
    sentence, _, _ = await waits(bed, "c", said=NO_DEVICES, code="GSH0220", exit_=WAITS)
    assert sentence.endswith(f"no node has all of them together with the same {FOREIGN}/group.")


async def test_too_few_devices_on_a_node(bed: Bed) -> None:
    await bed.add_class("any", ANY)
    await bed.publish(foreign_slice("n0", device("d0"), device("d1")), foreign_slice("n1", device("d0"), device("d1")))
    await bed.add_claim("c", request("any", count=3))
    sentence, _, _ = await waits(bed, "c", said=NO_DEVICES, code="GSH0235", exit_=NEVER)
    assert sentence == "Request gpu needs 3 devices, and no node has more than 2 that match."


async def test_the_claim_is_allocated_elsewhere(bed: Bed) -> None:
    await bed.add_class("any", ANY)
    await bed.publish(foreign_slice("n0", device("d0")))
    await bed.add_claim("c", request("any"))
    await bed.add_pod("first", "c")
    await bed.until_bound("first")
    sentence, _, _ = await waits(
        bed, "c", said="", code="GSH0221", exit_=WAITS, nodeSelector={"kubernetes.io/hostname": "n1"}
    )
    assert sentence == "Claim default/c has its devices on n0, and the pod cannot run there."


async def test_the_claim_is_missing(bed: Bed) -> None:
    sentence, remedy, _ = await waits(bed, "c", said=None, code="GSH0223", exit_=NEVER)
    assert sentence == "The pod needs a claim (c0), and claim c does not exist."
    assert remedy.endswith("this API server serves resource.k8s.io/v1.")


async def test_the_template_is_missing(bed: Bed) -> None:
    entry = {"name": "gpu", "resourceClaimTemplateName": "none"}
    sentence, remedy, _ = await waits(bed, said=None, code="GSH0224", exit_=NEVER, resourceClaims=[entry])
    assert sentence == "The pod needs ResourceClaimTemplate none, which does not exist in namespace default."
    assert "resource.k8s.io/v1" in remedy


async def test_gates(bed: Bed) -> None:
    gate = {"name": "kueue.x-k8s.io/admission"}
    sentence, _, _ = await waits(bed, said="gates", code="GSH0226", exit_=WAITS, schedulingGates=[gate])
    assert sentence == "The scheduler does not look at the pod yet: it has kueue.x-k8s.io/admission."


@pytest.mark.parametrize(
    ("patch", "pod", "said", "why"),
    [
        ({}, {"nodeSelector": {"pool": "b"}}, "affinity/selector", "its nodeSelector or affinity does not match them"),
        ({"unschedulable": True}, {}, "unschedulable", "they are cordoned"),
        (
            {"taints": [{"key": "team", "value": "a", "effect": "NoSchedule"}]},
            {},
            "untolerated taint",
            "they have a taint that it does not tolerate: team=a",
        ),
    ],
)
async def test_the_pod_may_not_run_where_devices_are(
    bed: Bed, patch: dict[str, object], pod: dict[str, object], said: str, why: str
) -> None:
    await bed.add_class("any", ANY)
    await bed.publish(foreign_slice("n0", device("d0")))
    await bed.admin.merge("/api/v1/nodes/n0", {"spec": patch})
    try:
        await bed.add_claim("c", request("any"))
        sentence, _, _ = await waits(bed, "c", said=said, code="GSH0227", exit_=NEVER, **pod)
    finally:
        await bed.admin.merge("/api/v1/nodes/n0", {"spec": {"unschedulable": None, "taints": None}})
    assert sentence == f"It would fit on n0, but {why}."


async def test_not_because_of_devices(bed: Bed) -> None:
    await bed.add_class("any", ANY)
    await bed.publish(foreign_slice("n0", device("d0")))
    await bed.add_claim("c", request("any"))
    sentence, _, _ = await waits(
        bed, "c", said="Insufficient cpu", code="GSH0228", exit_=WAITS, resources={"cpu": "2000"}
    )
    assert sentence == "Devices are free on n0, but the scheduler says: Insufficient cpu on 2 nodes."


async def test_it_fits_now(bed: Bed) -> None:
    await bed.add_class("any", ANY)
    await bed.publish(foreign_slice("n0", device("d0")))
    await bed.add_claim("c", request("any"))
    async with bed.stopped_scheduler():
        await bed.add_pod("asker", "c")
        found = await bed.explain("pod", "asker")
    assert (found.codes, found.exit) == (["GSH0229"], WAITS)
    assert found.sentence("GSH0229") == "Devices are free on n0 (there d0)."
    await bed.until_bound("asker")
    assert (await bed.explain("pod", "asker")).value["message"].startswith("Pod default/asker is starting on node n0")


async def test_the_scheduler_has_not_seen_the_newest_state(bed: Bed) -> None:
    await bed.add_class("any", ANY)
    await bed.add_claim("c", request("any"))
    await bed.publish(foreign_slice("n1", device("d0") | {"taints": [{"key": "x", "effect": "NoSchedule"}]}))
    await bed.add_pod("asker", "c")
    await bed.until_refused("asker")
    async with bed.stopped_scheduler():
        await bed.publish(foreign_slice("n0", device("d0")))
        found = await bed.explain("pod", "asker")
    assert (found.codes, found.exit) == (["GSH0229", "GSH0230"], WAITS)
    assert NO_DEVICES in found.sentence("GSH0230")
    await bed.until_bound("asker")


async def test_nobody_provides_the_extended_resource(bed: Bed) -> None:
    await bed.publish(*our_slices("n0"))
    sentence, _, _ = await waits(
        bed, said="Insufficient example.com/none", code="GSH0231", exit_=NEVER, resources={"example.com/none": "1"}
    )
    assert sentence == "The pod asks for example.com/none, which neither a device class nor a device plugin provides."


async def test_extended_resources_are_explained_as_claims(bed: Bed) -> None:
    await bed.publish(*our_slices("n0"))
    await bed.hold("share", SHARED, "n0", "gpu-0-timeslicing", share={"shares": "1", "memory": "1Gi"})
    await waits(bed, said=NO_DEVICES, code="GSH0207", exit_=WAITS, resources={"nvidia.com/gpu": "1"})


async def test_too_many_devices(bed: Bed) -> None:
    await bed.add_class("any", ANY)
    await bed.publish(foreign_slice("n0", device("d0")))
    await bed.add_claim("c", request("any", count=33))
    sentence, _, _ = await waits(bed, "c", said="", code="GSH0233", exit_=NEVER)
    assert "because of claim default/c: 33 devices are more than the 32 that a claim can have" in sentence


async def test_a_claim_that_no_pod_uses(bed: Bed) -> None:
    await bed.publish(*our_slices("n0"))
    await bed.add_claim("c", request(SHARED))
    found = await bed.explain("claim", "c")
    assert (found.codes, found.exit) == (["GSH0229", "GSH0234"], WAITS)
    await bed.add_pod("asker", "c")
    await bed.until_bound("asker")
    found = await bed.explain("claim", "c")
    assert found.value["message"] == "Claim default/c has 1 device, used by asker."
    assert found.exit == 0


async def test_an_annotation_and_a_flag_suppress_a_finding(bed: Bed) -> None:
    await bed.add_claim("c", request(SHARED))
    await bed.add_pod("asker", "c")
    await bed.until_refused("asker")
    assert (await bed.explain("pod", "asker", "--ignore", "gsh0201")).codes == []
    annotation = {"metadata": {"annotations": {"gpusharing.dev/ignore-findings": "GSH0201"}}}
    await bed.admin.merge(f"{PODS}/asker", annotation)
    found = await bed.explain("pod", "asker")
    assert (found.codes, found.exit) == ([], NEVER)


async def test_a_pod_that_has_ended(bed: Bed) -> None:
    await bed.add_pod("asker")
    await bed.until_bound("asker")
    await bed.admin.merge(f"{PODS}/asker/status", {"status": {"phase": "Succeeded"}})

    async def has_ended() -> None:
        assert (await bed.explain("pod", "asker")).value["message"] == "Pod default/asker has ended."

    await eventually(has_ended)
