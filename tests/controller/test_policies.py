"""What platform teams see of their policies: on a real API server, with the operator as it runs in a cluster."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

import pytest
import pytest_asyncio

from building import boards, gpu_status
from controller.bed import Everybody, Operator, eventually, everybody, install
from gpusharing.api.sharing.node_status import NodeSharingStatus
from gpusharing.core.cluster.quotas import quota_name
from gpusharing.core.devices import reported_models
from gpusharing.core.reasons import (
    AcceptedReason,
    ConditionType,
    ConflictedReason,
    DegradedReason,
    ProgressingReason,
    ReadyReason,
)
from gpusharing.kube.kinds import (
    ADMISSION_POLICIES,
    DEVICE_CLASSES,
    LEASES,
    NAMESPACES,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_QUOTAS,
    SHARING_POLICIES,
    Kind,
)
from gpusharing.kube.transport import ApiError
from harness.controlplane import ControlPlane
from harness.gpu_cluster import NAMESPACE

pytestmark = pytest.mark.cluster

REASONS: Final = {
    (ConditionType.ACCEPTED, AcceptedReason),
    (ConditionType.READY, ReadyReason),
    (ConditionType.PROGRESSING, ProgressingReason),
    (ConditionType.CONFLICTED, ConflictedReason),
    (ConditionType.DEGRADED, DegradedReason),
}

EXCLUSIVE: Final[dict[str, Any]] = {"exclusive": {}}
SHARED: Final = {"exclusive": None, "timeSlicing": {"maxClients": 4}}
EVICT: Final = {"disruption": "Evict", "maxUnavailable": 1}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(toolchain: object) -> AsyncIterator[ControlPlane]:
    async with ControlPlane() as control_plane:
        await install(control_plane)
        yield control_plane


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def operator(cluster: ControlPlane) -> AsyncIterator[Operator]:
    async with await Operator.of(cluster) as operator:
        yield operator


@pytest_asyncio.fixture
async def they(cluster: ControlPlane) -> AsyncIterator[Everybody]:
    async with everybody(cluster) as they:
        yield they
        await they.clean_up()
        await they.api.merge_patch(NAMESPACES, "default", {"metadata": {"labels": {"team": None}}})
        # Nobody collects what belonged to the policies, and what the situations have made stands beside it.
        kinds: tuple[Kind[Any], ...] = (RESOURCE_QUOTAS, replace(RESOURCE_CLAIM_TEMPLATES, label=""))
        for kind in kinds:
            for item in (await they.api.list(kind))[0]:
                metadata = item.metadata
                await they.api.delete(kind, metadata.name, uid=metadata.uid, namespace=metadata.namespace)
        for class_ in (await they.api.list(DEVICE_CLASSES))[0]:
            if not class_.metadata.name.endswith("nvidia.com"):
                await they.api.delete(DEVICE_CLASSES, class_.metadata.name, uid=class_.metadata.uid)


# --------------------------------------------------------------------------------- each condition, with each reason


async def nothing(they: Everybody) -> None:
    await they.apply_policy("p")


async def not_accepted(they: Everybody) -> None:
    await they.apply_policy("p", gpus={"selectors": [{"cel": {"expression": "nonsense"}}]})


async def waiting(they: Everybody) -> None:
    await they.make_node("n1")
    await they.apply_policy("p")


async def in_force(they: Everybody) -> None:
    await waiting(they)
    await eventually(lambda: they.winners("n1"), ["p"])
    await they.agent_acts("n1")


async def paused(they: Everybody) -> None:
    await they.make_node("n1")
    await they.apply_policy("p", rollout={"paused": True})


async def planned(they: Everybody) -> None:
    await they.make_node("n1")
    await they.apply_policy("p", rollout={"mode": "Plan"})


async def selects_no_gpu(they: Everybody) -> None:
    await they.make_node("n1")
    await they.apply_policy("p", gpus={"selectors": [{"cel": {"expression": "false"}}]})


async def a_selector_fails(they: Everybody) -> None:
    await they.make_node("n1")
    await they.apply_policy("p", gpus={"selectors": [{"cel": {"expression": 'device.attributes["x"].y'}}]})


async def outranked(they: Everybody) -> None:
    await they.make_node("n1")
    await they.apply_policy("rival", priority=1)
    await they.apply_policy("p")


async def a_gpu_is_lost(they: Everybody) -> None:
    await waiting(they)
    await eventually(lambda: they.winners("n1"), ["p"])
    await they.fails("n1", "the GPU is lost")


async def in_use(they: Everybody) -> None:
    """Whole GPUs on two nodes, and somebody has each."""
    for number in (1, 2):
        await they.make_node(f"n{number}")
        await they.hold(f"c{number}", device="gpu-0", node=f"n{number}")
    await they.apply_policy("p", offers=EXCLUSIVE, rollout=EVICT)
    for number in (1, 2):
        await eventually(lambda n=number: they.winners(f"n{n}"), ["p"])  # type: ignore[misc]
        await they.agent_acts(f"n{number}")
    await eventually(lambda: they.ready_reason("p"), "Ready")


async def rolling_out(they: Everybody) -> None:
    """They are to be evicted, one after the other."""
    await in_use(they)
    await they.edit_policy("p", offers=SHARED)


async def nobody_is_evicted(they: Everybody) -> None:
    await they.make_node("n1")
    await they.hold("c1", device="gpu-0", tolerations=[{"operator": "Exists"}])
    await they.apply_policy("p", offers=SHARED, rollout=EVICT)


async def stopped(they: Everybody) -> None:
    await rolling_out(they)
    await eventually(they.evicting, ["n1"])
    await they.fails("n1", "the GPU is lost")


def of_h100s(offers: Mapping[str, Any], **spec: Any) -> Callable[[Everybody], Awaitable[None]]:
    """What cannot be had on an H100 that does not say whether memory can be walled."""

    async def arrange(they: Everybody) -> None:
        board = boards.board("H100-80GB")
        update = {"mig_profiles": boards.profile_names(board), "model": board.product_name}
        gpu = gpu_status(0).model_copy(update=update)
        report = NodeSharingStatus(observed_generation=1, gpus=(gpu,), models=reported_models.described([board]))
        await they.make_node("n1", report=report)
        await they.apply_policy("p", offers=offers, **spec)

    return arrange


SHARES_WITH_MEMORY: Final = {"timeSlicing": {"maxClients": 2, "memory": {"default": "8Gi"}}}
QUARTERS: Final = {"mps": {"maxClients": 4, "memory": {"default": "8Gi"}, "threads": {"default": 25}}}
TOO_MUCH: Final = {
    "mps": {"maxClients": 2, "memory": {"default": "500Gi"}, "threads": {"default": 10}},
    "timeSlicing": None,
}

SEARCH: Final = {"namespaces": {"matchLabels": {"team": "search"}}}


async def no_guards(they: Everybody) -> None:
    guard = (await they.api.get(ADMISSION_POLICIES, "gpusharing-allocation")).metadata
    await they.api.delete(ADMISSION_POLICIES, guard.name, uid=guard.uid)
    await they.make_node("n1")
    await they.apply_policy("p", tenants=SEARCH)


async def a_class_of_its_name(they: Everybody) -> None:
    await they.api.create(DEVICE_CLASSES, {"metadata": {"name": "p-timeslicing"}, "spec": {}})
    await they.apply_policy("p")


async def an_extended_resource_that_is_taken(they: Everybody) -> None:
    spec = {"extendedResourceName": "example.com/gpu"}
    await they.api.create(DEVICE_CLASSES, {"metadata": {"name": "theirs"}, "spec": spec})
    await they.apply_policy("p", classes={"extendedResources": {"timeSlicing": "example.com/gpu"}})


async def a_quota_of_its_name(they: Everybody) -> None:
    await they.api.merge_patch(NAMESPACES, "default", {"metadata": {"labels": {"team": "search"}}})
    body = {"metadata": {"name": quota_name("p")}, "spec": {"hard": {"pods": "100"}}}
    await they.api.create(RESOURCE_QUOTAS, body, "default")
    await they.apply_policy("p", tenants=SEARCH | {"quota": {"timeSlicing": 4}})


async def a_template_of_its_name(they: Everybody) -> None:
    await they.api.merge_patch(NAMESPACES, "default", {"metadata": {"labels": {"team": "search"}}})
    request = {"name": "theirs", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
    body = {"metadata": {"name": "p-timeslicing"}, "spec": {"spec": {"devices": {"requests": [request]}}}}
    await they.api.create(RESOURCE_CLAIM_TEMPLATES, body, "default")
    await they.apply_policy("p", tenants=SEARCH, classes={"templates": True})


SITUATIONS: Final[Mapping[tuple[ConditionType, str], Callable[[Everybody], Awaitable[None]]]] = MappingProxyType(
    {
        (ConditionType.ACCEPTED, AcceptedReason.ACCEPTED): nothing,
        (ConditionType.ACCEPTED, AcceptedReason.INVALID_SELECTOR): not_accepted,
        (ConditionType.READY, ReadyReason.READY): in_force,
        (ConditionType.READY, ReadyReason.NOT_ACCEPTED): not_accepted,
        (ConditionType.READY, ReadyReason.PAUSED): paused,
        (ConditionType.READY, ReadyReason.PLAN): planned,
        (ConditionType.READY, ReadyReason.NO_MATCHING_NODES): nothing,
        (ConditionType.READY, ReadyReason.NO_MATCHING_GPUS): selects_no_gpu,
        (ConditionType.READY, ReadyReason.LOST_ALL_GPUS): outranked,
        (ConditionType.READY, ReadyReason.NOTHING_OFFERED): of_h100s({"mig": {"profiles": ["9g.90gb"]}}),
        (ConditionType.READY, ReadyReason.WAITING_FOR_GUARDS): no_guards,
        (ConditionType.READY, ReadyReason.WAITING_FOR_NODES): waiting,
        (ConditionType.PROGRESSING, ProgressingReason.COMPLETE): in_force,
        (ConditionType.PROGRESSING, ProgressingReason.WAITING): waiting,
        (ConditionType.PROGRESSING, ProgressingReason.ROLLING_OUT): rolling_out,
        (ConditionType.PROGRESSING, ProgressingReason.PAUSED): paused,
        (ConditionType.PROGRESSING, ProgressingReason.PLAN): planned,
        (ConditionType.PROGRESSING, ProgressingReason.STOPPED): stopped,
        (ConditionType.CONFLICTED, ConflictedReason.NO_CONFLICT): nothing,
        (ConditionType.CONFLICTED, ConflictedReason.LOST_GPUS): outranked,
        (ConditionType.DEGRADED, DegradedReason.NOT_DEGRADED): nothing,
        (ConditionType.DEGRADED, DegradedReason.GUARD_MISSING): no_guards,
        (ConditionType.DEGRADED, DegradedReason.DEVICE_CLASS_EXISTS): a_class_of_its_name,
        (ConditionType.DEGRADED, DegradedReason.EXTENDED_RESOURCE_IN_USE): an_extended_resource_that_is_taken,
        (ConditionType.DEGRADED, DegradedReason.RESOURCE_QUOTA_EXISTS): a_quota_of_its_name,
        (ConditionType.DEGRADED, DegradedReason.RESOURCE_CLAIM_TEMPLATE_EXISTS): a_template_of_its_name,
        (ConditionType.DEGRADED, DegradedReason.NODES_FAILING): a_gpu_is_lost,
        (ConditionType.DEGRADED, DegradedReason.EVICTION_TOLERATED): nobody_is_evicted,
        (ConditionType.DEGRADED, DegradedReason.SELECTOR_ERROR): a_selector_fails,
        (ConditionType.DEGRADED, DegradedReason.MEMORY_TOO_SMALL): of_h100s(TOO_MUCH),
        (ConditionType.DEGRADED, DegradedReason.UNKNOWN_MIG_PROFILE): of_h100s({"mig": {"profiles": ["9g.99gb"]}}),
        (ConditionType.DEGRADED, DegradedReason.LAYOUT_DOES_NOT_FIT): of_h100s({"mig": {"layout": {"3g.40gb": 3}}}),
        (ConditionType.DEGRADED, DegradedReason.DEFAULT_EXCEEDS_ALLOWANCE): of_h100s(
            QUARTERS, tenants={"allow": {"maxThreads": 10}}
        ),
        (ConditionType.DEGRADED, DegradedReason.MEMORY_WALL_UNSUPPORTED): of_h100s(SHARES_WITH_MEMORY),
    }
)


def test_each_reason_is_reached_by_a_situation() -> None:
    elsewhere = {
        # On an older Kubernetes with more than twenty nodes: tests/core/status/test_policy_status.py.
        (ConditionType.DEGRADED, DegradedReason.SLOW_SCHEDULER),
        # One that only another version's API server admits: tests/core/policies/test_assignment.py.
        (ConditionType.ACCEPTED, AcceptedReason.UNREADABLE),
        # Faults of ours that nobody knows: tests/core/decision/test_incremental.py.
        (ConditionType.ACCEPTED, AcceptedReason.INTERNAL_ERROR),
        (ConditionType.DEGRADED, DegradedReason.INTERNAL_ERROR),
        # A policy with a huge selector: tests/cluster/tenants/test_upkeep.py.
        (ConditionType.DEGRADED, DegradedReason.GUARDS_FULL),
    }
    assert set(SITUATIONS) == {(type_, reason) for type_, reasons in REASONS for reason in reasons} - elsewhere


@pytest.mark.parametrize(("type_", "reason"), SITUATIONS, ids=str)
async def test_each_condition_is_reached(
    cluster: ControlPlane, operator: Operator, they: Everybody, type_: ConditionType, reason: str
) -> None:
    situation = SITUATIONS[type_, reason]
    try:
        await situation(they)
        await eventually(lambda: they.reason("p", type_), reason)
        await eventually(lambda: metrics_say_the_same(operator, they), expected=True)
    finally:
        if situation is no_guards:
            await install(cluster)


async def metrics_say_the_same(operator: Operator, they: Everybody) -> bool:
    status = (await they.policy("p")).status
    shown = await operator.metrics_of("p", "policy_condition")
    gpus = await operator.metrics_of("p", "policy_gpus")
    assert status.gpus is not None
    return (
        shown == {(one.reason, one.status, one.type): 1 for one in status.conditions}
        and gpus.get(("won",), 0) == status.gpus.won
        and gpus.get(("lost",), 0) == status.gpus.lost
    )


async def test_claims_are_told_what_a_policy_does_not_give_them_any_more(operator: Operator, they: Everybody) -> None:
    await they.make_node("n1")
    await they.apply_policy("gives", offers=SHARED | {"exclusive": {}})
    await eventually(lambda: they.winners("n1"), ["gives"])
    await they.agent_acts("n1")
    await eventually(lambda: they.ready_reason("gives"), "Ready")
    await they.make_claim("wants-all", "gives-exclusive")
    await they.make_claim("wants-a-share", "gives-timeslicing")
    await they.edit_policy("gives", offers={"exclusive": None}, tenants=SEARCH)
    await eventually(lambda: they.generations("n1"), [2])
    assert await they.told("wants-all") == await they.told("wants-a-share") == []
    await eventually(lambda: operator.metrics_of("gives", "pending_claims"), {("default", "NotPlaced"): 2})
    await they.agent_acts("n1")
    await eventually(lambda: they.told("wants-all"), ["Warning ModeNotOffered"])
    await eventually(lambda: they.told("wants-a-share"), ["Warning NotATenant"])
    reasons = {("default", "ModeNotOffered"): 1, ("default", "NotATenant"): 1}
    assert await operator.metrics_of("gives", "pending_claims") == reasons


async def test_claims_of_before_the_quota_count(operator: Operator, they: Everybody) -> None:
    """Kubernetes does not count them. On two nodes; the first to go makes room."""
    await they.api.merge_patch(NAMESPACES, "default", {"metadata": {"labels": {"team": "search"}}})
    for name in ("older", "younger"):
        await they.make_claim(name)
    for node in ("n1", "n2"):
        await they.make_node(node)
    await they.apply_policy("few", offers={"exclusive": {}}, tenants=SEARCH | {"quota": {"exclusive": 1}})

    async def verdicts() -> dict[str, str]:
        entries = [entry for node in ("n1", "n2") for entry in (await they.sharing(node)).spec.claims]
        return {entry.claim: entry.reason or entry.verdict for entry in entries}

    async def is_allocated(name: str, node: str) -> bool:
        try:
            await they.allocate(name, device="gpu-0", node=f"{node}/few")
        except ApiError as error:
            if "this guard does not know (yet)" not in error.message:
                raise
            return False
        return True

    await eventually(lambda: is_allocated("older", "n1"), expected=True)
    await eventually(verdicts, {"default/older": "Allowed"})
    await they.allocate("younger", device="gpu-0", node="n2/few")
    why = (
        "SharingPolicy few: spec.tenants.quota.exclusive permits namespace default 1, and older claims have them; "
        "delete ResourceClaim younger in namespace default"
    )
    await eventually(verdicts, {"default/older": "Allowed", "default/younger": why})
    assert await operator.metrics_of("few", "pending_claims") == {("default", "Denied"): 1}
    await they.leave("older")
    await eventually(verdicts, {"default/younger": "Allowed"})
    assert await operator.metrics_of("few", "pending_claims") == {}


async def test_the_metrics_of_a_quota_are_what_kubernetes_counts(operator: Operator, they: Everybody) -> None:
    await they.api.merge_patch(NAMESPACES, "default", {"metadata": {"labels": {"team": "search"}}})
    await they.make_node("n1")
    quota = {"quota": {"exclusive": 2, "timeSlicing": 1000}}
    await they.apply_policy("limited", offers=SHARED | EXCLUSIVE, tenants=SEARCH | quota)
    hard = {("default", "Exclusive"): 2, ("default", "TimeSlicing"): 1000}
    await eventually(lambda: operator.metrics_of("limited", "quota_hard"), hard)
    # The API server counts claims from the moment on at which it has seen the quota.
    numbers = itertools.count()

    async def is_counted() -> bool:
        await they.make_claim(f"share-{next(numbers)}", "limited-timeslicing")
        return bool(await used())

    async def used() -> int:
        quota = await they.api.get(RESOURCE_QUOTAS.as_json(), quota_name("limited"), namespace="default")
        counts = quota.get("status", {}).get("used", {})
        return int(counts.get("limited-timeslicing.deviceclass.resource.k8s.io/devices", 0))

    await eventually(is_counted, expected=True)
    counted = {("default", "TimeSlicing"): await used()}
    await eventually(lambda: operator.metrics_of("limited", "quota_used"), counted)


# ------------------------------------------------------------------------------------------------------- rollouts


NODES: Final = [f"n{number:02}" for number in range(20)]


async def evict(they: Everybody, node: str) -> None:
    """What the API server's controllers, the kubelet and the agent do together."""
    await they.leave(f"c-{node}")
    await they.agent_acts(node)


