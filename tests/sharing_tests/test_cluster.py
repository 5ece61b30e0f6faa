"""The cluster of a test is one in which nothing is left to do, and a snapshot of it is as good as itself."""

from collections import defaultdict
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from gpusharing.api import names
from gpusharing.api.dra import ResourceClaim
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.api.sharing.plan import Effect
from gpusharing.core.claims.allocation import results
from gpusharing.core.claims.share_ratio import Held, promises
from gpusharing.core.devices.reported_models import reported
from gpusharing.planning.deciding import Edit
from gpusharing.planning.plan import Assumptions, plan
from gpusharing.planning.state import decode
from gpusharing.sharing_tests import new_cluster, pods
from gpusharing.sharing_tests.cluster import SettledCluster
from gpusharing.sharing_tests.form import Expectation, Outcome, Pods
from gpusharing.sharing_tests.observing import Observed, observe
from gpusharing.sharing_tests.reading import read_tests
from gpusharing.snapshots import file
from gpusharing.snapshots.world import World
from gpusharing.validating.validation import Source

TEST = """
apiVersion: gpusharing.dev/v1alpha1
kind: SharingTest
metadata: {name: t}
nodes:
- {name: hopper, count: 2, gpus: "H100-80GB:2"}
- {name: ampere, gpus: "A100-40GB:1,A100-80GB:1"}
- {name: turing, gpus: "T4:2"}
"""
TEAM = {"team": "search"}
OFFERS: list[dict[str, Any]] = [
    {"exclusive": {}},
    {"timeSlicing": {"maxClients": 3}},
    {"timeSlicing": {"maxClients": 2, "memory": {"default": "25%", "min": "1Gi", "enforcement": "Preferred"}}},
    {"mps": {"maxClients": 3, "memory": {"default": "4Gi", "min": "1Gi"}, "threads": {"default": 25, "min": 5}}},
    {"mig": {"profiles": ["1g.10gb", "3g.40gb"]}},
    {"mig": {"layout": {"1g.10gb": 2, "3g.40gb": 1}}},
    {"exclusive": {}, "timeSlicing": {"maxClients": 2}, "mig": {"profiles": ["1g.10gb"]}},
]
CLASSES = ("gpu.nvidia.com", "timeslicing.gpu.nvidia.com", "mps.gpu.nvidia.com", "mig.nvidia.com")


def policy(random: Random, name: str) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "priority": random.randrange(3),
        "offers": random.choice(OFFERS),
        "rollout": {"disruption": random.choice(["WaitForIdle", "Evict", "Never"])},
    }
    if random.random() < 0.4:
        spec["gpus"] = {"maxPerNode": 1}
    if random.random() < 0.4:
        spec["tenants"] = {"namespaces": {"matchLabels": TEAM}, "quota": {"timeSlicing": 3}}
    return {"apiVersion": names.API_VERSION, "kind": "SharingPolicy", "metadata": {"name": name}, "spec": spec}


def cluster() -> SettledCluster:
    (loaded,) = read_tests(Source("t", TEST.encode()))
    found = SettledCluster(new_cluster.world(loaded), full_menus=1, is_new=True)
    labels: Mapping[str, Mapping[str, str]] = {"default": {}, "search": TEAM}
    found.apply(Edit(namespaces=[new_cluster.namespace(name, some) for name, some in labels.items()]))
    return found


def try_one(random: Random, on: SettledCluster) -> Observed:
    of_policies = [one["metadata"]["name"] for one in on.world.classes]
    entry = Pods.model_construct(
        device_class=random.choice([*CLASSES, *of_policies]),
        capacity={"memory": random.choice(["2Gi", "12Gi"])} if random.random() < 0.3 else {},
        namespace=random.choice(["default", "search"]),
        name=None,
        count=1,
        expect=Expectation(outcome=Outcome.FITS),
    )
    (new,) = pods.of_class(entry, on.pods)
    observed = observe(new, on, rather_on=None)
    assert observed.outcome is Outcome.FITS or observed.findings, f"nothing is said about {entry}"
    return observed


def check_settled(world: World) -> None:
    planned = plan(world, Edit(), Assumptions())
    left = [gpu for node in planned.nodes for gpu in node.gpus]
    assert all(gpu.effect is Effect.UNCHANGED_UNTIL_IDLE and gpu.claims for gpu in left)
    published = {
        (one["spec"]["pool"]["name"], device["name"])
        for one in world.slices
        for device in one["spec"].get("devices") or ()
    }
    for claim in world.claims:
        allocation = (claim.get("status") or {}).get("allocation") or {"devices": {"results": []}}
        for result in allocation["devices"]["results"]:
            assert (result["pool"], result["device"]) in published, claim["metadata"]["name"]
    check_promises(world)


def check_promises(world: World) -> None:
    """No GPU is promised more than once, whatever has become of policies under its claims."""
    capacities = defaultdict[str, dict[str, Any]](dict)
    held = defaultdict[tuple[str, int | None], list[Held]](list)
    for one in world.slices:
        found = {device["name"]: device["capacity"] for device in one["spec"].get("devices") or ()}
        capacities[one["spec"]["nodeName"]] |= found
    for claim in (decode(ResourceClaim, one) for one in world.claims):
        for result in results(claim, names.DRIVER):
            place = names.node_of_pool(result.pool), names.slot_of_device(result.device)
            held[place].append(Held(result.device, result.consumed_capacity, bool(result.admin_access)))
    for sharing in (decode(NodeSharing, one) for one in world.node_sharings):
        for gpu in sharing.status.gpus:
            node, divisible = sharing.metadata.name, reported(gpu, sharing.status.models)
            made = promises(divisible, held[node, gpu.slot], capacities[node])
            assert sum(one.ratio for one in made) <= 1
            assert sum(one.memory_mib for one in made) <= divisible.memory_mib


@pytest.mark.parametrize("seed", range(12))
def test_nothing_is_left_to_do(seed: int) -> None:
    random = Random(seed)  # noqa: S311 (no secret)
    tried = cluster()
    for _ in range(3):
        tried.apply(Edit(policies=[policy(random, random.choice("ab"))], prunes=random.random() < 0.3))
        check_settled(tried.world)
        for _ in range(6):
            try_one(random, tried)
        check_settled(tried.world)


@pytest.mark.parametrize("seed", range(6))
def test_a_snapshot_is_as_good_as_the_cluster(seed: int) -> None:
    random = Random(seed)  # noqa: S311 (no secret)
    tried = cluster()
    tried.apply(Edit(policies=[policy(random, "a"), policy(random, "b")]))
    for _ in range(4):
        try_one(random, tried)
    again = SettledCluster(file.loads(file.dumps(tried.world)), full_menus=1, is_new=False)
    next_ = random.getrandbits(32)
    one, other = Random(next_), Random(next_)  # noqa: S311 (no secret)
    for _ in range(8):
        assert try_one(one, tried) == try_one(other, again)
    edit = [policy(random, "a")]
    assert tried.apply(Edit(policies=edit)).disturbed == again.apply(Edit(policies=edit)).disturbed
