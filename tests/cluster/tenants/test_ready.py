"""Ready is true: strangers are refused from that moment on, and before it nobody is let in."""

import asyncio
import contextlib
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from cluster.tenants.bed import BINDINGS, CLASSES, POLICIES, Answer, Bed, Person, claim, fresh, request
from cluster.tenants.test_upkeep import becomes, delete
from controller.bed import Everybody, everybody
from gpusharing.kube.transport import ApiError
from harness.eventually import eventually
from harness.gpu_cluster import MANIFESTS
from harness.workloads import policy

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="module")]

TENANTS = {"namespaces": {"matchLabels": {"team": "search"}}}


@asynccontextmanager
async def a_node(bed: Bed, name: str) -> AsyncIterator[Everybody]:
    """With an agent that does what it is told, for the policies that select it by its name."""

    async def acts(they: Everybody) -> None:
        while True:
            with contextlib.suppress(ApiError):
                await they.agent_acts(name)
            await asyncio.sleep(0.05)

    async with everybody(bed.control_plane) as they:
        await they.make_node(name, labels={"only": name})
        agent = asyncio.create_task(acts(they))
        try:
            yield they
        finally:
            agent.cancel()
            await delete(bed, f"/api/v1/nodes/{name}")
            # With its Node, at the latest by the garbage collector.
            await bed.admin.ask("DELETE", f"/apis/gpusharing.dev/v1alpha1/nodesharings/{name}")


def of_node(name: str, **spec: Any) -> dict[str, Any]:
    nodes = {"matchLabels": {"only": name}}
    # Above the policy of this bed, which selects all nodes.
    return policy(name, offers={"timeSlicing": {"maxClients": 4}}, nodes=nodes, priority=200, **spec)


async def until(check: Callable[[], Awaitable[bool]]) -> None:
    """Asks without a pause, so that the first moment does not pass."""
    async with asyncio.timeout(30):
        while not await check():
            pass


async def apply(bed: Bed, name: str) -> None:
    (await bed.admin.ask("POST", POLICIES, of_node(name, tenants=TENANTS))).must()


async def is_ready(person: Person, name: str) -> bool:
    answer = await person.ask("GET", f"{POLICIES}/{name}")
    conditions = answer.body.get("status", {}).get("conditions", ()) if answer.code == 200 else ()
    return any((item["type"], item["status"]) == ("Ready", "True") for item in conditions)


async def asks(person: Person, name: str) -> Answer:
    return await person.ask("POST", person.claims(), claim("stranger", request(f"{name}-timeslicing")), dry=True)


async def at_the_first_moment(bed: Bed, name: str) -> dict[str, Answer]:
    """What a stranger is told when the class is there, and when the policy is ready."""
    told: dict[str, Answer] = {}
    async with asyncio.timeout(30):
        while len(told) < 2:
            if "class" not in told and (await bed.admin.ask("GET", f"{CLASSES}/{name}-timeslicing")).code == 200:
                told["class"] = await asks(bed.other, name)
            if "ready" not in told and await is_ready(bed.admin, name):
                told["ready"] = await asks(bed.other, name)
    return told


async def test_from_the_first_moment_on_strangers_are_refused(bed: Bed) -> None:
    took: list[float] = []
    for _ in range(12):
        name = fresh("race")
        async with a_node(bed, name):
            began = time.monotonic()
            await apply(bed, name)
            told = await at_the_first_moment(bed, name)
            took.append(time.monotonic() - began)
            assert {moment: answer.code for moment, answer in told.items()} == {"class": 403, "ready": 403}
            await delete(bed, f"{POLICIES}/{name}")
    print(f"ready after {min(took):.1f} to {max(took):.1f} s")


async def test_a_policy_without_tenants_waits_for_nobody(bed: Bed) -> None:
    name = fresh("open")
    async with a_node(bed, name):
        began = time.monotonic()
        (await bed.admin.ask("POST", POLICIES, of_node(name))).must()
        await until(lambda: is_ready(bed.admin, name))
        print(f"ready after {time.monotonic() - began:.1f} s")
        await delete(bed, f"{POLICIES}/{name}")


