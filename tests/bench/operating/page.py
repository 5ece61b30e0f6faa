"""The metrics page by itself, without Kubernetes: of a cluster in which many claims wait, and many have quotas."""

import statistics
import time
from collections.abc import Iterator
from typing import Any, Final

from bench.operating.crowd import GPUS, TEAMS, node_name, team_name
from building import DRIVER, MINOR, NOW, claim, class_of, gpu_status, node, node_sharing, policy, reference, result
from building.incremental import decide, put
from gpusharing.api import names
from gpusharing.controller.metrics import Metrics
from gpusharing.core.cluster.quotas import quota_name, resource_name
from gpusharing.core.decision.incremental import Decider
from gpusharing.core.state.cluster_state import Setup
from gpusharing.kube.kinds import RESOURCE_QUOTAS

_TIMES: Final = 11


def measure(*, nodes: int, claims: int, waiting: int, namespaces: int) -> float:
    """In seconds of the processor: what somebody waits who asks for it, and all else in the operator."""
    decider = Decider(Setup(driver=DRIVER, minor=MINOR))
    for item in _cluster(nodes, claims, waiting, namespaces):
        put(decider.state, item)
    decide(decider, now=NOW)
    metrics = Metrics()
    metrics.watch_figures(lambda: decider.figures)
    return statistics.median(_seconds(metrics) for _ in range(_TIMES))


def _seconds(metrics: Metrics) -> float:
    began = time.process_time()
    metrics.exposition()
    return time.process_time() - began


def _cluster(nodes: int, claims: int, waiting: int, namespaces: int) -> Iterator[Any]:
    """Each namespace has a quota for the devices of each policy. No two claims wait for the same class in the same
    namespace, as long as there are enough of both."""
    policies = [policy(team_name(number), nodes={"team": team_name(number)}) for number in range(TEAMS)]
    for one in policies:
        yield one
        yield class_of(one.metadata.name)
        for number in range(namespaces):
            yield _quota(one.metadata.name, one.metadata.uid, f"tenant-{number}")
    for number in range(nodes):
        name, winner = node_name(number), policies[number % TEAMS]
        gpus = [gpu_status(slot, node=name, in_force=reference(winner)) for slot in range(GPUS)]
        yield node(name, team=winner.metadata.name)
        yield node_sharing(name, gpus=gpus)
    for number in range(claims):
        device = names.time_sliced_device(number // nodes % GPUS)
        yield claim(f"claim-{number}", result(device, pool=node_name(number % nodes)))
    for number in range(waiting):
        device_class = names.policy_class(team_name(number), names.Sharing.TIME_SLICING)
        namespace = f"tenant-{number // TEAMS % namespaces}"
        yield claim(f"waiting-{number}", allocated=False, classes=[device_class], namespace=namespace)


def _quota(of: str, uid: str, namespace: str) -> Any:
    counted = resource_name(of, names.Sharing.TIME_SLICING)
    owner = {"kind": "SharingPolicy", "name": of, "uid": uid}
    metadata = {"name": quota_name(of), "namespace": namespace, "ownerReferences": [owner]}
    return RESOURCE_QUOTAS.from_json(
        {"metadata": metadata, "spec": {"hard": {counted: "4"}}, "status": {"used": {counted: "1"}}}
    )
