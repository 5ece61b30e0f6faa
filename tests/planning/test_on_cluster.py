"""A plan says what the operator then does: on a real API server, with the operator as it runs in a cluster.

The test plays agents, the scheduler and tenants.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio

from building import gpu_status
from building.boards import board
from controller.bed import Everybody, Operator, eventually, everybody, install
from gpusharing.api.names import Sharing, policy_class
from gpusharing.api.sharing.gpu_status import MigInstanceStatus, MigMode, PublishedDevice
from gpusharing.api.sharing.modes import for_mode
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.api.sharing.node_spec import GpuSharing
from gpusharing.api.sharing.node_status import NodeSharingStatus
from gpusharing.api.sharing.plan import Effect
from gpusharing.cli.snapshot import read_world
from gpusharing.core.devices import reported_models
from gpusharing.core.rollout.plan import facts
from gpusharing.findings import planning
from gpusharing.findings.finding import Entry
from gpusharing.kube.kinds import (
    ADMISSION_POLICIES,
    DEVICE_CLASSES,
    NODE_SHARINGS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_QUOTAS,
    SHARING_POLICIES,
)
from gpusharing.planning.changes import Plan
from gpusharing.planning.deciding import Edit
from gpusharing.planning.plan import plan
from gpusharing.snapshots import file, lines
from harness.controlplane import ControlPlane
from planning.fleets import TEAM, mps, policy, time_slicing

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="module")]

NODES: Final = ("n1", "n2", "n3")
KEPT_LABELS: Final = {"pool": "inference"}
OURS: Final = ("-exclusive", "-timeslicing", "-mps", "-mig")


@dataclass(frozen=True)
class Case:
    before: Sequence[Mapping[str, Any]]
    after: Sequence[Mapping[str, Any]]
    """Those that are applied."""
    held: Sequence[tuple[str, str]] = ()
    """Node and device of claims."""
    prunes: bool = False
    effects: Mapping[Effect, int] = field(default_factory=dict)
    """How many GPUs are affected in which way."""
    finding: Entry | None = None
    """What is found of the policy, and its status says then."""


SHARED: Final = policy("shared", offers=time_slicing(4))
CASES: Final = {
    "nothing": Case([SHARED], [SHARED], [("n1", "gpu-0-timeslicing")]),
    "nobody is disturbed": Case([], [SHARED], effects={Effect.NONE: 6}),
    "another number of clients": Case(
        [SHARED], [policy("shared", offers=time_slicing(8))], [("n1", "gpu-0-timeslicing")], effects={Effect.NONE: 6}
    ),
    "another mode waits for claims": Case(
        [SHARED],
        [policy("shared", offers=mps())],
        [("n1", "gpu-0-timeslicing"), ("n2", "gpu-1-timeslicing")],
        effects={Effect.WAITS: 2, Effect.NONE: 4},
    ),
    "pods are evicted, a node at a time": Case(
        [SHARED],
        [policy("shared", offers=mps(), rollout={"disruption": "Evict", "maxUnavailable": 1})],
        [("n1", "gpu-0-timeslicing"), ("n2", "gpu-1-timeslicing"), ("n3", "gpu-0-timeslicing")],
        effects={Effect.EVICTS: 3, Effect.NONE: 3},
    ),
    "GPUs in use stay unchanged": Case(
        [SHARED],
        [policy("shared", offers=mps(), rollout={"disruption": "Never"})],
        [("n1", "gpu-0-timeslicing")],
        effects={Effect.UNCHANGED_UNTIL_IDLE: 1, Effect.NONE: 5},
    ),
    "tenants, a quota and an extended resource": Case(
        [policy("shared", offers=mps())],
        [
            policy(
                "shared",
                offers=mps(),
                tenants={"namespaces": {"matchLabels": TEAM}, "quota": {"mps": 3}, "allow": {"maxThreads": 50}},
                classes={"extendedResources": {"mps": "example.com/gpu-share"}, "templates": True},
            )
        ],
        [("n1", "gpu-0-mps")],
        effects={Effect.WAITS: 1, Effect.CLOSES_FIRST: 5},
    ),
    "a policy of higher rank wins some GPUs": Case(
        [SHARED],
        [policy("first", priority=10, nodes={"matchLabels": KEPT_LABELS}, gpus={"maxPerNode": 1}, offers=mps())],
        [("n1", "gpu-0-timeslicing")],
        effects={Effect.WAITS: 1},
    ),
    "a policy is deleted": Case([SHARED], [], [("n2", "gpu-0-timeslicing")], True, {Effect.WAITS: 1, Effect.NONE: 5}),
    "a static layout": Case(
        [SHARED],
        [policy("shared", offers={"mig": {"layout": {"1g.10gb": 2, "3g.40gb": 1}}})],
        [("n1", "gpu-0-timeslicing")],
        effects={Effect.WAITS: 1, Effect.REPARTITIONS: 5},
    ),
    "a policy in Plan": Case(
        [SHARED], [policy("shared", offers=mps(), rollout={"mode": "Plan"})], finding=planning.SUSPENDED
    ),
    "a selector that is no CEL": Case(
        [SHARED],
        [policy("shared", offers=mps(), gpus={"selectors": [{"cel": {"expression": "device.nope"}}]})],
        finding=planning.NOT_ACCEPTED,
    ),
    "no node matches": Case(
        [], [policy("other", nodes={"matchLabels": {"no": "node"}}, offers=mps())], finding=planning.NOT_READY
    ),
    "a profile that GPUs do not have": Case(
        [],
        [policy("other", offers={"exclusive": {}, "mig": {"profiles": ["9g.90gb"]}})],
        effects={Effect.NONE: 6},
        finding=planning.DEGRADED,
    ),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def control_plane_with_operator(toolchain: Path) -> AsyncIterator[ControlPlane]:
    async with ControlPlane() as control_plane:
        await install(control_plane)
        async with await Operator.of(control_plane):
            yield control_plane


@pytest_asyncio.fixture(loop_scope="module")
async def they(control_plane_with_operator: ControlPlane) -> AsyncIterator[Everybody]:
    async with everybody(control_plane_with_operator) as they:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "search", "labels": TEAM}}
        await control_plane_with_operator.kubectl("apply", "--filename=-", stdin=json.dumps(namespace))
        for name, labels in (("n1", KEPT_LABELS), ("n2", {}), ("n3", {})):
            await they.make_node(name, labels=labels, report=report(name))
        yield they
        await they.clean_up()
        await remove_what_is_ours(they)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_what_is_planned_is_done(control_plane_with_operator: ControlPlane, they: Everybody, case: Case) -> None:
    await apply(control_plane_with_operator, case.before)
    names = [one["metadata"]["name"] for one in case.before]
    await settled(they, names)
    for number, (node, device) in enumerate(case.held):
        await they.hold(f"c{number}", device=device, node=node)
    await eventually(lambda: holders(they), len(case.held))

    before = await entries(they)
    world = await asyncio.to_thread(read_world, control_plane_with_operator.kubeconfig, None)
    # By way of a file, as in CI.
    planned = plan(lines.loads(file.dumps(world).encode()), Edit(policies=case.after, prunes=case.prunes))
    effects = [gpu.effect for node in planned.nodes for gpu in node.gpus]
    assert {effect: effects.count(effect) for effect in set(effects)} == case.effects

    deleted = names if case.prunes else []
    known = set(await names_of_classes(they)) - {policy_class(name, mode) for name in deleted for mode in Sharing}
    await apply(control_plane_with_operator, case.after)
    for name in deleted:
        await they.delete_policy(name)
    for wave in waves(planned):
        await eventually(they.evicting, wave)
        await evicted_leave(they, case.held, wave)
    if Effect.REPARTITIONS in case.effects:
        await eventually(lambda: differing(they, planned, before, acting=True), {})
    await eventually(lambda: differing(they, planned, before), {})
    await eventually(lambda: cluster_differs(they, planned, known), [])
    await eventually(lambda: said(they, planned), [case.finding.code] if case.finding else [])


OF_STATUS: Final = {
    planning.NOT_ACCEPTED.code: "Accepted",
    planning.NOT_READY.code: "Ready",
    planning.DEGRADED.code: "Degraded",
    planning.SUSPENDED.code: "Ready",
}


async def said(they: Everybody, planned: Plan) -> list[str]:
    """Codes of findings that the statuses of policies now say as well."""
    found: list[str] = []
    for one in planned.findings:
        if type_ := OF_STATUS.get(one.code):
            condition = await they.condition(one.object.name, type_)
            reason = condition.reason if condition else None
            suspended = one.code == planning.SUSPENDED.code and reason in {"Plan", "Paused"}
            refused = one.code == planning.NOT_ACCEPTED.code and condition is not None and condition.status == "False"
            if suspended or refused or reason == one.values.get("reason"):
                found.append(one.code)
    return found


def waves(planned: Plan) -> list[list[str]]:
    """Nodes from which pods are evicted at the same time."""
    evicting = {node.node for node in planned.nodes if any(gpu.effect is Effect.EVICTS for gpu in node.gpus)}
    found = [sorted(evicting.intersection(step.nodes)) for step in planned.steps]
    return [wave for wave in found if wave]


async def evicted_leave(they: Everybody, held: Sequence[tuple[str, str]], nodes: Sequence[str]) -> None:
    for number, (node, _) in enumerate(held):
        if node in nodes:
            await they.leave(f"c{number}")
    for node in nodes:

        async def acts(node: str = node) -> bool:
            await act(they, node)
            return any(gpu.drain for gpu in (await they.sharing(node)).spec.gpus)

        await eventually(acts, False)


async def act(they: Everybody, node: str) -> None:
    """The agent puts in force what it is told, as far as nobody holds the GPU in another way."""
    sharing = await they.sharing(node)
    told = {gpu.uuid: gpu for gpu in sharing.spec.gpus}
    gpus = tuple(
        gpu.model_copy(
            update={
                "policy": told[gpu.uuid].policy if gpu.uuid in told else None,
                "published": (PublishedDevice(device=f"gpu-{gpu.slot}"),),
                "instances": instances(told.get(gpu.uuid)),
            }
        )
        for gpu in sharing.status.gpus
    )
    update = {"observed_generation": sharing.metadata.generation, "gpus": gpus}
    await they.report(node, sharing.status.model_copy(update=update))


def instances(entry: GpuSharing | None) -> tuple[MigInstanceStatus, ...]:
    """Those of a static layout, on a GPU that nobody holds."""
    layout = entry.offers.mig.layout if entry and entry.offers and entry.offers.mig and not entry.allocated else None
    cut = [profile for profile, count in (layout or {}).items() for _ in range(count)]
    return tuple(MigInstanceStatus(profile=profile, start=start) for start, profile in enumerate(cut))


async def differing(
    they: Everybody, planned: Plan, before: Mapping[str, GpuSharing], *, acting: bool = False
) -> Mapping[str, tuple[object, object]]:
    """GPUs whose entry is not as planned. `acting`: agents do meanwhile what they are told."""
    for name in NODES if acting else ():
        await act(they, name)
    wanted = {uuid: facts(entry) for uuid, entry in before.items()}
    for node in planned.nodes:
        for gpu in node.gpus:
            if gpu.effect is not Effect.UNCHANGED_UNTIL_IDLE:
                wanted[gpu.uuid] = facts(gpu.after)
    now = {uuid: facts(entry) for uuid, entry in (await entries(they)).items()}
    return {uuid: (now[uuid], wanted[uuid]) for uuid in wanted if now[uuid] != wanted[uuid]}


async def cluster_differs(they: Everybody, planned: Plan, known: set[str]) -> list[str]:
    """Classes, guards and quotas that are not as planned."""
    wanted = set(known)
    found: list[str] = []
    for change in planned.objects:
        name, namespace = change.object.name, change.object.namespace
        match change.object.kind, change.verb:
            case "DeviceClass", "create":
                wanted.add(name)
            case "DeviceClass", "delete":
                wanted.discard(name)
            case "ResourceQuota", "create":
                quotas, _ = await they.api.list(RESOURCE_QUOTAS)
                hard = next((one.spec["hard"] for one in quotas if one.metadata.name == name), None)
                if hard != change.body["spec"]["hard"]:
                    found.append(f"quota {namespace}/{name}: {hard}")
            case "ResourceClaimTemplate", "create":
                templates = (await they.api.list(RESOURCE_CLAIM_TEMPLATES))[0]
                if (namespace, name) not in {(one.metadata.namespace, one.metadata.name) for one in templates}:
                    found.append(f"template {namespace}/{name}")
            case "ValidatingAdmissionPolicy", "update":
                guard = await they.api.get(ADMISSION_POLICIES, name)
                if literals_of(guard.spec) != literals_of(change.body["spec"]):
                    found.append(f"guard {name}")
    now = set(await names_of_classes(they))
    return [*found, *sorted(now ^ wanted)]


def literals_of(guard: Mapping[str, Any]) -> dict[str, str]:
    """Its variables. Which write this is, nobody knows beforehand."""
    return {one["name"]: one["expression"] for one in guard["variables"] if one["name"] != "revision"}


async def apply(control_plane: ControlPlane, policies: Sequence[Mapping[str, Any]]) -> None:
    for one in policies:
        body = {**one, "metadata": {"name": one["metadata"]["name"]}}
        arguments = ("apply", "--server-side", "--force-conflicts", "--filename=-")
        await control_plane.kubectl(*arguments, stdin=json.dumps(body))


async def settled(they: Everybody, policies: Sequence[str]) -> None:
    """Operator and agents have done what these policies say."""
    for name in policies:
        await eventually(lambda name=name: reported(they, name), True)  # type: ignore[misc]

    async def acted() -> bool:
        for node in NODES:
            await act(they, node)
        reasons = [await they.ready_reason(name) for name in policies]
        return all(reason == "Ready" for reason in reasons)

    await eventually(acted, True)
    # A class of the same name that was deleted a moment ago is made again a moment later.
    for name in policies:
        await eventually(lambda name=name: classes_missing(they, name), set())  # type: ignore[misc]


async def classes_missing(they: Everybody, name: str) -> set[str]:
    policy = await they.api.get(SHARING_POLICIES, name)
    classes = (await they.api.list(DEVICE_CLASSES))[0]
    there = {
        one.metadata.name
        for one in classes
        if policy.metadata.uid in {owner.uid for owner in one.metadata.owner_references}
    }
    offered = {mode for mode in Sharing if for_mode(policy.spec.offers, mode) is not None}
    return {policy_class(name, mode) for mode in offered} - there


async def reported(they: Everybody, name: str) -> bool:
    one = await they.api.get(SHARING_POLICIES, name)
    return one.status.observed_generation == one.metadata.generation


async def entries(they: Everybody) -> dict[str, GpuSharing]:
    sharings: Sequence[NodeSharing] = (await they.api.list(NODE_SHARINGS))[0]
    return {gpu.uuid: gpu for one in sharings for gpu in one.spec.gpus}


async def holders(they: Everybody) -> int:
    return sum([len(await they.holders(node)) for node in NODES])


async def names_of_classes(they: Everybody) -> list[str]:
    """Without those of deleted policies: when Kubernetes' garbage collector comes by is its own business."""
    living = {one.metadata.uid for one in (await they.api.list(SHARING_POLICIES))[0]}
    return sorted(
        one.metadata.name
        for one in (await they.api.list(DEVICE_CLASSES))[0]
        if all(owner.uid in living for owner in one.metadata.owner_references)
    )


