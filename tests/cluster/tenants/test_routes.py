"""Every way onto a GPU that is for tenants only, tried by people with the ClusterRole admin in their namespace: the
answer that they see, on the real API server and scheduler."""

import asyncio
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import aiohttp
import pytest

from cluster.tenants.bed import (
    BINDINGS,
    CLASSES,
    GUARDS,
    NODE,
    POLICIES,
    POOL,
    RESOURCE,
    SEARCH,
    Answer,
    Bed,
    Person,
    capacity,
    claim,
    claim_spec,
    config,
    fresh,
    pod,
    request,
)
from harness.eventually import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="module")]

STRANGER = "SharingPolicy search: namespace other is not one of its tenants (spec.tenants.namespaces); "
BY_CLAIMS = "ValidatingAdmissionPolicy 'gpusharing-claims' with binding 'gpusharing-claims' denied request: "
BY_PODS = "ValidatingAdmissionPolicy 'gpusharing-pods' with binding 'gpusharing-pods' denied request: "
BY_WALL = "ValidatingAdmissionPolicy 'gpusharing-allocation' with binding 'gpusharing-allocation' denied request: "
NO_DEVICE = "Unschedulable: 0/1 nodes are available: 1 cannot allocate all claims."

NOT_READY = ("cannot create resource", "not yet ready to handle request")

SELECT_RESTRICTED: dict[str, Any] = {
    "selectors": [{"cel": {"expression": 'device.attributes["gpusharing.dev"].policy == "search"'}}]
}
LONG = {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}}


class Try(NamedTuple):
    what: str
    requests: list[dict[str, Any]]
    says: str
    devices: Mapping[str, Any] = MappingProxyType({})


STRANGERS = (
    Try("the policy's class", [request("search-mps")], BY_CLAIMS + STRANGER + "search-mps is reserved for them"),
    Try(
        "as an alternative",
        [{"name": "gpu", "firstAvailable": [
            {"name": "a", "deviceClassName": "gpu.nvidia.com"}, {"name": "b", "deviceClassName": "search-mps"}]}],
        BY_CLAIMS + STRANGER + "search-mps is reserved for them",
    ),
    Try("a foreign class", [request("any-gpu")], BY_WALL + STRANGER + f"device {POOL}/gpu-0 is reserved for them"),
    Try(
        "a foreign class as an alternative",
        [{"name": "gpu", "firstAvailable": [
            {"name": "a", "deviceClassName": "gpu.nvidia.com"}, {"name": "b", "deviceClassName": "any-gpu"}]}],
        BY_WALL + STRANGER + f"device {POOL}/gpu-0 is reserved for them",
    ),
    Try("a class as NVIDIA's chart has it", [request("nvidias")], NO_DEVICE),
    Try("all of a foreign class", [request("any-share", allocationMode="All")], BY_WALL + STRANGER),
    Try("too many of them", [request("any-whole-gpu", count=33)],
        'SchedulerError: running "DynamicResources" filter plugin: claim other/'),
    Try("the generic class", [request("gpu.nvidia.com")], NO_DEVICE),
    Try("the generic class and a selector", [request("gpu.nvidia.com", **SELECT_RESTRICTED)], NO_DEVICE),
    Try("the generic class of shares", [request("timeslicing.gpu.nvidia.com", **SELECT_RESTRICTED)], NO_DEVICE),
    Try("other settings", [request("any-share")], BY_WALL + STRANGER, config(LONG)),
    Try("admin access without a label", [request("any-gpu", adminAccess=True)], "adminAccess: Forbidden"),
)  # fmt: skip

