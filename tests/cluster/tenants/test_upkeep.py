"""What the operator makes for policies with tenants: repaired, collected, never taken from others; and many of them."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from building.quantities import STORED
from cluster.tenants.bed import (
    BINDINGS,
    CLASSES,
    GUARDS,
    POLICIES,
    SEARCH,
    Bed,
    Person,
    claim,
    claim_spec,
    fresh,
    pod,
    request,
)
from harness.eventually import PATIENCE, eventually
from harness.gpu_cluster import MANIFESTS
from harness.workloads import policy

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="module")]

MPS = {"mps": {"maxClients": 8, "memory": {"default": "8Gi"}, "threads": {"default": 25}}}
EXAMPLE = Path(__file__).parents[3] / "docs/examples/tenants.yaml"
QUOTA = "resourcequotas/gpusharing-search"


def tenants(team: str, **more: Any) -> dict[str, Any]:
    return {"namespaces": {"matchLabels": {"team": team}}, **more}


async def becomes(person: Person, path: str, check: Callable[[Any], object], *, within: float = PATIENCE) -> None:
    """Until what is there passes; an absent object is None."""

    async def look() -> None:
        answer = await person.ask("GET", path)
        found = None if answer.code == 404 else answer.must()
        assert check(found), found

    await eventually(look, within=within)


async def says(bed: Bed, name: str, type_: str, reason: str) -> None:
    def check(found: Any) -> bool:
        conditions = found.get("status", {}).get("conditions", ())
        return [item["reason"] for item in conditions if item["type"] == type_] == [reason]

    await becomes(bed.admin, f"{POLICIES}/{name}", check)


async def delete(bed: Bed, path: str) -> None:
    (await bed.admin.ask("DELETE", path)).must()


@asynccontextmanager
async def policies(bed: Bed, bodies: Iterable[dict[str, Any]]) -> AsyncIterator[None]:
    """All at once: what the operator makes for them is not made anew for each."""
    made = {f"{POLICIES}/{body['metadata']['name']}": body for body in bodies}
    for answer in await asyncio.gather(*(bed.admin.ask("POST", POLICIES, body) for body in made.values())):
        answer.must()
    try:
        yield
    finally:
        await asyncio.gather(*(delete(bed, path) for path in made))


async def test_an_edited_class_is_put_right_and_a_deleted_one_made_again(bed: Bed) -> None:
    path = f"{CLASSES}/search-mps"
    right = (await bed.admin.ask("GET", path)).must()["spec"]
    edited = {
        "metadata": {"labels": None},
        "spec": {"selectors": [], "extendedResourceName": "example.com/mine", "config": None},
    }
    (await bed.admin.ask("PATCH", path, edited)).must()
    await becomes(bed.admin, path, lambda found: found["spec"] == right and found["metadata"].get("labels"))
    await delete(bed, path)
    await becomes(bed.admin, path, lambda found: found and found["spec"] == right)


async def test_a_class_that_is_not_ours_is_left_alone(bed: Bed) -> None:
    path = f"{CLASSES}/late-mps"
    theirs = {"metadata": {"name": "late-mps"}, "spec": {"selectors": [{"cel": {"expression": "false"}}]}}
    (await bed.admin.ask("POST", CLASSES, theirs)).must()
    (await bed.admin.ask("POST", POLICIES, policy("late", offers=MPS, tenants=tenants("late")))).must()
    try:
        await says(bed, "late", "Degraded", "DeviceClassExists")
        assert (await bed.admin.ask("GET", path)).must()["spec"] == theirs["spec"]
        # Nor do the guards speak for it.
        (await bed.other.ask("POST", bed.other.claims(), claim("one", request("late-mps")), dry=True)).must()
        await delete(bed, path)
        await says(bed, "late", "Degraded", "NotDegraded")
        await becomes(bed.admin, path, lambda found: found and found["metadata"]["labels"])
    finally:
        await delete(bed, f"{POLICIES}/late")


async def test_what_was_made_goes_with_its_policy(bed: Bed) -> None:
    await bed.apply(policy("brief", offers=MPS, tenants=tenants("search", quota={"mps": 3})))
    quota = "/api/v1/namespaces/search/resourcequotas/gpusharing-brief"
    counted = {"brief-mps.deviceclass.resource.k8s.io/devices": "3"}
    await becomes(bed.admin, quota, lambda found: found and found["spec"]["hard"] == counted)
    assert '"brief": ' in await bed.literal("gpusharing-allocation", "tenants")
    await delete(bed, f"{POLICIES}/brief")
    # The garbage collector learns of new kinds when it starts, and then every half a minute.
    await bed.control_plane.controller_manager.restart()
    for path in (quota, f"{CLASSES}/brief-mps"):
        await becomes(bed.admin, path, lambda found: found is None)

    async def forgotten() -> None:
        for guard, variable in (("claims", "tenants"), ("claims", "classes"), ("pods", "resources")):
            assert "brief" not in await bed.literal(f"gpusharing-{guard}", variable)

    await eventually(forgotten)


async def test_quotas_come_and_go_with_labels(bed: Bed) -> None:
    quota = f"/api/v1/namespaces/other/{QUOTA}"
    assert (await bed.admin.ask("GET", quota)).code == 404
    await bed.set_label("other", "search")
    try:
        counted = {"search-mig.deviceclass.resource.k8s.io/devices": "2"}
        await becomes(bed.admin, quota, lambda found: found and found["spec"]["hard"] == counted)
        (await bed.admin.ask("PATCH", quota, {"spec": {"hard": {"pods": "1"} | dict.fromkeys(counted)}})).must()
        await becomes(bed.admin, quota, lambda found: found["spec"]["hard"] == counted)
        await delete(bed, quota)
        await becomes(bed.admin, quota, lambda found: found)
    finally:
        await bed.set_label("other", "ads")
    await becomes(bed.admin, quota, lambda found: found is None)


async def test_guards_that_are_installed_again_are_told_again(bed: Bed) -> None:
    told = await bed.literal("gpusharing-allocation", "tenants")
    await bed.control_plane.kubectl("apply", "--kustomize", MANIFESTS)

    async def check() -> None:
        assert await bed.literal("gpusharing-allocation", "tenants") == told

    await eventually(check)
    await bed.guards_in_force()
    await bed.refused()


@pytest.mark.parametrize("missing", [GUARDS, BINDINGS], ids=["the guard itself", "its binding"])
async def test_a_guard_that_is_missing_is_said_and_opens_no_door(bed: Bed, missing: str) -> None:
    await delete(bed, f"{missing}/gpusharing-allocation")
    name = fresh("closed")
    try:
        await says(bed, "search", "Degraded", "GuardMissing")
        (await bed.admin.ask("POST", POLICIES, policy(name, offers=MPS, tenants=tenants("search")))).must()
        await says(bed, name, "Degraded", "GuardMissing")
        assert (await bed.admin.ask("GET", f"{CLASSES}/{name}-mps")).code == 404
    finally:
        await bed.control_plane.kubectl("apply", "--kustomize", MANIFESTS)
    await says(bed, "search", "Degraded", "NotDegraded")
    await becomes(bed.admin, f"{CLASSES}/{name}-mps", lambda found: found)
    await delete(bed, f"{POLICIES}/{name}")

    async def forgotten() -> None:
        assert name not in await bed.literal("gpusharing-claims", "tenants")

    await eventually(forgotten)


@pytest.mark.parametrize(
    "mistake",
    [
        {"rollout": {"paused": True}},
        {"rollout": {"mode": "Plan"}},
        {"gpus": {"selectors": [{"cel": {"expression": "?"}}]}},
    ],
    ids=["paused", "planned", "not accepted"],
)
async def test_a_mistake_leaves_what_the_guards_know(bed: Bed, mistake: dict[str, Any]) -> None:
    told = await bed.literal("gpusharing-claims", "tenants")
    generation = (await bed.admin.ask("GET", f"{POLICIES}/search")).must()["metadata"]["generation"]
    opened = {"spec": {"tenants": None} | mistake}
    (await bed.admin.ask("PATCH", f"{POLICIES}/search", opened)).must()
    try:
        await becomes(bed.admin, f"{POLICIES}/search", lambda found: found["status"]["observedGeneration"] > generation)
        assert await bed.literal("gpusharing-claims", "tenants") == told
        await bed.refused()
        assert (await bed.admin.ask("GET", f"/api/v1/namespaces/search/{QUOTA}")).code == 200
    finally:
        repaired = {"spec": {"tenants": SEARCH["spec"]["tenants"]} | dict.fromkeys(mistake)}
        (await bed.admin.ask("PATCH", f"{POLICIES}/search", repaired)).must()
    await bed.refused()


async def test_the_example(bed: Bed) -> None:
    """Without its policy, which is there already, with other offers."""
    objects = list(yaml.safe_load_all(EXAMPLE.read_text()))
    assert [item["spec"]["tenants"]["namespaces"] for item in objects if item["kind"] == "SharingPolicy"] == [
        SEARCH["spec"]["tenants"]["namespaces"]
    ]
    [namespace] = [item["metadata"]["name"] for item in objects if item["kind"] == "Namespace"]
    await bed.control_plane.kubectl("create", "namespace", namespace)
    await bed.control_plane.kubectl("wait", "--for=create", "serviceaccount/default", f"--namespace={namespace}")
    rest = json.dumps(
        {"apiVersion": "v1", "kind": "List", "items": [item for item in objects if item["kind"] != "SharingPolicy"]}
    )
    try:
        await bed.control_plane.kubectl("apply", "--filename=-", stdin=rest)
        for name in ("by-claim", "by-resource"):
            pods = ("--for=condition=PodScheduled", f"pod/{name}", f"--namespace={namespace}", "--timeout=60s")
            await bed.control_plane.kubectl("wait", *pods)
    finally:
        await bed.control_plane.kubectl("delete", "pods", "--all", f"--namespace={namespace}", "--force")
        await bed.control_plane.kubectl("delete", "namespace", namespace, "--wait=false")


async def test_quantities_are_stored_as_the_model_says(bed: Bed) -> None:
    for amount, text in STORED.items():
        hard = {"search-mps.deviceclass.resource.k8s.io/devices": str(amount)}
        body = {"metadata": {"name": "amounts"}, "spec": {"hard": hard}}
        answer = await bed.admin.ask("POST", "/api/v1/namespaces/search/resourcequotas", body, dry=True)
        assert list(answer.must()["spec"]["hard"].values()) == [text]


async def test_a_quota_that_is_stored_in_other_words_is_not_written_again(bed: Bed) -> None:
    await bed.apply(policy("many", offers=MPS, tenants=tenants("search", quota={"mps": 1000})))
    try:
        quota = "/api/v1/namespaces/search/resourcequotas/gpusharing-many"
        await becomes(bed.admin, quota, lambda found: found and [*found["spec"]["hard"].values()] == ["1k"])
        await says(bed, "many", "Degraded", "NotDegraded")
        written = await bed.operator.metric('gpusharing_intents_total{kind="Patch"')
        # Rounds of the operator.
        for team in ("search", "ads", "search", "ads"):
            await bed.set_label("other", team)
            await asyncio.sleep(0.3)
        assert await bed.operator.metric('gpusharing_intents_total{kind="Patch"') == written
    finally:
        await delete(bed, f"{POLICIES}/many")


GIANT = {
    "namespaces": {
        "matchExpressions": [
            {"key": f"k{key}", "operator": "In", "values": [f"v{key}-{number}-".ljust(63, "x") for number in range(64)]}
            for key in range(32)
        ]
    }
}


async def is_refused(person: Person, asked: dict[str, Any]) -> None:
    """Guards act up to a second after they are written."""

    async def check() -> None:
        answer = await person.ask("POST", person.claims(), claim("probe", asked), dry=True)
        assert answer.code == 403, answer

    await eventually(check)


async def is_let_in(person: Person, asked: dict[str, Any]) -> None:
    async def check() -> None:
        (await person.ask("POST", person.claims(), claim("probe", asked), dry=True)).must()

    await eventually(check)


async def test_a_giant_mutes_nobody(bed: Bed) -> None:
    """Its own GPUs are closed, and it says so; others are let in and, what matters more, are kept out again."""
    (await bed.admin.ask("POST", POLICIES, policy("giant", offers=MPS, tenants=GIANT, priority=500))).must()
    try:
        await says(bed, "giant", "Degraded", "GuardsFull")
        await bed.apply(policy("good", offers=MPS, tenants=tenants("search")))
        await is_refused(bed.other, request("good-mps"))
        (await bed.tenant.asks_for(request("good-mps"))).must()
        assert (await bed.admin.ask("GET", f"{CLASSES}/giant-mps")).code == 404
        nobody = {"spec": {"tenants": {"namespaces": {"matchLabels": {"team": "nobody"}}}}}
        (await bed.admin.ask("PATCH", f"{POLICIES}/search", nobody)).must()
        await is_refused(bed.tenant, request("search-mps"))
        # Whatever class leads there.
        answer = await bed.tenant.gets(request("any-gpu"))
        assert "gpusharing-allocation" in answer.says, answer
        await delete(bed, f"{POLICIES}/giant")
        answer = await bed.tenant.gets(request("any-gpu"))
        assert "gpusharing-allocation" in answer.says, answer
    finally:
        for name in ("giant", "good"):
            await bed.admin.ask("DELETE", f"{POLICIES}/{name}")
        repaired = {"spec": {"tenants": SEARCH["spec"]["tenants"]}}
        (await bed.admin.ask("PATCH", f"{POLICIES}/search", repaired)).must()
    await is_let_in(bed.tenant, request("search-mps"))


@pytest.mark.slow
async def test_six_hundred_small_policies_and_a_revocation(bed: Bed) -> None:
    offers = {"timeSlicing": {"maxClients": 4}}
    made = [f"team-{number:03}" for number in range(600)]
    async with policies(bed, (policy(name, offers=offers, tenants=tenants(name)) for name in made)):
        last = f"{CLASSES}/team-599-timeslicing"
        await becomes(bed.admin, last, lambda found: found, within=240)
        await says(bed, "team-599", "Degraded", "NotDegraded")
        await bed.has_tenants_of(601, "claims", "pods", "allocation")
        await is_refused(bed.tenant, request("team-599-timeslicing"))
        (await bed.admin.ask("PATCH", f"{POLICIES}/team-599", {"spec": {"tenants": tenants("search")}})).must()
        await is_let_in(bed.tenant, request("team-599-timeslicing"))
        (await bed.admin.ask("PATCH", f"{POLICIES}/team-599", {"spec": {"tenants": tenants("ads")}})).must()
        await is_refused(bed.tenant, request("team-599-timeslicing"))


async def test_two_hundred_policies(bed: Bed) -> None:
    """None of them costs the claims of others anything, whatever is written in their selectors."""
    guards = MANIFESTS.parent / "components" / "namespaces" / "guards.yaml"
    await bed.control_plane.kubectl("apply", "--filename", guards)
    hostile = 'a "quoted" one \\ with\na line and \u2603 \U0001f600'
    allow = {"gpuConfig": ["MPS"], "intervals": ["Short"], "maxThreads": 10, "maxMemory": "1Gi", "maxShares": 2}
    requirement = {"key": "stage", "operator": "NotIn", "values": ["test", hostile[:60]]}
    made = [
        policy(
            f"team-{number:03}",
            offers={"exclusive": {}, **MPS},
            tenants={"namespaces": {"matchLabels": {"team": f"{number}"}, "matchExpressions": [requirement]}}
            | {"allow": allow},
            classes={"extendedResources": {"mps": f"example.com/gpu-{number}"}},
        )
        for number in range(199)
    ]
    made[7]["spec"]["tenants"]["namespaces"]["matchLabels"]["team"] = hostile
    async with policies(bed, made):
        last = f"{CLASSES}/team-198-mps"
        await becomes(bed.admin, last, lambda found: found, within=120)
        await bed.guards_in_force()
        await bed.has_tenants_of(200, "claims", "pods", "allocation", "namespaces")
        (await bed.other.asks_for(*(request("gpu.nvidia.com", f"r{number}") for number in range(32)))).must()
        alternatives = [{"name": f"a{number}", "deviceClassName": f"team-{number:03}-mps"} for number in range(8)]
        answer = await bed.other.asks_for(
            *({"name": f"r{number}", "firstAvailable": alternatives} for number in range(32))
        )
        assert (answer.code, "team-000-mps" in answer.says) == (403, True), answer
        template = {"metadata": {"name": "one"}, "spec": {"spec": claim_spec(request("team-150-exclusive"))}}
        answer = await bed.other.ask("POST", bed.other.templates(), template)
        assert (answer.code, "SharingPolicy team-150" in answer.says) == (403, True), answer
        answer = await bed.other.ask("POST", bed.other.pods(), pod("one", limits={"example.com/gpu-150": "1"}))
        assert (answer.code, "SharingPolicy team-150" in answer.says) == (403, True), answer
        (await bed.other.ask("POST", bed.other.pods(), pod("two", limits={"example.com/other": "1"}))).must()
        answer = await bed.other.gets(request("any-gpu"))
        assert "gpusharing-allocation" in answer.says, answer
        (await bed.tenant.gets(request("search-mps"))).must()
        # Nobody becomes a tenant without the verb; whoever has every verb may make one.
        role = ("clusterrole", "labels", "--verb=patch,get", "--resource=namespaces")
        await bed.control_plane.kubectl("create", *role)
        binding = ("clusterrolebinding", "labels", "--clusterrole=labels", "--user=admin-of-other")
        await bed.control_plane.kubectl("create", *binding)
        joining = {"metadata": {"labels": {"team": "150"}}}

        async def refused() -> None:
            answer = await bed.other.ask("PATCH", "/api/v1/namespaces/other", joining)
            assert (answer.code, "a tenant of SharingPolicy team-150" in answer.says) == (403, True), answer

        await eventually(refused)
        harmless = {"metadata": {"labels": {"a": "b"}}}
        (await bed.other.ask("PATCH", "/api/v1/namespaces/other", harmless)).must()
        admin_access = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
        answer = await bed.other.ask("PATCH", "/api/v1/namespaces/other", admin_access)
        assert (answer.code, "requires the verb grant-admin-access" in answer.says) == (403, True), answer
        await bed.set_label("other", "150")
        await bed.set_label("other", "ads")