async def test_a_rollout_over_twenty_nodes_one_of_which_fails_and_an_operator_that_is_killed(
    cluster: ControlPlane, operator: Operator, they: Everybody
) -> None:
    earlier = await they.told("p")
    for node in NODES:
        await they.make_node(node)
        await they.hold(f"c-{node}", device="gpu-0", node=node)
    await they.apply_policy("p", offers=EXCLUSIVE, rollout={"disruption": "Evict", "maxUnavailable": "10%"})
    for node in NODES:
        await eventually(lambda node=node: they.winners(node), ["p"])  # type: ignore[misc]
        await they.agent_acts(node)
    await eventually(lambda: they.ready_reason("p"), "Ready")
    last_good = (await they.policy("p")).status.last_ready
    assert last_good is not None
    assert last_good.spec["offers"] == EXCLUSIVE
    printed = await cluster.kubectl("get", "gsp", "p", "--output=jsonpath={.status.lastReady.spec}")
    assert json.loads(printed) == last_good.spec

    await they.edit_policy("p", offers=SHARED)
    await eventually(they.evicting, ["n00", "n01"])
    await eventually(lambda: they.reason("p", "Progressing"), "RollingOut")
    await evict(they, "n00")
    await eventually(they.evicting, ["n01", "n02"])

    # Killed while two are under way, one of which fails and one gets through meanwhile.
    await operator.kill()
    await evict(they, "n02")
    await they.leave("c-n01")
    await they.fails("n01", "fell off the bus")
    # Who is killed cannot give its lease back, and the next one would wait for it.
    free = {"spec": {"holderIdentity": ""}}
    await they.api.merge_patch(LEASES, "gpusharing-operator", free, namespace=NAMESPACE)
    await operator.start()
    await eventually(they.evicting, ["n03"])
    told = "1 node failing: GPU-n01-0 of n01: fell off the bus"
    await eventually(lambda: they.message("p", "Degraded"), told)

    # A second one, and there is no room left.
    await they.leave("c-n03")
    await they.fails("n03", "fell off as well")
    await eventually(lambda: they.reason("p", "Progressing"), "Stopped")
    stopped = await they.message("p", "Progressing")
    assert stopped is not None
    assert stopped.startswith("rollout stopped: failing nodes use up rollout.maxUnavailable, 16 nodes held back")
    policy = await they.policy("p")
    assert policy.status.nodes is not None
    assert (policy.status.nodes.held_back, policy.status.nodes.failing) == (16, 2)
    progress = {("Ready",): 2, ("HeldBack",): 16, ("Failing",): 2}
    await eventually(lambda: operator.metrics_of("p", "rollout_nodes"), progress)
    assert policy.status.last_ready == last_good
    assert {node: await they.generations(node) for node in NODES[4:]} == {node: [1] for node in NODES[4:]}
    # Mended, it goes on by itself, two at a time to the end.
    await they.agent_acts("n01")
    await they.agent_acts("n03")
    for number in range(4, 20):
        await eventually(they.evicting, NODES[number : number + 2])
        await evict(they, NODES[number])
    await eventually(lambda: they.reason("p", "Progressing"), "Complete")
    await eventually(lambda: they.ready_reason("p"), "Ready")
    assert await operator.metrics_of("p", "rollout_nodes") == {("Ready",): 20}
    # Since it was started again.
    assert await operator.metrics_of("p", "evictions_total") == {(): 17}
    again = (await they.policy("p")).status.last_ready
    assert again is not None
    assert again.spec["offers"] == {"timeSlicing": {"maxClients": 4}}
    # Each thing was told once: the operator that came after has not told it again.
    events = (await they.told("p"))[len(earlier) :]
    assert events.count("Warning Stopped") == 1
    assert events.count("Warning NodesFailing") <= 2


