"""Claims whose pods are evicted because of a policy. Kubernetes evicts them; what it is asked for is in a write."""

from collections import Counter
from collections.abc import Iterable

from gpusharing.core.events.on_write import EVICT
from gpusharing.core.intents import RecordEvent, Target


def evictions(notices: Iterable[RecordEvent]) -> Counter[str]:
    """By policy. `notices`: those of one write. A claim may have several devices."""
    claims = {
        (notice.policy.name, notice.about.uid)
        for notice in notices
        if notice.action == EVICT and notice.target is Target.RESOURCE_CLAIM and notice.policy
    }
    return Counter(policy for policy, _ in claims)
