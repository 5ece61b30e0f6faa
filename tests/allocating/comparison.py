"""What we allocate, and what kube-scheduler does."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import TypeAdapter

from allocating.oracle_process import AllocatorOracle
from allocating.worlds import Json, World
from gpusharing.api.dra import AllocationResult, DeviceClass, Node, ResourceSlice
from gpusharing.core.allocate.allocation import Cluster, OnNode, Outcome, Problem, allocate, node_selector, results
from gpusharing.core.allocate.inventory import Inventory, read_taint_rule
from gpusharing.core.allocate.requests import Claim, read_claim
from gpusharing.core.allocate.taken import Taken
from gpusharing.core.quantities import exact
from gpusharing.kube.kinds import DEVICE_CLASSES, NODES, RESOURCE_SLICES

Answer = Mapping[str, Any]
"""Of one node: `kind` (fits, does not fit, stops, gave up), and of one that fits, `claims`."""

GAVE_UP: Final = "gave up"
_RESULTS: Final = TypeAdapter(AllocationResult)


class Ours:
    """One cluster, and what is allocated in it."""

    def __init__(self, world: World, minor: int, *, rules: Sequence[Json] = ()) -> None:
        """`rules`: the specs of DeviceTaintRules."""
        slices: list[ResourceSlice] = [RESOURCE_SLICES.from_json(one) for one in world.slices]
        classes: list[DeviceClass] = [DEVICE_CLASSES.from_json(one) for one in world.classes]
        self.nodes: list[Node] = [NODES.from_json(one) for one in world.nodes]
        self.cluster = Cluster(
            inventory=Inventory(slices, minor=minor, rules=[one for rule in rules for one in read_taint_rule(rule)]),
            classes={one.metadata.name: one for one in classes},
            taken=Taken(),
        )
        for claim, allocated in world.allocated.items():
            self.add(claim, allocated)

    def add(self, claim: str, allocated: Sequence[Json]) -> None:
        self.cluster.taken.add(("default", claim), [_result(one) for one in allocated])

    def remove(self, claim: str) -> None:
        self.cluster.taken.remove(("default", claim))

    def answers(self, claims: Sequence[Json]) -> list[Answer]:
        """Node by node: an outcome ends with the first node that stops the pod."""
        return self.answers_to([read_claim(one) for one in claims])

    def answers_to(self, claims: Sequence[Claim]) -> list[Answer]:
        return [_answer(allocate(claims, [node], self.cluster), node, claims) for node in self.nodes]


def theirs(oracle: AllocatorOracle, claims: Sequence[Json], allocated: Sequence[Json]) -> list[Answer]:
    return [their_answer(one) for one in oracle.allocate(claims, allocated)]


def difference(ours: Sequence[Answer], theirs: Sequence[Answer]) -> str | None:
    """What is not the same on the first node on which something is not."""
    for number, (mine, its) in enumerate(zip(ours, theirs, strict=True)):
        if GAVE_UP in {mine["kind"], its["kind"]}:
            continue
        if mine["kind"] != its["kind"]:
            return f"node {number}: Kubernetes: {its['kind']}, ours: {mine['kind']}"
        if mine.get("claims") != its.get("claims"):
            return f"node {number}: other devices"
    return None


def _answer(outcome: Outcome, node: Node, claims: Sequence[Claim]) -> Answer:
    if outcome.stop is not None:
        return {"kind": "stops", "why": outcome.stop}
    found: OnNode = outcome.nodes[node.metadata.name]
    if found.problem is Problem.GAVE_UP:
        return {"kind": GAVE_UP}
    if found.chosen is None:
        return {"kind": "does not fit"}
    return {
        "kind": "fits",
        "claims": [
            {
                "devices": [_device(one) for one in results(claim, some)],
                "where": _where(node_selector(some, node)),
            }
            for claim, some in zip(claims, found.chosen, strict=True)
        ],
    }


def their_answer(answer: Json) -> Answer:
    if answer.get("timeout"):
        return {"kind": GAVE_UP}
    if answer.get("error"):
        return {"kind": "stops", "why": answer["error"]}
    if not answer.get("allocations"):
        return {"kind": "does not fit"}
    return {
        "kind": "fits",
        "claims": [
            {
                "devices": [_device(_result(one)) for one in allocation["devices"].get("results") or ()],
                "where": _where(allocation.get("nodeSelector")),
            }
            for allocation in answer["allocations"]
        ],
        "raw": answer["allocations"],
    }


def _device(result: AllocationResult) -> Any:
    return (
        result.request,
        f"{result.driver}/{result.pool}/{result.device}",
        bool(result.admin_access),
        result.share_id is not None,
        {name: exact(amount) for name, amount in result.consumed_capacity.items()},
        result.tolerations,
    )


def _where(selector: Mapping[str, Any] | None) -> Any:
    """However lists and empty fields are written."""
    terms = (selector or {}).get("nodeSelectorTerms") or ()
    return [{kind: sorted(map(repr, some)) for kind, some in term.items() if some} for term in terms]


def _result(value: Json) -> AllocationResult:
    return _RESULTS.validate_python(value)
