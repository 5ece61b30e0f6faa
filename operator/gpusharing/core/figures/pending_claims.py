"""Claims that wait, by reason, as far as it is certain: what the scheduler would say takes a look at all devices."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from gpusharing.api import names
from gpusharing.api.sharing.node_spec import ClaimSharing, GpuSharing, Verdict
from gpusharing.core.figures.rows import Row
from gpusharing.core.state.cluster_state import WaitingGroup

NOT_PLACED: Final = "NotPlaced"
"""The scheduler has found no devices yet."""
DENIED: Final = "Denied"
"""It has, and the operator denies them."""


def not_allocated(
    waiting: Mapping[WaitingGroup, Collection[object]],
    policies: Mapping[str, str],
    reasons: Mapping[WaitingGroup, str],
) -> Counter[Row]:
    """Once for each class that a claim requests. `policies`: by class. `reasons`: those that are certain. Claims for
    classes that are neither a policy's nor installed with the operator are not ours to count."""
    found: Counter[Row] = Counter()
    for group, claims in waiting.items():
        policy = policies.get(group.device_class)
        if policy is not None or group.device_class in names.INSTALLED_CLASSES:
            found[Row(policy or "", group.namespace, reasons.get(group, NOT_PLACED))] += len(claims)
    return found


def denied(claims: Iterable[ClaimSharing], gpus: Iterable[GpuSharing]) -> Counter[Row]:
    """Of one node, once for each policy whose GPUs a claim was allocated."""
    uids = {entry.uid: entry for entry in claims if entry.verdict is Verdict.DENIED}
    if not uids:
        return Counter()
    policies: defaultdict[str, set[str]] = defaultdict(set)
    for gpu in gpus:
        for device in gpu.allocated:
            policies[device.claim].add(gpu.policy.name if gpu.policy else "")
    return Counter(
        Row(policy, entry.claim.partition("/")[0], DENIED)
        for uid, entry in uids.items()
        for policy in policies[uid] or {""}
    )