async def test_a_plan_is_told_and_nothing_else_is_written(operator: Operator, they: Everybody) -> None:
    await in_use(they)
    before = {node: (await they.sharing(node)).metadata.resource_version for node in ("n1", "n2")}

    await they.edit_policy("p", offers=SHARED, rollout=EVICT | {"mode": "Plan"})
    await eventually(lambda: they.ready_reason("p"), "Plan")
    plan = (await they.policy("p")).status.plan
    assert plan is not None
    assert plan.to_json() == {
        "totals": {"nodes": 2, "gpus": 2, "claims": 2, "evicted": 2, "repartitioned": 0},
        "nodes": [
            {
                "node": node,
                "gpus": [
                    {"uuid": f"GPU-{node}-0", "from": "p", "to": "p", "effect": "Evicts", "claims": [f"default/{held}"]}
                ],
            }
            for node, held in (("n1", "c1"), ("n2", "c2"))
        ],
    }
    # It stays true while the world changes, and is all that is written.
    await they.leave("c2")
    await eventually(lambda: they.evictions_planned("p"), 1)
    n1 = (await they.sharing("n1")).metadata.resource_version
    assert n1 == before["n1"]
    assert not await they.evicting()

    # As it said: and the plan is gone, also those parts of it that were deep inside.
    await they.edit_policy("p", rollout={"mode": "Apply"})
    await eventually(they.evicting, ["n1"])
    await eventually(lambda: they.evictions_planned("p"), None)


