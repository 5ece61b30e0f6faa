"""What becomes of a pod: it fits, waits or is denied, and why."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from gpusharing.api import names
from gpusharing.api.meta import Key
from gpusharing.api.names import Sharing
from gpusharing.api.sharing.node_spec import Verdict
from gpusharing.explaining import pods as explaining
from gpusharing.explaining.scene import Scene
from gpusharing.findings import running, validating, waiting
from gpusharing.findings.finding import Finding, Reference
from gpusharing.sharing_tests.cluster import SettledCluster
from gpusharing.sharing_tests.form import Outcome
from gpusharing.sharing_tests.pods import NewPod
from gpusharing.snapshots.world import Json
from gpusharing.validating.guards import Guards

_DENIALS: Final = frozenset({waiting.NOT_A_TENANT, running.DENIED, validating.REFUSED_BY_GUARD})


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    outcome: Outcome
    node: str = ""
    devices: tuple[str, ...] = ()
    modes: tuple[Sharing, ...] = ()
    policies: tuple[str, ...] = ()
    """Of each GPU that it got; empty for one that no policy has."""
    findings: tuple[Finding, ...] = ()
    """Why it waits, or is denied: the most helpful first."""


def observe(new: NewPod, cluster: SettledCluster, *, rather_on: str | None) -> Observed:
    """Puts the pod into the cluster. One that is denied is taken out again: it holds nothing."""
    if refused := tuple(_refusals(new, cluster)):
        return Observed(outcome=Outcome.DENIED, findings=refused)
    cluster.add(new.pod, new.claims)
    node = cluster.place(new.key, rather_on=rather_on)
    if node is None:
        scene = Scene.of_file(cluster.world)
        return _not_placed(tuple(explaining.explain(cluster.pods[new.key], scene).findings))
    claims = cluster.claims_of(new.key)
    if denied := tuple(_denials(node, claims, cluster, new.key)):
        cluster.remove(new.key)
        return Observed(outcome=Outcome.DENIED, node=node, findings=denied)
    return _placed(node, claims, cluster)


def _refusals(new: NewPod, cluster: SettledCluster) -> Iterator[Finding]:
    """What the API server would say, with the guards of this cluster."""
    if not cluster.is_guarded:
        return
    namespace = new.key[0]
    known = cluster.namespace(namespace)
    labels = {namespace: known.metadata.labels or {}} if known else {}
    guards = Guards(cluster.policies, labels, minor=cluster.minor)
    about = Reference("Pod", new.key[1], namespace)
    for claim in (*new.claims, *cluster.waiting_claims(new.pod)):
        for problem in guards.of_claim({"kind": "ResourceClaim", **claim}):
            yield problem.about(about)
    for problem in guards.of_pod(new.pod["spec"], namespace, ("spec",)):
        yield problem.about(about)


def _not_placed(findings: tuple[Finding, ...]) -> Observed:
    is_denied = any(one.entry in _DENIALS for one in findings)
    return Observed(outcome=Outcome.DENIED if is_denied else Outcome.WAITS, findings=findings)


def _denials(node: str, claims: Sequence[Json], cluster: SettledCluster, pod: Key) -> Iterator[Finding]:
    for claim in claims:
        entry = cluster.verdict(node, claim)
        if entry is not None and entry.verdict is Verdict.DENIED:
            about = Reference("Pod", pod[1], pod[0])
            reason = entry.reason or "no reason given"
            yield running.DENIED.found(about, claim=claim["metadata"]["name"], node=node, reason=reason)


def _placed(node: str, claims: Sequence[Json], cluster: SettledCluster) -> Observed:
    results = [one for claim in claims for one in claim["status"]["allocation"]["devices"]["results"]]
    devices = [one["device"] for one in results if one["driver"] == names.DRIVER]
    modes = {mode for device in devices if (mode := names.sharing_of_device(device)) is not None}
    slots = {slot for device in devices if (slot := names.slot_of_device(device)) is not None}
    gpus = [cluster.gpu(node, slot) for slot in slots]
    policies = {gpu.policy.name if gpu and gpu.policy else "" for gpu in gpus}
    return Observed(
        outcome=Outcome.FITS,
        node=node,
        devices=tuple(one["device"] for one in results),
        modes=tuple(sorted(modes)),
        policies=tuple(sorted(policies)),
    )