TENANTS = (
    Try("two shares", [request("search-timeslicing", **capacity(shares="2"))],
        BY_CLAIMS + "SharingPolicy search: a request may have at most 1 of the shares of a shared GPU"),
    Try("two shares by a foreign class", [request("any-share", **capacity(shares="2"))],
        BY_WALL + "SharingPolicy search: a claim may have at most 1 of the shares of a shared GPU"),
    Try("too much memory", [request("search-mps", **capacity(memory="21Gi"))],
        BY_CLAIMS + "SharingPolicy search: a request may have at most 20Gi of the memory of a shared GPU"),
    Try("too much memory by a foreign class", [request("any-share", **capacity(memory="21Gi"))],
        BY_WALL + "SharingPolicy search: a claim may have at most 20Gi of the memory of a shared GPU"),
    Try("memory below zero", [request("search-mps", **capacity(memory="-1Gi"))], "at most 20Gi"),
    Try("too many threads", [request("search-mps", **capacity(threads="51"))],
        BY_CLAIMS + "SharingPolicy search: a request may have at most 50 percent of the threads of a shared GPU"),
    Try("too much in three requests of one device",
        [request("search-mps", name, **capacity(memory="20Gi")) for name in ("a", "b", "c")],
        BY_WALL + "SharingPolicy search: a claim may have at most 1 of the shares of a shared GPU; "
        "SharingPolicy search: a claim may have at most 20Gi of the memory of a shared GPU"),
    Try("a capacity's other name", [request("search-mps", **capacity(**{"gpu.nvidia.com/memory": "1Gi"}))], NO_DEVICE),
    Try("another interval", [request("search-timeslicing")],
        BY_CLAIMS + "SharingPolicy search: timeSlicingConfig.interval may be Default, Short (absent, it is Default)",
        config(LONG)),
    Try("another interval by a foreign class", [request("any-share")],
        BY_WALL + "SharingPolicy search: timeSlicingConfig.interval may be Default, Short (absent, it is Default)",
        config(LONG)),
    Try("another strategy", [request("search-exclusive")],
        BY_CLAIMS + "SharingPolicy search: sharing.strategy may be TimeSlicing", config({"strategy": "MPS"})),
    Try("another strategy by a foreign class", [request("any-whole-gpu")],
        BY_WALL + "SharingPolicy search: sharing.strategy may be TimeSlicing", config({"strategy": "MPS"})),
    Try("another strategy in the config of a part", [request("search-mig")], "sharing.strategy may be TimeSlicing",
        config({"strategy": "MPS"}, kind="MigDeviceConfig")),
    Try("limits of MPS", [request("search-exclusive")],
        "mpsConfig.defaultActiveThreadPercentage may be at most 50; "
        "SharingPolicy search: limits of memory in mpsConfig may be at most 20Gi",
        config({"strategy": "MPS", "mpsConfig": {
            "defaultActiveThreadPercentage": 51, "defaultPinnedDeviceMemoryLimit": "21Gi"}})),
    Try("limits of MPS by device", [request("search-exclusive")],
        "SharingPolicy search: limits of memory in mpsConfig may be at most 20Gi",
        config({"strategy": "MPS", "mpsConfig": {"defaultPerDevicePinnedMemoryLimit": {"0": "21Gi"}}})),
    Try("strategies mixed", [request("search-timeslicing")],
        "sharing must have a strategy, and only the config of that strategy",
        config({"strategy": "TimeSlicing", "mpsConfig": {}})),
    Try("another kind of config", [request("search-timeslicing")], "with nothing but sharing",
        config({"strategy": "TimeSlicing"}, kind="ImexConfig")),
    Try("a key in other letters", [request("search-timeslicing")], "with nothing but sharing",
        config(None, Sharing={"strategy": "MPS"})),
    Try("a config that is no such thing", [request("search-timeslicing")], "gpusharing-claims", config(7)),
    Try("a toleration of ours", [request("search-mps", tolerations=[{"key": "gpusharing.dev/closing",
        "operator": "Exists"}])], "adminAccess may tolerate taints of gpusharing.dev: remove the toleration"),
    Try("a toleration without end", [request("search-mps", tolerations=[{"operator": "Exists",
        "effect": "NoExecute"}])], "must have tolerationSeconds of at most 3600"),
)  # fmt: skip


def named(tries: tuple[Try, ...]) -> list[Any]:
    return [pytest.param(one, id=one.what) for one in tries]


async def is_refused(person: Person, one: Try) -> None:
    answer = await person.gets(*one.requests, **one.devices)
    assert answer.code in {403, 422}, answer
    assert one.says in answer.says
    assert not [item for item in await claims(person) if item.get("status", {}).get("allocation")]