async def test_two_policies_fight(operator: Operator, they: Everybody) -> None:
    """Each edit of priorities moves the GPU once, and both say who has it."""
    await they.make_node("n1")
    await they.apply_policy("a", priority=1)
    await they.apply_policy("b", priority=0, offers=EXCLUSIVE)
    for number in range(2, 12, 2):
        await eventually(lambda: they.winners("n1"), ["a"])
        await eventually(they.conflicts, {"a": "NoConflict", "b": "LostGpus"})
        await they.edit_policy("b", priority=number)
        await eventually(lambda: they.winners("n1"), ["b"])
        await eventually(they.conflicts, {"a": "LostGpus", "b": "NoConflict"})
        await they.edit_policy("a", priority=number + 1)
    # A mistake in the edit that would win it: it is not even its priority that counts.
    await eventually(lambda: they.winners("n1"), ["a"])
    await they.edit_policy("b", priority=100, gpus={"selectors": [{"cel": {"expression": "nonsense"}}]})
    await eventually(lambda: they.ready_reason("b"), "NotAccepted")
    assert await they.winners("n1") == ["a"]
    # Nor, where it has the GPU, do mistakes win it a higher rank than it had.
    await they.edit_policy("a", priority=-5, gpus={"selectors": [{"cel": {"expression": "nonsense"}}]})
    await eventually(lambda: they.ready_reason("a"), "NotAccepted")
    [entry] = (await they.sharing("n1")).spec.gpus
    assert (entry.policy and entry.policy.name, entry.priority) == ("a", 11)


