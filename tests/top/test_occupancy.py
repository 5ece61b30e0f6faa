"""Who is on which GPU: from claims and NodeSharings, whoever looks."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import NOW
from building.boards import board
from explaining.bed import ALL_MODES
from gpusharing.api import names
from gpusharing.api.names import Sharing
from gpusharing.api.sharing.gpu_models import GpuModel
from gpusharing.core.devices.reported_models import described
from gpusharing.explaining.gpus import explain_node
from gpusharing.explaining.scene import Scene
from gpusharing.occupancy import document, of_scene, sharing
from gpusharing.occupancy.fleet import Fleet, GpuUse
from gpusharing.occupancy.usage import Measured, Name, Sample, Usage, usage_of
from gpusharing.occupancy.waiting import to_explain, waiting, waiting_pods
from gpusharing.snapshots.world import World
from planning.fleets import Fleet as Builder
from planning.fleets import claim, mps, pod, policy, time_slicing
from top.place import shared_fleet
from top.scenes import fleet_of, seen_by_tenant, without_node_sharings

H100: Final = board("H100-80GB", 0)
USABLE: Final = H100.usable_mib
EVERY_MODE: Final = {"exclusive": {}, **time_slicing(4), **mps(8), "mig": {"profiles": ["1g.10gb"]}}
WORLD: Final = shared_fleet().world()


def gpu(fleet: Fleet, place: str) -> GpuUse:
    return next(one for one in fleet.gpus if f"{one.node}/{one.name}" == place)


@pytest.mark.parametrize(
    ("place", "modes", "shares", "ratio", "memory"),
    [
        pytest.param("node-0/gpu-0", (Sharing.TIME_SLICING,), (3, 4), 0.75, 0, id="undivided time-slicing"),
        pytest.param("node-0/gpu-1", (Sharing.MPS,), (1, 8), 20_480 / USABLE, 20_480, id="MPS"),
        pytest.param("node-0/gpu-2", (Sharing.MIG,), (4, 7), 5 / 8, 40_448 + 9_984, id="MIG"),
        pytest.param("node-0/gpu-3", (Sharing.EXCLUSIVE,), (1, 1), 1.0, USABLE, id="whole"),
        pytest.param("node-1/gpu-0", (), (0, 8), 0.0, 0, id="idle"),
    ],
)
def test_gpus(place: str, modes: Sequence[Sharing], shares: tuple[int, int], ratio: float, memory: int) -> None:
    found = gpu(fleet_of(WORLD), place)
    assert (found.modes, (found.shares_taken, found.shares_total)) == (modes, shares)
    assert found.ratio == pytest.approx(ratio, abs=0.01)
    assert found.memory_promised == pytest.approx(memory, rel=0.01)
    assert (found.policy, found.offers, found.memory) == ("all", tuple(Sharing), USABLE)


def test_a_tenant_counts_others_and_a_gpu_has_the_same_sums() -> None:
    everybody, tenant = fleet_of(WORLD), fleet_of(seen_by_tenant(WORLD))
    for mine, all_ in zip(tenant.gpus, everybody.gpus, strict=True):
        assert [one for one in all_.holders if one.namespace == "ml"] == list(mine.holders)
        assert mine.hidden == len(all_.holders) - len(mine.holders)
        assert (mine.ratio, mine.modes, mine.shares_taken) == (all_.ratio, all_.modes, all_.shares_taken)
    assert [one.name for one in tenant.namespaces] == ["ml", ""]
    assert [one.code for one in tenant.notes] == ["GSH0101", "GSH0101"]
    assert [one.pod for one in tenant.waiting] == ["wide"]


def test_without_node_sharings_only_own_claims_are_known() -> None:
    found = fleet_of(without_node_sharings(WORLD))
    assert {(one.node, one.name): one.ratio for one in found.gpus} == {
        ("node-0", "gpu-0"): None,
        ("node-0", "gpu-2"): None,
    }
    assert not any(one.uuid or one.hidden for one in found.gpus)


def test_a_claim_of_ones_own_that_was_just_deleted_is_nobody() -> None:
    seen = seen_by_tenant(WORLD)
    later = replace(seen, claims=[one for one in seen.claims if one["metadata"]["name"] != "train-0"])
    assert gpu(fleet_of(later), "node-0/gpu-0").hidden == 1


def test_who_only_looks_holds_nothing() -> None:
    builder = Builder(nodes=1, gpus=1, policies=[policy("all")])
    builder.hold("gpu-0")
    builder.claims[0]["status"]["allocation"]["devices"]["results"][0]["adminAccess"] = True
    assert gpu(fleet_of(builder.world()), "node-0/gpu-0").is_idle


def test_a_reserved_gpu_is_found_by_its_slot() -> None:
    tenants = {"namespaces": {"matchLabels": {"team": "search"}}}
    builder = Builder(nodes=1, gpus=1, policies=[policy("search", tenants=tenants)])
    builder.hold("gpu-0", namespace="search", reserved_for="search")
    found = gpu(fleet_of(builder.world()), "node-0/gpu-0")
    assert (found.restricted, found.policy, [one.claim for one in found.holders]) == (True, "search", ["c0"])


UNDIVIDED: Final = (Sharing.EXCLUSIVE, Sharing.TIME_SLICING, Sharing.MPS)
_FATAL: Final = {"type": "Healthy", "status": "False", "reason": "FatalXid", "message": "", "lastTransitionTime": NOW}
UNHEALTHY: Final = {"conditions": [_FATAL]}


@pytest.mark.parametrize(
    ("model", "changes", "offers"),
    [
        pytest.param("H100-80GB", {}, tuple(Sharing), id="MIG mode is switched for claims"),
        pytest.param("A100-80GB", {}, UNDIVIDED, id="MIG would need a reset"),
        pytest.param(
            "A100-80GB", {"migMode": {"enabled": True, "found": True}}, (Sharing.MIG,), id="so would the others"
        ),
        pytest.param("L4", {}, UNDIVIDED, id="it does not know MIG"),
        pytest.param("H100-80GB", UNHEALTHY, (), id="unhealthy"),
        pytest.param("H100-80GB", {"pool": "node-0/search"}, (), id="not yet in its pool"),
        pytest.param("H100-80GB", {"pool": None}, tuple(Sharing), id="an older agent tells no pool"),
        pytest.param(
            "H100-80GB", {"instances": [{"profile": "1g.10gb", "start": 0}]}, (Sharing.MIG,), id="cut by others"
        ),
    ],
)
def test_what_can_be_had(model: str, changes: Mapping[str, Any], offers: Sequence[Sharing]) -> None:
    """The same for `top`, `ui` and `explain`."""
    world = Builder(nodes=1, gpus=1, model=model, policies=[policy("all", offers=EVERY_MODE)]).world()
    (one,) = json.loads(json.dumps(world.node_sharings))
    one["status"]["gpus"][0] |= changes
    changed = replace(world, node_sharings=[one])
    found = gpu(fleet_of(changed), "node-0/gpu-0")
    assert found.offers == offers
    scene = Scene.of_file(changed)
    (table,) = explain_node("node-0", scene.node_sharings["node-0"], scene).tables
    assert table.rows[0][3] == (", ".join(offers) or "-")


def test_without_a_policy_nothing_is_said_of_modes() -> None:
    assert gpu(fleet_of(Builder(nodes=1, gpus=1).world()), "node-0/gpu-0").offers is None


@pytest.mark.parametrize(
    ("changes", "problem", "health"),
    [
        ({}, "", ""),
        ({"conditions": [{"type": "Ready", "status": "False", "reason": "DriverDown"}]}, "DriverDown", ""),
        ({"conditions": [{"type": "Ready", "status": "True", "reason": "Ready"}]}, "", ""),
        ({"gpus": [{"type": "Healthy", "status": "False", "reason": "FatalXid"}]}, "", "FatalXid"),
        ({"gpus": [{"type": "Healthy", "status": "Unknown", "reason": "Unmonitored"}]}, "", ""),
    ],
)
def test_what_is_wrong(changes: Mapping[str, Any], problem: str, health: str) -> None:
    one = json.loads(json.dumps(WORLD.node_sharings[0]))
    one["status"]["conditions"] = changes.get("conditions", [])
    one["status"]["gpus"][0]["conditions"] = changes.get("gpus", [])
    node, _ = fleet_of(replace(WORLD, node_sharings=[one, WORLD.node_sharings[1]])).nodes
    assert (node.problem, node.gpus[0].health) == (problem, health)


@pytest.mark.parametrize(
    "nonsense",
    [
        {"status": {"gpus": [{"uuid": 7}]}},
        {"spec": 1},
        {"metadata": {}},
        {"spec": {"gpus": [{"uuid": "a", "offers": 7}]}},
    ],
)
def test_a_node_sharing_that_cannot_be_read_hides_no_other(nonsense: Any) -> None:
    broken = {"metadata": {"name": "broken"}, **nonsense}
    found = fleet_of(replace(WORLD, node_sharings=[broken, *WORLD.node_sharings]))
    assert found.total.gpus == 8


# --------------------------------------------------------------------------------------------------- whoever looks

NAMESPACES: Final = ("alpha-secret", "beta-secret", "mine")
DEVICES: Final = (
    "gpu-0",
    "gpu-1-timeslicing",
    "gpu-1r2-timeslicing",
    "gpu-2-mps",
    "gpu-3-mig-1g10gb-19-2",
    "gpu-9",
    "x",
)
HOLDS: Final = st.lists(
    st.tuples(
        st.sampled_from(NAMESPACES),
        st.lists(st.tuples(st.sampled_from(("n1", "n2")), st.sampled_from(DEVICES)), min_size=1, max_size=3),
    ),
    max_size=12,
)
_MEMORY: Final = "8192Mi"


def world_of(holds: Sequence[tuple[str, Sequence[tuple[str, str]]]]) -> World:
    """Claims with shares of 8 GiB, and NodeSharings that say so."""
    claims, allocated, settings = [], [], []
    for number, (namespace, places) in enumerate(holds):
        one = claim(f"c{number}", "x", namespace=namespace)
        results = []
        for node, device in places:
            shared = {"consumedCapacity": {"shares": "1", "memory": _MEMORY}, "shareID": f"s{number}"}
            is_shared = names.sharing_of_device(device) in {Sharing.TIME_SLICING, Sharing.MPS}
            results.append(
                {
                    "request": "gpu",
                    "driver": names.DRIVER,
                    "pool": node,
                    "device": device,
                    **(shared if is_shared else {}),
                }
            )
            allocated.append((node, device, one["metadata"]["uid"]))
            limit = {"memory": {"limit": 8192}} if is_shared else {}
            settings.append((node, one["metadata"]["uid"], f"{namespace}/c{number}", {"device": device, **limit}))
        claims.append(one | {"status": {"allocation": {"devices": {"results": results}}}})
    (model,) = described([H100])
    return World(
        minor=37,
        taken_at="",
        claims=claims,
        node_sharings=[_sharing(node, allocated, settings, model) for node in ("n1", "n2")],
    )


def _sharing(node: str, allocated: Sequence[Any], settings: Sequence[Any], model: GpuModel) -> dict[str, Any]:
    slots = {slot: f"{node}-{slot}" for slot in range(4)}
    return {
        "metadata": {"name": node},
        "spec": {
            "gpus": [
                {
                    "uuid": uuid,
                    "offers": ALL_MODES.to_json(),
                    "allocated": [
                        {"claim": uid, "device": device}
                        for where, device, uid in allocated
                        if where == node and names.slot_of_device(device) == slot
                    ],
                }
                for slot, uuid in slots.items()
            ],
            "claims": [
                {
                    "uid": uid,
                    "claim": key,
                    "settings": [each for at, owner, _, each in settings if (at, owner) == (node, uid)],
                }
                for where, uid, key, _ in settings
                if where == node
            ],
        },
        "status": {
            "models": [model.to_json()],
            "gpus": [
                {"uuid": uuid, "slot": slot, "model": model.model, "memory": f"{H100.memory_mib}Mi"}
                for slot, uuid in slots.items()
            ],
        },
    }


@given(HOLDS)
def test_what_adds_up(holds: Sequence[tuple[str, Sequence[tuple[str, str]]]]) -> None:
    fleet = fleet_of(world_of(holds))
    for one in fleet.gpus:
        assert one.ratio is None or 0 <= one.ratio <= 1 + 1e-9
    total = fleet.total
    for parts in (fleet.policies, fleet.namespaces):
        assert sum(one.ratio for one in parts) == pytest.approx(total.ratio)
        assert sum(one.memory_promised for one in parts) == total.memory_promised
    assert sum(one.claims for one in fleet.namespaces) == total.claims
    assert sum(one.gpus for one in fleet.policies) == total.gpus == len(fleet.gpus)


@given(HOLDS)
def test_what_a_tenant_sees(holds: Sequence[tuple[str, Sequence[tuple[str, str]]]]) -> None:
    """The same GPUs with the same sums, and no name of others, in whatever format."""
    world = world_of(holds)
    everybody, tenant = fleet_of(world), fleet_of(seen_by_tenant(world, "mine"))
    seen = {(one.node, one.slot): one for one in tenant.gpus}
    for one in everybody.gpus:
        mine = seen.get((one.node, one.slot))
        if mine is None or not one.uuid:
            # One that is known by claims alone.
            assert not one.uuid
            continue
        assert mine.ratio == pytest.approx(one.ratio)
        assert (mine.memory_promised, mine.shares_taken) == (one.memory_promised, one.shares_taken)
        assert mine.is_idle == one.is_idle
    assert {one.namespace for gpu in tenant.gpus for one in gpu.holders} <= {"mine"}
    text = json.dumps(document.to_json(tenant)) + str(document.gpu_rows(tenant.gpus))
    assert "secret" not in text


# ---------------------------------------------------------------------------------------------------------- waiting


def owned(name: str, owner: str, since: str = "2026-11-18T12:00:00Z") -> dict[str, Any]:
    found = pod(name)
    references = [{"uid": owner, "controller": True}] if owner else []
    found["metadata"] |= {"ownerReferences": references, "creationTimestamp": since}
    return found


def asking(limits: Mapping[str, str]) -> dict[str, Any]:
    found = pod("asks")
    found["spec"] = {"containers": [{"name": "main", "resources": {"limits": dict(limits)}}]}
    return found


EXTENDED: Final = {"metadata": {"name": "c"}, "spec": {"extendedResourceName": "nvidia.com/gpu"}}


@pytest.mark.parametrize(
    ("one", "waits"),
    [
        pytest.param(pod("w"), True, id="a claim"),
        pytest.param(pod("w", node="n"), False, id="it has a node"),
        pytest.param(asking({"cpu": "1"}), False, id="only CPU"),
        pytest.param(asking({"nvidia.com/gpu": "1"}), True, id="an extended resource"),
        pytest.param(asking({"other.com/gpu": "1"}), False, id="one of another"),
        pytest.param(asking({"deviceclass.resource.kubernetes.io/c": "1"}), True, id="a class by its name"),
        pytest.param(pod("w") | {"status": {"phase": "Failed"}}, False, id="it has ended"),
    ],
)
def test_who_waits(one: dict[str, Any], waits: bool) -> None:
    assert bool(waiting_pods([one], [EXTENDED])) == waits


def test_of_each_owner_one_pod_is_explained_the_longest_first() -> None:
    pods = [owned("a-2", "a", "2026-11-18T13:00:00Z"), owned("a-1", "a"), owned("b", "b", "2026-11-18T11:00:00Z")]
    in_order = waiting_pods(pods, [])
    assert [one["metadata"]["name"] for one in in_order] == ["b", "a-1", "a-2"]
    assert [one["metadata"]["name"] for one in to_explain(in_order, nodes=2)] == ["b", "a-1"]
    assert [one["metadata"]["name"] for one in to_explain(in_order, nodes=5000)] == ["b"]


def test_pods_of_an_owner_share_their_finding() -> None:
    builder = shared_fleet()
    for name in ("also", "again"):
        builder.wait("gpu.nvidia.com", namespace="ml", name=name, count=5)
        builder.pods[-1]["metadata"]["ownerReferences"] = [{"uid": "job", "controller": True}]
    world = builder.world()
    pods = waiting_pods(world.pods, world.classes)
    found = waiting(pods, to_explain(pods, nodes=2), Scene.of_file(world))
    assert [(one.pod, one.finding and one.finding.object.name) for one in found] == [
        ("again", "again"),
        ("also", "also"),
        ("wide", "wide"),
    ]
    (unexplained,) = waiting(pods[:1], [], Scene.of_file(world))
    assert unexplained.finding is None


# ------------------------------------------------------------------------------------------------------------- usage

OF_CLAIM: Final = {"claim_uid": "u", "device": "gpu-0"}


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        pytest.param(
            [(Name.CLAIM_MEMORY, OF_CLAIM, 2**30), (Name.CLAIM_UTILIZATION, OF_CLAIM, 0.5)],
            Usage(claims={("u", "gpu-0"): Measured(1024, 0.5)}),
            id="of a claim",
        ),
        pytest.param(
            [(Name.GPU_MEMORY, {"UUID": "g"}, 300), (Name.GPU_UTILIZATION, {"UUID": "g"}, 42)],
            Usage(gpus={"g": Measured(300, 0.42)}),
            id="of a GPU",
        ),
        pytest.param([(Name.GPU_MEMORY, {"UUID": "g", "GPU_I_ID": "3"}, 300)], Usage(), id="of an instance of MIG"),
        pytest.param([(Name.CLAIM_MEMORY, {"claim_uid": "u"}, 1.0)], Usage(), id="of no device"),
        pytest.param([(Name.CLAIM_UTILIZATION, OF_CLAIM, float("nan"))], Usage(), id="not a number"),
        pytest.param([(Name.CLAIM_MEMORY, OF_CLAIM, float("inf"))], Usage(), id="without end"),
        pytest.param([(Name.CLAIM_MEMORY, OF_CLAIM, -1)], Usage(), id="less than nothing"),
        pytest.param(
            [(Name.CLAIM_UTILIZATION, OF_CLAIM, 7.0)],
            Usage(claims={("u", "gpu-0"): Measured(None, 1.0)}),
            id="too much",
        ),
        pytest.param([("other", OF_CLAIM, 1.0)], Usage(), id="another metric"),
    ],
)
def test_usage(samples: Sequence[tuple[str, Mapping[str, str], float]], expected: Usage) -> None:
    assert usage_of(Sample(*one) for one in samples) == expected


@pytest.mark.parametrize(
    ("usage", "memory", "utilization"),
    [
        pytest.param(Usage(), None, None, id="nobody measured"),
        pytest.param(
            Usage(claims={("uid-train-0", "gpu-0-timeslicing"): Measured(10, 0.5)}), None, None, id="only one of two"
        ),
        pytest.param(
            Usage(
                claims={
                    ("uid-train-0", "gpu-0-timeslicing"): Measured(10, 0.75),
                    ("uid-camera-0", "gpu-0-timeslicing"): Measured(20, 0.75),
                }
            ),
            30,
            1.0,
            id="both",
        ),
        pytest.param(Usage(gpus={"GPU-node-0-0": Measured(99, 0.3)}), 99, 0.3, id="the GPU itself"),
        pytest.param(
            Usage(
                gpus={"GPU-node-0-0": Measured(None, 0.3)},
                claims={
                    ("uid-train-0", "gpu-0-timeslicing"): Measured(10, 0.75),
                    ("uid-camera-0", "gpu-0-timeslicing"): Measured(20, 0.75),
                },
            ),
            30,
            0.3,
            id="of the GPU itself only one",
        ),
    ],
)
def test_use_of_a_gpu(usage: Usage, memory: int | None, utilization: float | None) -> None:
    found = of_scene.fleet_of(Scene.of_file(WORLD), sharing.lean().of_objects(WORLD.node_sharings), usage)
    shared = gpu(found, "node-0/gpu-0")
    assert (shared.memory_used, shared.utilization) == (memory, utilization)