async def remove_what_is_ours(they: Everybody) -> None:
    """Garbage of deleted policies, which the controller manager would collect."""
    for one in (await they.api.list(DEVICE_CLASSES))[0]:
        if one.metadata.name.endswith(OURS):
            await they.api.delete(DEVICE_CLASSES, one.metadata.name, uid=one.metadata.uid)
    for template in (await they.api.list(RESOURCE_CLAIM_TEMPLATES))[0]:
        name, uid = template.metadata.name, template.metadata.uid
        await they.api.delete(RESOURCE_CLAIM_TEMPLATES, name, uid=uid, namespace=template.metadata.namespace)
    for quota in (await they.api.list(RESOURCE_QUOTAS))[0]:
        about = quota.metadata
        await they.api.delete(RESOURCE_QUOTAS, about.name, uid=about.uid, namespace=about.namespace)


def report(node: str) -> NodeSharingStatus:
    """Two H100, which can be cut."""
    boards = [board("H100-80GB", slot) for slot in range(2)]
    support = boards[0].mig
    assert support is not None
    return NodeSharingStatus(
        observed_generation=1,
        models=reported_models.described(boards),
        gpus=tuple(
            gpu_status(slot, node=node).model_copy(
                update={
                    "model": boards[slot].product_name,
                    "mig_profiles": tuple(profile.name for profile in support.profiles),
                    "mig_mode": MigMode(enabled=False, found=False),
                }
            )
            for slot in range(2)
        ),
    )
