"""Why a pod does not fit, as data."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final
from unittest import mock

import pytest

from building.boards import board
from gpusharing.api import names
from gpusharing.api.dra import AllocationResult
from gpusharing.api.names import Sharing
from gpusharing.api.sharing.node_spec import PolicyReference
from gpusharing.api.sharing.offers import ExclusiveOffer, MpsMemory, MpsOffer, MpsThreads, Offers, TimeSlicingOffer
from gpusharing.core.allocate.allocation import Cluster, OnNode, Problem, allocate, results
from gpusharing.core.allocate.inventory import Inventory, read_taint_rule
from gpusharing.core.allocate.reasons import Reasons, Step, total
from gpusharing.core.allocate.requests import read_claim
from gpusharing.core.allocate.selecting import Origin, Selector, Selectors
from gpusharing.core.allocate.taken import Taken
from gpusharing.core.cluster.device_classes import selector
from gpusharing.core.devices.offered import OfferedGpu
from gpusharing.core.publishing.devices import full_menu
from gpusharing.core.publishing.entries import Entry, Standing
from gpusharing.core.publishing.slices import PublishedGpu, slice_specs
from gpusharing.kube.kinds import DEVICE_CLASSES, NODES, RESOURCE_SLICES

POLICY: Final = "shared"
MINOR: Final = 37
NODE: Final = NODES.from_json({"metadata": {"name": "n1", "labels": {"zone": "a"}}})
WHOLE, SHARE, MPS = (
    names.policy_class(POLICY, mode) for mode in (Sharing.EXCLUSIVE, Sharing.TIME_SLICING, Sharing.MPS)
)
OFFERS: Final = Offers(
    exclusive=ExclusiveOffer(),
    time_slicing=TimeSlicingOffer(max_clients=2),
    mps=MpsOffer(max_clients=4, memory=MpsMemory(default="8Gi", max="20Gi"), threads=MpsThreads(default=10)),
)
GIB: Final = 2**30 * 10**9


def gpu(slot: int = 0, *, standing: Standing = Standing.OPEN, offers: Offers = OFFERS, **changes: Any) -> PublishedGpu:
    policy = PolicyReference(name=POLICY, generation=1)
    item = OfferedGpu(gpu=board("H100-80GB", slot), offers=offers, policy=policy, configured=True, **changes)
    entries = [Entry(device=one.device, policy=one.policy, standing=standing) for one in full_menu(item)]
    return PublishedGpu(item, entries)


def specs(*gpus: PublishedGpu, pool: str = "n1", driver: str = names.DRIVER) -> list[dict[str, Any]]:
    return slice_specs(gpus, node="n1", pool=pool, driver=driver, generation=1)


def cluster(slices: Sequence[dict[str, Any]], *, rules: Sequence[dict[str, Any]] = ()) -> Cluster:
    read = [RESOURCE_SLICES.from_json({"metadata": {"name": f"s{n}"}, "spec": one}) for n, one in enumerate(slices)]
    classes = {
        names.policy_class(POLICY, mode): {"cel": {"expression": selector(POLICY, mode, names.DRIVER)}}
        for mode in Sharing
    } | {"any": {"cel": {"expression": f'device.driver == "{names.DRIVER}"'}}, "all": {"cel": {"expression": "true"}}}
    return Cluster(
        inventory=Inventory(read, minor=MINOR, rules=[rule for spec in rules for rule in read_taint_rule(spec)]),
        classes={
            name: DEVICE_CLASSES.from_json({"metadata": {"name": name}, "spec": {"selectors": [one]}})
            for name, one in classes.items()
        },
        taken=Taken(),
    )


def request(device_class: str, **wanted: Any) -> dict[str, Any]:
    return {"name": "gpu", "exactly": {"deviceClassName": device_class, **wanted}}


def claim(*requests: dict[str, Any], name: str = "c", **devices: Any) -> dict[str, Any]:
    metadata = {"namespace": "ml", "name": name, "uid": name}
    return {"metadata": metadata, "spec": {"devices": {"requests": requests, **devices}}}


def on_node(there: Cluster, *claims: dict[str, Any], **asked: Any) -> OnNode:
    outcome = allocate([read_claim(one) for one in claims], [NODE], there, with_reasons=True, **asked)
    return outcome.nodes["n1"]


def reasons(there: Cluster, wanted: dict[str, Any], **asked: Any) -> Reasons:
    found = on_node(there, claim(wanted), **asked)
    assert found.problem is Problem.NO_DEVICES or found.denied_by
    (one,) = found.reasons
    assert one.looked_at == one.fell_out.total() + one.left
    return one


def take(there: Cluster, name: str, wanted: dict[str, Any]) -> list[AllocationResult]:
    """As the scheduler would."""
    asked = claim(wanted, name=name)
    chosen = on_node(there, asked).chosen
    assert chosen is not None
    found = results(read_claim(asked), chosen[0])
    there.taken.add(("ml", name), found)
    return list(found)


def test_of_another_mode() -> None:
    found = reasons(cluster(specs(gpu(offers=Offers(exclusive=ExclusiveOffer())))), request(SHARE))
    assert (found.looked_at, found.fell_out) == (1, {Step.CLASS_SELECTOR: 1})


def test_its_own_selector() -> None:
    asked = request(
        WHOLE, selectors=[{"cel": {"expression": "device.attributes['gpu.nvidia.com'].productName == 'B200'"}}]
    )
    found = reasons(cluster(specs(gpu(0), gpu(1))), asked)
    assert found.fell_out == {Step.CLASS_SELECTOR: 4, Step.REQUEST_SELECTOR: 2}


def test_all_shares_are_taken_and_by_whom() -> None:
    there = cluster(specs(gpu()))
    take(there, "first", request(SHARE))
    take(there, "second", request(SHARE))
    found = reasons(there, request(SHARE))
    assert found.fell_out[Step.CAPACITY_TAKEN] == 1
    assert found.holders == Counter({("ml", "first"): 1, ("ml", "second"): 1})
    assert found.most == {"shares": 0}
    there.taken.remove(("ml", "first"))
    assert on_node(there, claim(request(SHARE))).chosen


def test_a_claim_that_has_other_devices_than_before() -> None:
    there = cluster(specs(gpu(0), gpu(1)))
    (before,) = take(there, "c", request(WHOLE))
    there.taken.add(("ml", "c"), [replace(before, device="gpu-1")])
    assert take(there, "d", request(WHOLE))[0].device == "gpu-0"


def test_a_node_whose_labels_change() -> None:
    (one,) = specs(gpu(offers=Offers(exclusive=ExclusiveOffer())))
    del one["nodeName"]
    zone = {"key": "zone", "operator": "In", "values": ["a"]}
    there = cluster([one | {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}}])
    assert on_node(there, claim(request(WHOLE))).chosen
    moved = NODES.from_json({"metadata": {"name": "n1", "labels": {"zone": "b"}}})
    assert allocate([read_claim(claim(request(WHOLE)))], [moved], there).fitting == []


def test_another_mode_of_the_gpu_is_in_use() -> None:
    there = cluster(specs(gpu()))
    take(there, "other", request(WHOLE))
    found = reasons(there, request(SHARE))
    assert (found.fell_out[Step.COUNTERS], found.holders) == (1, {("ml", "other"): 1})
    assert reasons(there, request(WHOLE)).fell_out[Step.IN_USE] == 1


def test_more_memory_than_a_claim_may_have_and_how_much_that_is() -> None:
    found = reasons(cluster(specs(gpu())), request(MPS, capacity={"requests": {"memory": "30Gi"}}))
    assert (found.fell_out[Step.CAPACITY], found.most) == (1, {"memory": 20 * GIB})


def test_more_memory_than_is_left_and_how_much_that_is() -> None:
    there = cluster(specs(gpu()))
    for number in range(3):
        take(there, f"c{number}", request(MPS, capacity={"requests": {"memory": "20Gi"}}))
    found = reasons(there, request(MPS, capacity={"requests": {"memory": "20Gi"}}))
    assert found.fell_out[Step.CAPACITY_TAKEN] == 1
    assert 15 * GIB < found.most["memory"] < 20 * GIB


def test_a_capacity_that_no_device_has() -> None:
    asked = request(MPS, capacity={"requests": {"gpu.nvidia.com/memory": "1Gi"}})
    assert reasons(cluster(specs(gpu())), asked).fell_out[Step.UNKNOWN_CAPACITY] == 1


def test_what_is_closing_counts_as_such_also_where_classes_exclude_it() -> None:
    there = cluster(specs(gpu(standing=Standing.CLOSING)))
    assert reasons(there, request(SHARE)).fell_out == {Step.CLOSING: 1, Step.CLASS_SELECTOR: 2}
    assert reasons(there, request("any")).fell_out == {Step.CLOSING: 3}


def test_taints_of_the_slice_and_of_rules() -> None:
    there = cluster(specs(gpu(unhealthy={"gpu-0": "Xid"})))
    found = reasons(there, request(WHOLE))
    assert (found.fell_out[Step.TAINT], found.taints) == (1, {names.UNHEALTHY_TAINT: 1})
    rule = {"deviceSelector": {"device": "gpu-0"}, "taint": {"key": "example.com/x", "effect": "NoExecute"}}
    there = cluster(specs(gpu(0), gpu(1)), rules=[rule])
    assert take(there, "c", request(WHOLE))[0].device == "gpu-1"
    assert reasons(there, request(WHOLE)).taints == {"example.com/x": 1}
    assert on_node(there, claim(request(WHOLE, tolerations=[{"operator": "Exists"}]))).chosen


def test_rules_without_selector_concern_nothing_and_empty_ones_everything() -> None:
    taint = {"key": "example.com/x", "effect": "NoSchedule"}
    assert on_node(cluster(specs(gpu()), rules=[{"taint": taint}]), claim(request(WHOLE))).chosen
    assert reasons(cluster(specs(gpu()), rules=[{"deviceSelector": {}, "taint": taint}]), request(WHOLE)).taints
    effectless = {"deviceSelector": {}, "taint": taint | {"effect": "None"}}
    assert on_node(cluster(specs(gpu()), rules=[effectless]), claim(request(WHOLE))).chosen


def test_reserved_for_others_the_scheduler_takes_it_and_the_guard_refuses() -> None:
    there = cluster(specs(gpu(restricted=True), pool=f"n1/{POLICY}"))
    found = on_node(there, claim(request(WHOLE)), denied=[POLICY])
    assert found.chosen
    assert found.denied_by == (POLICY,)
    assert found.reasons[0].fell_out[Step.GUARD] == 1
    assert not on_node(there, claim(request(WHOLE))).denied_by


def test_pools_of_other_drivers_are_for_everybody_whatever_their_names_are() -> None:
    there = cluster(specs(gpu(), pool=f"n1/{POLICY}", driver="gpu.example.com"))
    found = on_node(there, claim(request("all")), denied=[POLICY])
    assert found.chosen
    assert not found.denied_by
    (two_gpus,) = on_node(there, claim(request("all", count=2)), denied=[POLICY]).reasons
    assert not two_gpus.fell_out[Step.GUARD]


def test_a_selector_without_an_answer_stops_the_pod_and_names_the_device() -> None:
    asked = request("any", selectors=[{"cel": {"expression": "device.attributes['gpu.nvidia.com'].nothing == 1"}}])
    outcome = allocate([read_claim(claim(asked))], [NODE], cluster(specs(gpu())), with_reasons=True)
    assert outcome.stop is not None
    assert outcome.stop.selector is not None
    assert outcome.stop.selector.device == (names.DRIVER, "n1", "gpu-0")
    assert (outcome.stop.node, outcome.stop.claim, outcome.stop.request) == ("n1", "ml/c", "gpu")
    (found,) = outcome.nodes["n1"].reasons
    assert found.fell_out == {Step.REQUEST_SELECTOR: 3}
    assert {error.origin for error in found.errors} == {Origin.REQUEST}


def test_an_expression_that_does_not_compile_stops_the_pod() -> None:
    asked = request("any", selectors=[{"cel": {"expression": "device.nothing"}}])
    outcome = allocate([read_claim(claim(asked))], [NODE], cluster(specs(gpu())))
    assert outcome.stop is not None
    assert outcome.stop.selector is not None
    assert outcome.stop.selector.device is None


def test_a_class_that_is_not_there_stops_the_pod_without_a_node() -> None:
    outcome = allocate([read_claim(claim(request("nothing")))], [NODE], cluster(specs(gpu())))
    assert outcome.stop is not None
    assert (outcome.stop.message, outcome.stop.node) == ("device class nothing does not exist", "")
    assert outcome.fitting == []


def test_requests_that_compete_are_enough_each_by_itself() -> None:
    two = [request(WHOLE) | {"name": name} for name in ("a", "b")]
    found = on_node(cluster(specs(gpu())), claim(*two)).reasons
    assert [(one.request, one.left, one.is_enough) for one in found] == [("a", 1, True), ("b", 1, True)]


def test_devices_without_the_attribute_of_a_constraint() -> None:
    asked = claim(request(WHOLE), constraints=[{"matchAttribute": "example.com/rack"}])
    (found,) = on_node(cluster(specs(gpu())), asked).reasons
    assert found.fell_out[Step.CONSTRAINT] == 1


def test_pools_that_cannot_be_used_are_named() -> None:
    found = on_node(cluster(specs(gpu())[:1]), claim(request(WHOLE)))
    assert found.incomplete == ("gpu.nvidia.com/n1",)
    assert found.reasons[0].looked_at == 0
    twice = specs(gpu())
    twice[-1]["devices"] *= 2
    assert on_node(cluster(twice), claim(request(WHOLE))).invalid == {
        "gpu.nvidia.com/n1": "duplicate device name gpu-0"
    }


def test_a_claim_that_is_allocated_elsewhere_keeps_the_pod_there() -> None:
    there = cluster(specs(gpu()))
    field = {"key": "metadata.name", "operator": "In", "values": ["n2"]}
    allocated = claim(request(WHOLE), name="old") | {
        "status": {"allocation": {"nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]}}}
    }
    found = on_node(there, allocated, claim(request(WHOLE)))
    assert (found.problem, found.claim) == (Problem.CLAIM_ELSEWHERE, "ml/old")


def test_a_claim_that_is_reserved_for_all_it_can_be() -> None:
    reserved = [{"resource": "pods", "name": f"p{number}", "uid": f"p{number}"} for number in range(256)]
    value = claim(request(WHOLE)) | {"status": {"allocation": {}, "reservedFor": reserved}}
    there = cluster(specs(gpu()))
    assert allocate([read_claim(value)], [NODE], there).stop is not None
    mine = {"metadata": {"uid": "p7"}, "spec": {}}
    assert allocate([read_claim(value, pod=mine)], [NODE], there).fitting == ["n1"]
    # A PodGroup is one consumer, whose pods all have the claim.
    reserved[0] = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "gang", "uid": "g"}
    member = {"metadata": {"uid": "new"}, "spec": {"schedulingGroup": {"podGroupName": "gang"}}}
    assert allocate([read_claim(value, pod=member)], [NODE], there).fitting == ["n1"]


def test_a_total_of_several_nodes() -> None:
    there = cluster(specs(gpu()))
    take(there, "other", request(WHOLE))
    each = on_node(there, claim(request(SHARE))).reasons
    (found,) = total([each, each])
    assert (found.looked_at, found.fell_out[Step.COUNTERS], found.holders) == (6, 2, {("ml", "other"): 2})


def test_devices_that_a_selector_cannot_tell_apart_share_an_answer() -> None:
    """On a hundred nodes there are a hundred uuids, and three kinds of devices."""
    everything = []
    for number in range(100):
        same = gpu()
        own = replace(same.offered, gpu=replace(same.offered.gpu, uuid=f"GPU-{number}"))
        everything += slice_specs(
            [same._replace(offered=own)], node=f"n{number}", pool=f"n{number}", driver=names.DRIVER, generation=1
        )
    there = cluster(everything)
    nodes = [NODES.from_json({"metadata": {"name": f"n{number}"}}) for number in range(100)]
    uuid = {"cel": {"expression": f"device.attributes['{names.DRIVER}'].uuid == 'GPU-7'"}}
    # Once to search, once to say why.
    for asked, most in ((request(SHARE, count=2), 3), (request(SHARE, selectors=[uuid]), 3 + 2 * 100)):
        there.selectors = Selectors(MINOR, there.inventory.individual)
        with mock.patch.object(Selector, "evaluate", autospec=True, side_effect=Selector.evaluate) as evaluate:
            outcome = allocate([read_claim(claim(asked))], nodes, there, with_reasons=True)
        assert 1 <= evaluate.call_count <= most
    assert outcome.fitting == ["n7"]


ARCHITECTURE: Final = f"{names.DRIVER}/architecture"


def of_kinds(*kinds: str) -> Cluster:
    """A node with whole GPUs, of one kind after the other."""
    gpus = [gpu(slot, offers=Offers(exclusive=ExclusiveOffer())) for slot in range(len(kinds))]
    return cluster(
        specs(
            *(
                one._replace(offered=replace(one.offered, gpu=replace(one.offered.gpu, architecture=kind)))
                for one, kind in zip(gpus, kinds, strict=True)
            )
        )
    )


@pytest.mark.parametrize(
    "constraint", [{"matchAttribute": ARCHITECTURE}, {"distinctAttribute": ARCHITECTURE}], ids=["same", "different"]
)
def test_that_too_few_devices_satisfy_a_constraint_is_seen_without_trying_all_combinations(
    constraint: dict[str, str],
) -> None:
    """There are more than a thousand million of them."""
    found = on_node(of_kinds(*["Ampere", "Hopper"] * 15), claim(request(WHOLE, count=16), constraints=[constraint]))
    assert found.problem is Problem.NO_DEVICES
    assert found.reasons[0].is_enough


def test_that_one_request_cannot_be_satisfied_is_seen_without_trying_all_combinations_of_the_others() -> None:
    asked = [request(WHOLE, count=14) | {"name": "many"}, request(MPS) | {"name": "none"}]
    found = on_node(of_kinds(*["Ampere"] * 30), claim(*asked))
    assert (found.problem, [one.left for one in found.reasons]) == (Problem.NO_DEVICES, [30, 0])


def test_too_many_combinations_are_given_up() -> None:
    """Two requests of 15, and a third one that can never be: the first two are tried in all combinations."""
    asked = [request(WHOLE, count=count) | {"name": f"r{count}"} for count in (14, 15, 1)]
    constraints = [{"requests": ["r15", "r1"], "matchAttribute": ARCHITECTURE}]
    there = of_kinds(*["Ampere"] * 15, *["Hopper"] * 15)
    outcome = allocate([read_claim(claim(*asked, constraints=constraints))], [NODE], there)
    assert outcome.nodes["n1"].problem is Problem.GAVE_UP