async def test_also_after_a_restart_of_the_api_server(bed: Bed) -> None:
    name = fresh("race")
    async with a_node(bed, name):
        await apply(bed, name)
        await at_the_first_moment(bed, name)
        for _ in range(2):
            # Not gracefully, which takes as long as a lease.
            await bed.control_plane.apiserver.kill()
            await bed.control_plane.apiserver.start()
            for _ in range(50):
                if await is_ready(bed.admin, name):
                    answer = await asks(bed.other, name)
                    assert answer.code == 403, answer
            assert await is_ready(bed.admin, name)
        if not bed.operator.running:
            # It has lost its lease, on a machine that is busy.
            await bed.operator.start()
        await delete(bed, f"{POLICIES}/{name}")


@pytest.mark.parametrize("guard", ["allocation", "claims", "pods"])
async def test_also_after_a_guard_was_out_of_force(bed: Bed, guard: str) -> None:
    name = fresh("race")
    async with a_node(bed, name):
        await apply(bed, name)
        await at_the_first_moment(bed, name)

        async def is_not_ready() -> None:
            assert not await is_ready(bed.admin, name)

        await delete(bed, f"{BINDINGS}/gpusharing-{guard}")
        await eventually(is_not_ready)
        # A class that is there stays.
        (await bed.admin.ask("GET", f"{CLASSES}/{name}-timeslicing")).must()
        await bed.control_plane.kubectl("apply", "--kustomize", MANIFESTS)
        told = await at_the_first_moment(bed, name)
        assert told["ready"].code == 403
        await delete(bed, f"{POLICIES}/{name}")


async def test_a_restart_of_the_operator_changes_nothing(bed: Bed) -> None:
    name = fresh("race")
    async with a_node(bed, name):
        await apply(bed, name)
        await at_the_first_moment(bed, name)
        before = (await bed.admin.ask("GET", f"{POLICIES}/{name}")).must()["metadata"]["resourceVersion"]
        await bed.operator.restart()
        (await bed.admin.ask("PATCH", f"{POLICIES}/{name}", {"metadata": {"labels": {"a": "b"}}})).must()
        await asyncio.sleep(3)
        found = (await bed.admin.ask("GET", f"{POLICIES}/{name}")).must()
        [ready] = [item for item in found["status"]["conditions"] if item["type"] == "Ready"]
        # Nothing but the label was written.
        assert (ready["status"], int(found["metadata"]["resourceVersion"]) > int(before)) == ("True", True)
        written = [entry for entry in found["metadata"]["managedFields"] if entry.get("subresource") == "status"]
        assert all(entry["time"] <= ready["lastTransitionTime"] for entry in written), json.dumps(written)
        await delete(bed, f"{POLICIES}/{name}")


async def probes(bed: Bed) -> int:
    """Dry runs of Leases, of which nobody else makes any."""
    page = await bed.control_plane.kubectl("get", "--raw", "/metrics")
    pattern = r'^apiserver_request_total\{[^}]*dry_run="All"[^}]*resource="leases"[^}]*\} (\S+)$'
    return sum(int(float(count)) for count in re.findall(pattern, page, re.MULTILINE))


async def test_at_rest_hardly_anything_is_asked(bed: Bed) -> None:
    name = fresh("race")
    async with a_node(bed, name):
        await apply(bed, name)
        await at_the_first_moment(bed, name)
        await asyncio.sleep(3)
        before = await probes(bed)
        assert before > 0
        await asyncio.sleep(10)
        # At most one look at each of three guards.
        assert await probes(bed) - before <= 3
        await delete(bed, f"{POLICIES}/{name}")


async def test_a_stranger_who_is_no_tenant_any_more_is_refused_when_the_policy_is_ready_again(bed: Bed) -> None:
    """An edit of tenants takes as long."""
    name = fresh("race")
    async with a_node(bed, name):
        await apply(bed, name)
        await at_the_first_moment(bed, name)
        for team in ("ads", "search", "ads", "search"):
            edited = {"spec": {"tenants": {"namespaces": {"matchLabels": {"team": team}}}}}
            generation = (await bed.admin.ask("PATCH", f"{POLICIES}/{name}", edited)).must()["metadata"]["generation"]

            async def is_ready_again(generation: int = generation) -> bool:
                found = (await bed.admin.ask("GET", f"{POLICIES}/{name}")).must()
                return found["status"]["observedGeneration"] == generation and await is_ready(bed.admin, name)

            await until(is_ready_again)
            told = {person.namespace: (await asks(person, name)).code for person in (bed.tenant, bed.other)}
            assert told == ({"search": 403, "other": 201} if team == "ads" else {"search": 201, "other": 403})
        await delete(bed, f"{POLICIES}/{name}")
        await becomes(bed.admin, f"{POLICIES}/{name}", lambda found: found is None)
