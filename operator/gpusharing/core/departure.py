"""Who has to delete what, so that a claim gives back what it holds: for the end of messages."""

from gpusharing.api.dra import ResourceClaim
from gpusharing.core.text import listed


def how_to_leave(claim: ResourceClaim) -> str:
    metadata = claim.metadata
    pods = sorted(consumer.name for consumer in claim.status.reserved_for if consumer.resource == "pods")
    if pods:
        return f"delete {'pod' if len(pods) == 1 else 'pods'} {listed(pods)} of namespace {metadata.namespace}"
    return f"delete ResourceClaim {metadata.name} of namespace {metadata.namespace}"