# ------------------------------------------------------------------------------------------- people and GitOps tools


async def test_kubectl_wait_and_columns(cluster: ControlPlane, operator: Operator, they: Everybody) -> None:
    await waiting(they)
    await eventually(lambda: they.winners("n1"), ["p"])
    ready = asyncio.create_task(cluster.kubectl("wait", "--for=condition=Ready", "sharingpolicy/p", "--timeout=60s"))
    await they.agent_acts("n1")
    assert "condition met" in await ready
    header, row = (await cluster.kubectl("get", "gsp")).splitlines()
    assert header.split() == ["NAME", "READY", "REASON", "PROGRESSING", "NODES", "GPUS", "CLIENTS", "MAX", "AGE"]
    assert row.split()[:-1] == ["p", "True", "Ready", "Complete", "1", "1", "0", "4"]


MANIFEST: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "apiVersion": "gpusharing.dev/v1alpha1",
        "kind": "SharingPolicy",
        "metadata": {"name": "p"},
        "spec": {
            "nodes": {"matchLabels": {"pool": "x"}},
            "offers": {"timeSlicing": {"maxClients": 4, "memory": {"default": "25%"}}, "exclusive": {}},
            "tenants": {"namespaces": {"matchLabels": {"team": "search"}}, "allow": {"maxShares": 1}},
            "classes": {"extendedResources": {"timeSlicing": "example.com/gpu-shared"}},
            "rollout": {"disruption": "Evict", "maxUnavailable": "10%"},
        },
    }
)