async def claims(person: Person) -> list[Any]:
    return list((await person.ask("GET", person.claims())).must()["items"])


def devices(answer: Answer) -> list[str]:
    return [f"{result['pool']}/{result['device']}" for result in allocation(answer)["devices"]["results"]]


def allocation(answer: Answer) -> Any:
    return answer.must()["status"]["allocation"]


@pytest.mark.parametrize("one", named(STRANGERS))
async def test_a_stranger_gets_nothing(bed: Bed, one: Try) -> None:
    await is_refused(bed.other, one)


@pytest.mark.parametrize("one", named(TENANTS))
async def test_a_tenant_gets_no_more_than_is_allowed(bed: Bed, one: Try) -> None:
    await is_refused(bed.tenant, one)


@pytest.mark.parametrize("device_class", ["search-exclusive", "search-timeslicing", "search-mps", "any-gpu"])
async def test_a_tenant_gets_what_is_allowed(bed: Bed, device_class: str) -> None:
    setting = config({"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Short"}})
    # What is closing has no class of ours, however much is tolerated.
    answer = await bed.tenant.gets(request(device_class, tolerations=[{"operator": "Exists"}]), **setting)
    expected = {"search-timeslicing": "gpu-41-timeslicing", "search-mps": "gpu-42-mps"}
    assert devices(answer) == [f"{POOL}/{expected.get(device_class, 'gpu-0')}"]


async def test_amounts_at_their_limits(bed: Bed) -> None:
    answer = await bed.tenant.gets(request("search-mps", **capacity(shares="1", memory="20Gi", threads="50")))
    (result,) = allocation(answer)["devices"]["results"]
    assert result["consumedCapacity"] == {"shares": "1", "memory": "20Gi", "threads": "50"}


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
async def test_another_version_of_the_api_is_no_way_around(bed: Bed, version: str) -> None:
    asked = request("search-mps") if version == "v1beta2" else {"name": "gpu", "deviceClassName": "search-mps"}
    answer = await bed.other.ask("POST", bed.other.claims(version=version), claim("one", asked))
    assert (answer.code, STRANGER in answer.says) == (403, True), answer


async def test_templates(bed: Bed) -> None:
    body = {"metadata": {"name": "one"}, "spec": {"spec": claim_spec(request("search-mps"))}}
    answer = await bed.other.ask("POST", bed.other.templates(), body)
    assert (answer.code, BY_CLAIMS + STRANGER in answer.says) == (403, True), answer
    (await bed.tenant.ask("POST", bed.tenant.templates(), body)).must()


@pytest.mark.parametrize(
    "resource", ["example.com/gpu-shared", "deviceclass.resource.kubernetes.io/search-timeslicing"]
)
async def test_extended_resources(bed: Bed, resource: str) -> None:
    name = fresh("pod")
    body = pod(name, limits={resource: "1"})
    answer = await bed.other.ask("POST", bed.other.pods(), body)
    assert (answer.code, BY_PODS + STRANGER + f"{resource} is reserved for them" in answer.says) == (403, True), answer
    (await bed.tenant.ask("POST", bed.tenant.pods(), body)).must()
    assert (await bed.tenant.scheduled(name))["status"] == "True"
    (made,) = await claims(bed.tenant)
    assert made["status"]["allocation"]["devices"]["results"][0]["device"] == "gpu-41-timeslicing"


async def test_a_deployment_says_why_it_has_no_pods(bed: Bed) -> None:
    template = {
        "metadata": {"labels": {"app": "one"}},
        "spec": pod("one", limits={"example.com/gpu-shared": "1"})["spec"],
    }
    body = {"metadata": {"name": "one"}, "spec": {"selector": {"matchLabels": {"app": "one"}}, "template": template}}
    path = f"/apis/apps/v1/namespaces/{bed.other.namespace}/deployments"
    (await bed.other.ask("POST", path, body)).must()

    async def check() -> None:
        status = (await bed.other.ask("GET", f"{path}/one")).must().get("status", {})
        failures = [item["message"] for item in status.get("conditions", ()) if item["type"] == "ReplicaFailure"]
        assert len(failures) == 1
        assert STRANGER in failures[0]

    await eventually(check)


