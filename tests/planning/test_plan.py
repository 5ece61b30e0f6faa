"""What plans say, in clusters of which everything else is as it should be."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from building import NOW
from gpusharing.api.sharing.plan import Effect
from gpusharing.findings import planning
from gpusharing.planning.changes import Plan
from gpusharing.planning.deciding import Edit
from gpusharing.planning.plan import Assumptions, plan
from gpusharing.snapshots import file, lines
from planning.fleets import TEAM, Fleet, mps, policy, time_slicing

SHARED = policy("shared", offers=time_slicing(4))
TENANTS = {"namespaces": {"matchLabels": TEAM}}
EVICT = {"disruption": "Evict", "maxUnavailable": 1}


def planned(fleet: Fleet, *policies: Mapping[str, Any], prunes: bool = False, **more: Any) -> Plan:
    return plan(fleet.world(), Edit(policies=policies, prunes=prunes, **more))


def effects(found: Plan) -> dict[str, list[str]]:
    """By effect, the GPUs."""
    by_effect: dict[str, list[str]] = {}
    for node in found.nodes:
        for gpu in node.gpus:
            by_effect.setdefault(gpu.effect.value, []).append(f"{node.node}/{gpu.slot}")
    return by_effect


def codes(found: Plan) -> list[str]:
    return [one.code for one in found.findings]


def test_the_same_policies_change_nothing() -> None:
    fleet = Fleet(policies=[SHARED])
    fleet.hold("gpu-0-timeslicing")
    found = planned(fleet, policy("shared", offers=time_slicing(4)))
    assert not found.changes
    assert (found.nodes, found.objects, found.steps, found.findings) == ((), (), (), ())
    assert (found.total_nodes, found.total_gpus) == (2, 4)


def test_devices_that_come_and_go_are_named() -> None:
    fleet = Fleet(nodes=1, policies=[SHARED])
    fleet.hold("gpu-0-timeslicing")
    [node] = planned(fleet, policy("shared", offers=mps())).nodes
    # What is held stays until its claim leaves.
    assert (node.added, node.removed) == (("gpu-1-mps",), ("gpu-1-timeslicing",))


@pytest.mark.parametrize(
    ("rollout", "effect"),
    [
        ({}, Effect.WAITS),
        (EVICT, Effect.EVICTS),
        ({"disruption": "Never"}, Effect.UNCHANGED_UNTIL_IDLE),
    ],
)
def test_claims_in_the_way_are_named(rollout: dict[str, Any], effect: Effect) -> None:
    fleet = Fleet(policies=[SHARED])
    fleet.hold("gpu-0-timeslicing", name="train")
    found = planned(fleet, policy("shared", offers=mps(), rollout=rollout))
    assert effects(found) == {effect.value: ["node-0/0"], "None": ["node-0/1", "node-1/0", "node-1/1"]}
    assert [gpu.claims for gpu in found.disturbed] == [("default/train",)]
    assert (planning.EVICTS.code in codes(found)) is (effect is Effect.EVICTS)


def test_nodes_follow_each_other_and_the_grace_of_pods_counts() -> None:
    fleet = Fleet(nodes=3, policies=[SHARED])
    for node in ("node-0", "node-2"):
        fleet.hold("gpu-0-timeslicing", node=node)
    fleet.pods[1]["spec"]["terminationGracePeriodSeconds"] = 600
    found = planned(fleet, policy("shared", offers=mps(), rollout=EVICT))
    assert [(step.nodes, step.seconds) for step in found.steps] == [
        (("node-1",), 20.0),
        (("node-0",), 50.0),
        (("node-2",), 620.0),
    ]


def test_without_the_closing_guard_it_takes_an_hour() -> None:
    found = planned(Fleet(policies=[SHARED], guarded=False), policy("shared", offers=mps()))
    assert [step.seconds for step in found.steps] == [3600.0]


def test_new_offers_beside_the_old_ones_take_no_time() -> None:
    found = planned(Fleet(policies=[SHARED]), policy("shared", offers={**time_slicing(4), **mps()}))
    assert [step.seconds for step in found.steps] == [0.0]


def test_tenants_bring_guards_classes_and_quotas() -> None:
    fleet = Fleet(policies=[policy("shared", offers=mps())])
    tenants = {**TENANTS, "quota": {"mps": 3}}
    found = planned(
        fleet, policy("shared", offers=mps(), tenants=tenants), policy("new", offers=time_slicing(2), tenants=TENANTS)
    )
    assert [(str(one.object), one.verb) for one in found.objects] == [
        ("DeviceClass new-timeslicing", "create"),
        ("ResourceQuota search/gpusharing-shared", "create"),
        ("ValidatingAdmissionPolicy gpusharing-allocation", "update"),
        ("ValidatingAdmissionPolicy gpusharing-claims", "update"),
        ("ValidatingAdmissionPolicy gpusharing-pods", "update"),
    ]


def test_templates_are_made_in_the_namespaces_of_tenants() -> None:
    spec = {"tenants": TENANTS, "classes": {"templates": True}}
    found = planned(Fleet(policies=[policy("shared", offers=mps())]), policy("shared", offers=mps(), **spec))
    assert "ResourceClaimTemplate search/shared-mps" in [str(one.object) for one in found.objects]


def test_a_namespace_that_becomes_a_tenant_gets_its_quota() -> None:
    fleet = Fleet(policies=[policy("shared", offers=mps(), tenants={**TENANTS, "quota": {"mps": 3}})])
    namespace = {"metadata": {"name": "default", "labels": TEAM}}
    found = planned(fleet, namespaces=[namespace])
    assert [str(one.object) for one in found.objects if one.verb == "create"] == [
        "ResourceQuota default/gpusharing-shared",
        # That of the other tenant is missing as well, since nobody has made it.
        "ResourceQuota search/gpusharing-shared",
    ]


def test_pods_start_that_find_a_device_only_then() -> None:
    fleet = Fleet(policies=[SHARED])
    fleet.wait("mps.gpu.nvidia.com", name="a")
    fleet.wait("mps.gpu.nvidia.com", name="b")
    fleet.wait("timeslicing.gpu.nvidia.com", name="fits-now-and-waits-for-something-else")
    fleet.wait("no-such-class")
    found = planned(fleet, policy("shared", offers={**time_slicing(4), **mps()}))
    assert [(one.name, one.count, one.asks_for) for one in found.starting] == [("a", 2, "mps.gpu.nvidia.com")]


def test_no_more_pods_start_than_there_is_room_for() -> None:
    fleet = Fleet(nodes=1, gpus=1, policies=[SHARED])
    for _ in range(5):
        fleet.wait("mps.gpu.nvidia.com")
    found = planned(fleet, policy("shared", offers=mps(3)))
    assert [one.count for one in found.starting] == [3]


def test_pods_of_others_do_not_start_on_reserved_gpus() -> None:
    fleet = Fleet(policies=[SHARED])
    fleet.wait("shared-mps", name="other")
    fleet.wait("shared-mps", name="tenant", namespace="search")
    found = planned(fleet, policy("shared", offers=mps(), tenants=TENANTS))
    assert [one.name for one in found.starting] == ["tenant"]


def test_evicted_pods_make_room() -> None:
    fleet = Fleet(nodes=1, gpus=1, policies=[SHARED])
    fleet.hold("gpu-0-timeslicing")
    fleet.wait("gpu.nvidia.com", name="whole")
    waits = planned(fleet, policy("shared", offers={"exclusive": {}}))
    evicts = planned(fleet, policy("shared", offers={"exclusive": {}}, rollout=EVICT))
    assert [one.name for one in waits.starting] == []
    assert [one.name for one in evicts.starting] == ["whole"]


def test_workloads_without_a_place_are_told_of_once() -> None:
    fleet = Fleet(policies=[SHARED])
    fleet.hold("gpu-0-timeslicing", name="a")
    fleet.hold("gpu-0-timeslicing", name="b")
    fleet.hold("gpu-1-timeslicing", name="c", namespace="search")
    found = planned(fleet, policy("shared", offers=mps()))
    assert [(one.namespace, one.count) for one in found.stranded] == [("default", 2), ("search", 1)]
    [finding] = [one for one in found.findings if one.code == planning.STRANDED.code]
    assert "3 claims" in finding.sentence


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ({"gpus": {"selectors": [{"cel": {"expression": "device.nope"}}]}}, planning.NOT_ACCEPTED),
        ({"nodes": {"matchLabels": {"no": "node"}}}, planning.NOT_READY),
        ({"offers": {"mig": {"profiles": ["9g.90gb"]}}}, planning.DEGRADED),
        ({"rollout": {"paused": True}}, planning.SUSPENDED),
        ({"rollout": {"mode": "Plan"}}, planning.SUSPENDED),
    ],
    ids=["invalid", "no nodes", "unknown profile", "paused", "Plan"],
)
def test_what_the_policy_itself_would_say(spec: dict[str, Any], code: Any) -> None:
    found = planned(Fleet(), policy("new", **{"offers": mps(), **spec}))
    assert code.code in codes(found)


def test_failing_nodes_that_use_up_the_budget_stop_the_rollout() -> None:
    fleet = Fleet(nodes=3, policies=[SHARED])
    for node in ("node-0", "node-1"):
        fleet.hold("gpu-0-timeslicing", node=node)
    wanted = policy("shared", offers=mps(), rollout=EVICT, generation=2)
    before, after = fleet.world(), Fleet(nodes=3, policies=[wanted]).world()
    # The rollout has begun on the last node, and broke it.
    begun: Any = after.node_sharings[2]
    begun["status"]["gpus"][0]["conditions"] = [
        {"type": "Healthy", "status": "False", "reason": "GpuLost", "message": "gone", "lastTransitionTime": NOW}
    ]
    world = replace(before, node_sharings=[*before.node_sharings[:2], begun])
    found = plan(world, Edit(policies=[wanted]))
    assert found.steps == ()
    [finding] = [one for one in found.findings if one.code == planning.BLOCKED.code]
    assert "node-0, node-1 would stay unchanged" in finding.sentence


def test_objects_of_another_version_are_left_out_and_told() -> None:
    world = Fleet(policies=[SHARED]).world()
    odd = {"metadata": {"name": "odd", "uid": "1", "resourceVersion": "1"}, "spec": {"offers": "nonsense"}}
    found = plan(replace(world, policies=[*world.policies, odd]), Edit(policies=[SHARED]))
    [finding] = found.findings
    assert (finding.code, finding.sentence.split(" ")[0]) == (planning.SKIPPED.code, "SharingPolicy/odd")


def test_what_may_not_be_read_is_told() -> None:
    world = replace(Fleet(policies=[SHARED]).world(), pods=(), unread={"pods": "pods is forbidden"})
    [finding] = plan(world, Edit(policies=[SHARED])).findings
    assert finding.sentence == "pods may not be read, so the plan leaves them out (pods is forbidden)."


def test_a_plan_of_a_file_is_that_of_the_objects() -> None:
    fleet = Fleet(policies=[SHARED])
    fleet.hold("gpu-0-timeslicing")
    fleet.wait("mps.gpu.nvidia.com")
    edit = Edit(policies=[policy("shared", offers=mps())])
    world = fleet.world()
    text = file.dumps(world).encode()
    assert plan(lines.loads(text), edit) == plan(world, edit) == plan(file.loads(text.decode()), edit)


def test_menus_are_as_many_as_the_agents_have() -> None:
    fleet = Fleet(nodes=1, gpus=4)
    both = policy("new", offers={"exclusive": {}, **mps()})
    [one] = plan(fleet.world(), Edit(policies=[both])).nodes
    [two] = plan(fleet.world(), Edit(policies=[both]), Assumptions(full_menus=2)).nodes
    assert (one.added, two.added) == (("gpu-0-mps",), ("gpu-0-mps", "gpu-1-mps"))