@pytest.mark.parametrize("manager", ["argocd-controller", "kustomize-controller"])
async def test_tools_that_apply_on_the_server_see_no_drift(
    cluster: ControlPlane, operator: Operator, they: Everybody, manager: str
) -> None:
    async def apply(*arguments: str) -> str:
        flags = ["--server-side", f"--field-manager={manager}", "--filename=-"]
        return await cluster.kubectl(*arguments, *flags, stdin=json.dumps(dict(MANIFEST)))

    await apply("apply")
    await they.make_node("n1", labels={"pool": "x"})
    await eventually(lambda: they.ready_reason("p"), "WaitingForNodes")
    await eventually(lambda: they.winners("n1"), ["p"])
    await they.agent_acts("n1")
    await eventually(lambda: they.ready_reason("p"), "Ready")
    before = await they.policy("p")
    # A difference is told by a return code, which fails here.
    assert not await apply("diff")
    await apply("apply")
    after = await they.policy("p")
    assert after.metadata.resource_version == before.metadata.resource_version
    # Of what they wrote they own all and the operator nothing; and of nested objects nothing was added.
    stored = await they.api.get(UNTYPED_POLICIES, "p")
    spec = stored["spec"]
    assert spec["tenants"] == MANIFEST["spec"]["tenants"]
    assert "gpus" not in spec
    owners = {entry["manager"]: entry.get("subresource") for entry in stored["metadata"]["managedFields"]}
    assert [name for name, part in owners.items() if part is None] == [manager]


