"""What an event of a claim costs in a cluster with much that it does not concern: policies with tenants in many
namespaces, and claims that wait."""

from typing import Final, NamedTuple

from agent.on_cluster import RESOURCE, Admin
from bench.operating import events
from bench.operating.crowd import TEAMS, Crowd, all_at_once, control_plane_alone, team_name
from bench.operating.events import Way
from bench.operating.whole import POLICY, until_idle
from controller.bed import Operator
from gpusharing.kube.kinds import SHARING_POLICIES
from harness.controlplane import ControlPlane

NAMESPACES: Final = 500
_TIMES: Final = 3
_TENANT: Final = {"tenant": "yes"}


class Costs(NamedTuple):
    """Of an event of a claim, in seconds of the processor."""

    alone: float
    beside_tenants: float
    beside_waiting: float
    """And beside the tenants."""
    claim: Way
    """Of an allocation."""
    policy: Way
    """Of an edit."""


async def measure(*, nodes: int, claims: int, waiting: int) -> Costs:
    async with control_plane_alone() as (control_plane, admin):
        crowd = Crowd(admin)
        await crowd.grow(nodes=nodes, claims=claims)
        alone = await _cost(control_plane, crowd)
        await crowd.each(crowd.release, range(claims))
        await all_at_once(_tenant(admin, number) for number in range(NAMESPACES))
        await all_at_once(_policy(admin, number) for number in range(TEAMS))
        operator = await Operator.of(control_plane)
        await operator.start(within=600)
        await until_idle(operator.pid)
        await crowd.become_of_teams()
        await crowd.each(crowd.allocate, range(claims))
        await until_idle(operator.pid)
        await operator.stop()
        beside_tenants = await _cost(control_plane, crowd)
        await all_at_once(_waiting(admin, number) for number in range(waiting))
        beside_waiting = await _cost(control_plane, crowd)
        await crowd.release(0)
        claim, policy = await events.ways(control_plane, crowd.allocate(0), _edit(admin, 0))
        return Costs(alone, beside_tenants, beside_waiting, claim, policy)


async def _cost(control_plane: ControlPlane, crowd: Crowd) -> float:
    """The least of a few: what else the machine does only adds to it."""
    return min([(await events.cost(control_plane, crowd, "ours")).seconds for _ in range(_TIMES)])


async def _tenant(admin: Admin, number: int) -> None:
    """The first one is that of the crowd's claims."""
    if number:
        labels = {"name": _namespace(number), "labels": _TENANT}
        await admin.call("POST", "/api/v1/namespaces", {"metadata": labels})
    else:
        await admin.merge(f"/api/v1/namespaces/{_namespace(0)}", {"metadata": {"labels": _TENANT}})


def _namespace(number: int) -> str:
    return f"tenant-{number}" if number else "default"


async def _policy(admin: Admin, number: int) -> None:
    """Of a tenth of the nodes, for all tenants."""
    name = team_name(number)
    body = {
        "apiVersion": SHARING_POLICIES.api_version,
        "kind": SHARING_POLICIES.kind,
        "metadata": {"name": name},
        "spec": POLICY
        | {
            "nodes": {"matchLabels": {"team": name}},
            "tenants": {"namespaces": {"matchLabels": _TENANT}, "allow": {"intervals": ["Default", "Short"]}},
        },
    }
    await admin.call("POST", SHARING_POLICIES.path(), body)


async def _edit(admin: Admin, number: int) -> None:
    patch = {"spec": {"offers": {"timeSlicing": {"maxClients": 12}}}}
    await admin.merge(SHARING_POLICIES.path(team_name(number)), patch)


async def _waiting(admin: Admin, number: int) -> None:
    """For the class of a policy, each in another place: no two of them wait for the same one in the same namespace."""
    request = {"name": "gpu", "exactly": {"deviceClassName": f"{team_name(number)}-timeslicing"}}
    body = {"metadata": {"name": f"waiting-{number}"}, "spec": {"devices": {"requests": [request]}}}
    namespace = _namespace(number // TEAMS % NAMESPACES)
    await admin.call("POST", f"{RESOURCE}/namespaces/{namespace}/resourceclaims", body)