async def test_without_the_guard_of_pods_the_wall_stands_and_the_pod_says_why(bed: Bed) -> None:
    binding = f"{BINDINGS}/gpusharing-pods"
    present = (await bed.admin.ask("GET", binding)).must()
    (await bed.admin.ask("DELETE", binding)).must()
    name = fresh("pod")
    body = pod(name, limits={"example.com/gpu-shared": "1"})
    try:

        async def created() -> None:
            (await bed.other.ask("POST", bed.other.pods(), body)).must()

        await eventually(created)

        async def refused() -> None:
            assert any(STRANGER in event for event in await bed.other.events(name))

        await eventually(refused)
        assert (await bed.other.scheduled(name))["status"] == "False"
        assert await claims(bed.other) == []
    finally:
        del present["metadata"]["resourceVersion"], present["metadata"]["uid"]
        (await bed.admin.ask("POST", BINDINGS, present)).must()

        async def stands_again() -> None:
            answer = await bed.other.ask("POST", bed.other.pods(), body, dry=True)
            assert (answer.code, BY_PODS in answer.says) == (403, True), answer

        await eventually(stands_again)


async def test_a_template_of_a_namespace_that_was_a_tenant(bed: Bed) -> None:
    await bed.set_label("other", "search")
    template = {"metadata": {"name": "old"}, "spec": {"spec": claim_spec(request("search-mps"))}}

    async def admitted() -> None:
        (await bed.other.ask("POST", bed.other.templates(), template)).must()

    try:
        await eventually(admitted)
    finally:
        await bed.set_label("other", "ads")
    await bed.refused()
    name = fresh("pod")
    body = pod(name)
    body["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "old"}]
    (await bed.other.ask("POST", bed.other.pods(), body)).must()

    async def check() -> None:
        events = await bed.other.events(name)
        assert any(event.startswith("FailedResourceClaimCreation") and STRANGER in event for event in events), events

    await eventually(check)


async def test_a_claim_of_a_namespace_that_was_a_tenant(bed: Bed) -> None:
    await bed.set_label("other", "search")
    name = fresh("claim")

    async def admitted() -> None:
        (await bed.other.asks_for(request("search-mps"), name=name)).must()

    try:
        await eventually(admitted)
    finally:
        await bed.set_label("other", "ads")
    await bed.refused()
    answer = await bed.other.outcome(await bed.other.runs(name), name)
    assert BY_WALL + STRANGER in answer.says, answer


async def test_admin_access_is_not_for_tenants(bed: Bed) -> None:
    namespace = "/api/v1/namespaces/search"
    label = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    (await bed.admin.ask("PATCH", namespace, label)).must()
    says = "SharingPolicy search: adminAccess is not allowed on devices reserved for tenants: remove it"
    try:
        await is_refused(bed.tenant, Try("", [request("search-mps", adminAccess=True)], BY_CLAIMS + says))
        await is_refused(bed.tenant, Try("", [request("any-whole-gpu", adminAccess=True)], BY_WALL + says))
    finally:
        label = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": None}}}  # type: ignore[dict-item]
        (await bed.admin.ask("PATCH", namespace, label)).must()


async def test_a_claim_does_not_change(bed: Bed) -> None:
    (await bed.other.asks_for(request("gpu.nvidia.com"), name="one")).must()
    patch = {"spec": claim_spec(request("search-mps"))}
    answer = await bed.other.ask("PATCH", bed.other.claims("one"), patch)
    assert (answer.code, "field is immutable" in answer.says) == (422, True), answer


async def test_nobody_writes_an_allocation_of_their_own(bed: Bed) -> None:
    result = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": POOL, "device": "gpu-0"}
    status = {"status": {"allocation": {"devices": {"results": [result]}}}}
    made = await bed.other.ask("POST", bed.other.claims(), claim("one", request("gpu.nvidia.com")) | status)
    assert made.must().get("status", {}) == {}
    answer = await bed.other.ask("PATCH", bed.other.claims("one") + "/status", status)
    assert (answer.code, "cannot patch" in answer.says) == (403, True), answer


PROTECTED = "resource.kubernetes.io/delete-protection"


async def test_a_claim_that_a_pod_uses_stays(bed: Bed) -> None:
    name = (await bed.tenant.asks_for(request("search-mps"))).must()["metadata"]["name"]
    pod_name = await bed.tenant.runs(name)
    claim_ = (await bed.tenant.outcome(pod_name, name)).must()
    assert claim_["metadata"]["finalizers"] == [PROTECTED]

    async def is_kept(finalizers: list[str] | None) -> None:
        answer = await bed.tenant.ask("PATCH", bed.tenant.claims(name), {"metadata": {"finalizers": finalizers}})
        says = f"{PROTECTED} stays while pods {pod_name} uses {POOL}/gpu-42-mps: delete what uses it"
        assert (answer.code, says in answer.says) == (403, True), answer

    await is_kept(["example.com/mine"])
    (await bed.tenant.ask("DELETE", bed.tenant.claims(name))).must()
    await is_kept([])
    await is_kept(None)
    # Whatever else is changed is nobody's business.
    (await bed.tenant.ask("PATCH", bed.tenant.claims(name), {"metadata": {"labels": {"a": "b"}}})).must()
    (await bed.tenant.ask("DELETE", bed.tenant.pods(pod_name), {"gracePeriodSeconds": 0})).must()

    async def is_gone() -> None:
        assert (await bed.tenant.ask("GET", bed.tenant.claims(name))).code == 404

    await eventually(is_gone)


async def test_another_namespaces_claim_is_no_claim(bed: Bed) -> None:
    (await bed.tenant.asks_for(request("search-mps"), name="theirs")).must()
    name = await bed.other.runs("theirs")
    after = await bed.other.runs()
    # The scheduler takes them in turn: it has seen the first one.
    assert (await bed.other.scheduled(after))["status"] == "True"
    status = (await bed.other.ask("GET", bed.other.pods(name))).must()["status"]
    assert status["phase"] == "Pending"
    assert [item for item in status.get("conditions", ()) if item["status"] == "True"] == []


async def test_what_an_admin_of_a_namespace_may_not_write(bed: Bed) -> None:
    quota = "/api/v1/namespaces/search/resourcequotas/gpusharing-search"
    for method, path, body in (
        ("PATCH", "/api/v1/namespaces/other", {"metadata": {"labels": {"team": "search"}}}),
        ("POST", CLASSES, {"metadata": {"name": "mine"}, "spec": {}}),
        ("PATCH", f"{CLASSES}/search-mps", {"spec": {"selectors": None}}),
        ("PATCH", f"{GUARDS}/gpusharing-allocation", {"spec": {"validations": []}}),
        ("DELETE", f"{GUARDS}/gpusharing-allocation", None),
        ("PATCH", f"{POLICIES}/search", {"spec": {"tenants": None}}),
        ("DELETE", f"{RESOURCE}/resourceslices/n1-search", None),
        ("PATCH", quota, {"spec": {"hard": None}}),
        ("DELETE", quota, None),
        ("PATCH", f"/api/v1/nodes/{NODE}", {"metadata": {"labels": {"a": "b"}}}),
    ):
        for person in (bed.tenant, bed.other):
            answer = await person.ask(method, path, body)
            assert answer.code == 403, (method, path, answer)


async def test_a_quota_counts_devices_by_class(bed: Bed) -> None:
    (await bed.tenant.asks_for(request("search-mig"))).must()
    (await bed.tenant.asks_for(request("search-mig"))).must()
    answer = await bed.tenant.asks_for(request("search-mig"))
    assert (answer.code, "exceeded quota: gpusharing-search" in answer.says) == (403, True), answer


async def test_claims_that_are_none_of_ours(bed: Bed) -> None:
    (await bed.other.ask("POST", bed.other.claims(), {"metadata": {"name": "empty"}, "spec": {}})).must()
    (await bed.other.asks_for(request("gpu.nvidia.com"), **config({"strategy": "MPS", "mpsConfig": {}}))).must()
    tolerant = [{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}]
    (await bed.other.asks_for(request("gpu.nvidia.com", tolerations=tolerant))).must()


async def test_a_pool_of_nobody_is_for_nobody(bed: Bed) -> None:
    path = f"{RESOURCE}/resourceslices/n1-search"
    known = await bed.literal("gpusharing-allocation", "tenants")
    slice_ = (await bed.admin.ask("GET", path)).must()
    (await bed.admin.ask("DELETE", path)).must()
    del slice_["metadata"]["resourceVersion"], slice_["metadata"]["uid"]
    lost = slice_ | {"spec": slice_["spec"] | {"pool": slice_["spec"]["pool"] | {"name": f"{NODE}/gone"}}}
    (await bed.admin.ask("POST", f"{RESOURCE}/resourceslices", lost)).must()
    try:

        async def check() -> None:
            answer = await bed.tenant.gets(request("search-mps"))
            assert "is reserved for tenants of SharingPolicy gone, which this guard does not know (yet)" in answer.says

        await eventually(check)
        assert await bed.literal("gpusharing-allocation", "tenants") == known
    finally:
        (await bed.admin.ask("DELETE", path)).must()
        (await bed.admin.ask("POST", f"{RESOURCE}/resourceslices", slice_)).must()


async def test_a_policy_that_changes_lets_go_of_what_is_allocated(bed: Bed) -> None:
    answer = await bed.tenant.gets(request("search-mps"))
    name = answer.must()["metadata"]["name"]
    assert answer.body["metadata"]["finalizers"]
    everyone_else = {"namespaces": {"matchLabels": {"team": "research"}}, "allow": {"gpuConfig": []}, "quota": None}
    (await bed.admin.ask("PATCH", f"{POLICIES}/search", {"spec": {"tenants": everyone_else}})).must()

    async def changed() -> None:
        answer = await bed.tenant.ask("POST", bed.tenant.claims(), claim("x", request("search-mps")), dry=True)
        assert (answer.code, "namespace search is not one of its tenants" in answer.says) == (403, True), answer

    try:
        await eventually(changed)
        await bed.tenant.cleans_up()

        async def gone() -> None:
            assert (await bed.tenant.ask("GET", bed.tenant.claims(name))).code == 404

        await eventually(gone)
    finally:
        (await bed.admin.ask("PATCH", f"{POLICIES}/search", {"spec": {"tenants": SEARCH["spec"]["tenants"]}})).must()

        async def back() -> None:
            made = await bed.tenant.ask("POST", bed.tenant.claims(), claim("x", request("search-mps")), dry=True)
            assert made.code == 201

        await eventually(back)


async def test_claims_while_the_api_server_starts_again(bed: Bed) -> None:
    """Ten times: neither is anybody let in who should not be, nor refused who should not be."""
    for _ in range(10):
        wrong: list[Answer] = []
        done = asyncio.Event()

        async def try_all(wrong: list[Answer] = wrong, done: asyncio.Event = done) -> int:
            answers = 0
            while not done.is_set() or not answers:
                for person, device_class, expected in (
                    (bed.other, "search-mps", 403),
                    (bed.tenant, "search-mps", 201),
                    (bed.other, "gpu.nvidia.com", 201),
                ):
                    body = claim("probe", request(device_class))
                    # The API server needs the processor, too.
                    await asyncio.sleep(0.05)
                    try:
                        answer = await person.ask("POST", person.claims(), body, dry=True)
                    except aiohttp.ClientError:
                        continue
                    answers += 1
                    # It does not know anybody's rights at first, nor has the guards, and says so.
                    is_ready = answer.code < 500 and not any(said in answer.says for said in NOT_READY)
                    if is_ready and answer.code != expected:
                        wrong.append(answer)
            return answers

        trying = asyncio.create_task(try_all())
        await bed.control_plane.apiserver.kill()
        await bed.control_plane.apiserver.start()
        await bed.refused()
        done.set()
        assert await trying
        assert wrong == []