UNTYPED_POLICIES: Final[Kind[Any]] = Kind(
    SHARING_POLICIES.api_version, "SharingPolicy", "sharingpolicies", dict[str, Any]
)


# ------------------------------------------------------------------------------------- a mistake never opens the fleet


async def test_a_policy_that_cannot_be_read_keeps_what_it_has(
    cluster: ControlPlane, operator: Operator, they: Everybody
) -> None:
    """Written by a newer version of this program, say; also when the operator starts anew."""
    await in_force(they)
    name = "sharingpolicies.gpusharing.dev"
    definition = json.loads(await cluster.kubectl("get", "crd", name, "--output=json"))
    path = "/spec/versions/0/schema/openAPIV3Schema"

    async def set_schema(schema: Any) -> None:
        patch = [{"op": "replace", "path": path, "value": schema}]
        await cluster.kubectl("patch", "crd", name, "--type=json", f"--patch={json.dumps(patch)}")

    async def is_unreadable() -> bool:
        patch = {"spec": {"offers": {"timeSlicing": {"maxClients": "many"}}}}
        stored = await they.api.merge_patch(UNTYPED_POLICIES, "p", patch)
        return bool(stored["spec"]["offers"]["timeSlicing"]["maxClients"] == "many")

    async def unreadable_is_taken() -> bool:
        try:
            return await is_unreadable()
        except Exception:  # noqa: BLE001 (until the new schema is in force)
            return False

    await set_schema({"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    try:
        await eventually(unreadable_is_taken, expected=True)
        await they.make_node("n2")
        await eventually(lambda: they.winners("n2"), [None])
        assert await they.winners("n1") == ["p"]
        await operator.restart()
        await they.make_node("n3")
        await eventually(lambda: they.winners("n3"), [None])
        assert await they.winners("n1") == ["p"]
        # Deleted is deleted.
        await cluster.kubectl("delete", "sharingpolicies", "--all")
        await eventually(lambda: they.winners("n1"), [None])
    finally:
        await cluster.kubectl("delete", "sharingpolicies", "--all")
        await set_schema(definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"])


async def test_nobody_holds_up_the_end_of_a_policy(cluster: ControlPlane, operator: Operator, they: Everybody) -> None:
    """A tenant knows its uid from the quota: an object that it owns is waited for by a deletion in the foreground."""
    await in_force(they)
    uid = await cluster.kubectl("get", "sharingpolicy", "p", "--output=jsonpath={.metadata.uid}")
    owner = {"apiVersion": "gpusharing.dev/v1alpha1", "kind": "SharingPolicy", "name": "p", "uid": uid}
    metadata = {
        "name": "clings",
        "ownerReferences": [owner | {"blockOwnerDeletion": True}],
        "finalizers": ["example.com/mine"],
    }
    clinging = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    await cluster.kubectl("apply", "--filename=-", stdin=json.dumps(clinging))
    try:
        await cluster.kubectl("delete", "sharingpolicy", "p", "--cascade=foreground", "--wait=false")
        await eventually(lambda: they.winners("n1"), [None])
        assert await cluster.kubectl("get", "sharingpolicy", "p", "--output=jsonpath={.metadata.deletionTimestamp}")
        await operator.restart()
        await they.make_node("n2")
        await eventually(lambda: they.winners("n2"), [None])
        await they.apply_policy("q")
        await eventually(lambda: they.winners("n1"), ["q"])
    finally:
        patch = '{"metadata": {"finalizers": null}}'
        await cluster.kubectl("patch", "configmap/clings", "--type=merge", f"--patch={patch}")
        await cluster.kubectl("wait", "sharingpolicy/p", "--for=delete", "--timeout=60s")


async def test_a_gpu_that_is_not_reported_for_a_while_comes_back_as_it_was(operator: Operator, they: Everybody) -> None:
    await they.make_node("n1", gpus=2)
    await they.apply_policy("p")
    await eventually(lambda: they.winners("n1"), ["p", "p"])
    found = (await they.sharing("n1")).status
    await they.report("n1", found.model_copy(update={"gpus": found.gpus[:1]}))
    await they.edit_policy("p", rollout={"paused": True}, priority=5)
    await eventually(lambda: they.reason("p", "Progressing"), "Paused")
    assert await they.winners("n1") == ["p", "p"]
    await they.report("n1", found)
    # Although the policy wants nothing new, the GPU is its own.
    await eventually(lambda: they.won("p"), 2)
    assert await they.winners("n1") == ["p", "p"]
