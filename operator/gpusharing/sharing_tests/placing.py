"""Places a pod as the scheduler, and writes into its claims what the scheduler writes."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pydantic

from gpusharing.api.dra import AllocationResult, DeviceClass
from gpusharing.api.meta import Key
from gpusharing.core.allocate.allocation import node_selector, results
from gpusharing.core.allocate.extended_resources import ExtendedResources
from gpusharing.core.allocate.requests import Claim
from gpusharing.core.allocate.search import Chosen
from gpusharing.core.allocate.taken import Taken
from gpusharing.explaining.where import exclusions
from gpusharing.planning.fitting import Fleet, asked_by, first_fitting
from gpusharing.sharing_tests.published import Published
from gpusharing.snapshots.world import Json

_RESULT: Final = pydantic.TypeAdapter(AllocationResult)


class Placed(NamedTuple):
    node: str
    claims: Sequence[Json]
    """Those of the pod, with what it got."""


def place(
    pod: Json,
    claims: Mapping[Key, Json],
    published: Published,
    taken: Taken,
    *,
    denied: Collection[str],
    rather_on: str | None,
) -> Placed | None:
    asked = asked_by(pod, claims, ExtendedResources(published.classes))
    if not asked or pod["spec"].get("schedulingGates"):
        return None
    for fleet in published.fleets(rather_on=rather_on):
        excluded = exclusions(pod, fleet.nodes)
        nodes = [one.metadata.name for one in fleet.nodes if one.metadata.name not in excluded]
        # The sort is stable.
        nodes.sort(key=lambda name: name != rather_on)
        outcome = fleet.ask(asked, nodes, fleet.cluster(taken), denied)
        if outcome.stop:
            # Kubernetes does not schedule the pod at all.
            return None
        if found := first_fitting(outcome):
            node, chosen = found
            return Placed(node, [_used(one, pod) for one in _claims(asked, claims, chosen, node, fleet)])
    return None


def _claims(
    asked: Sequence[Claim], claims: Mapping[Key, Json], chosen: Sequence[Sequence[Chosen]], node: str, fleet: Fleet
) -> Iterator[Json]:
    got = iter(chosen)
    for claim in asked:
        known = claims.get((claim.namespace, claim.name)) or _implicit(claim)
        yield known if claim.is_allocated else _allocated(claim, known, next(got), node, fleet)


def _implicit(claim: Claim) -> Json:
    """The one that the scheduler makes for extended resources."""
    requests = [
        {"name": one.name, "exactly": {"deviceClassName": one.device_class, "count": one.count}}
        for request in claim.requests
        for one in request.alternatives
    ]
    return {
        "metadata": {"name": claim.name, "namespace": claim.namespace, "uid": f"claim-{claim.namespace}-{claim.name}"},
        "spec": {"devices": {"requests": requests}},
    }


def _allocated(claim: Claim, value: Json, chosen: Sequence[Chosen], node: str, fleet: Fleet) -> Json:
    found = [_RESULT.dump_python(one, mode="json", by_alias=True, exclude_none=True) for one in results(claim, chosen)]
    devices = {"results": found, "config": list(_configs(value, chosen, fleet.classes))}
    where = node_selector(chosen, fleet.node(node))
    allocation = {"devices": devices, **({"nodeSelector": where} if where else {})}
    return {**value, "status": {**(value.get("status") or {}), "allocation": allocation}}


def _configs(value: Json, chosen: Sequence[Chosen], classes: Mapping[str, DeviceClass]) -> list[dict[str, Any]]:
    """Those of the classes first: the last one that matches wins."""
    of_classes = [
        {**config, "source": "FromClass", "requests": [one.wanted.name]}
        for one in chosen
        for config in (classes[one.wanted.device_class].spec.config if one.wanted.device_class in classes else ())
    ]
    own = [{**config, "source": "FromClaim"} for config in value["spec"]["devices"].get("config") or ()]
    return [*of_classes, *own]


def _used(claim: Json, pod: Json) -> Json:
    status: Mapping[str, Any] = claim["status"]
    user = {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
    return {**claim, "status": {**status, "reservedFor": [*(status.get("reservedFor") or ()), user]}}
