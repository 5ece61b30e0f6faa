"""Parts of messages: lists that name the first few, and who has to delete what."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from gpusharing.api.dra import ResourceClaim

SHOWN: Final = 3
"""Items that a message names; the rest is counted."""


def listed(items: Sequence[str], *, separator: str = ", ") -> str:
    rest = len(items) - SHOWN
    return separator.join(items[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def listed_by_cause(found: Sequence[tuple[str, str]]) -> str:
    """`found`: subjects, each with its cause. A cause is named once, however many subjects have it."""
    subjects: defaultdict[str, list[str]] = defaultdict(list)
    for subject, cause in found:
        subjects[cause].append(subject)
    return listed([f"{listed(those)}: {cause}" for cause, those in subjects.items()], separator="; ")


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def release_hint(claim: ResourceClaim) -> str:
    """What to delete so that the claim releases its devices."""
    metadata = claim.metadata
    pods = sorted(consumer.name for consumer in claim.status.reserved_for if consumer.resource == "pods")
    if pods:
        return f"delete {'pod' if len(pods) == 1 else 'pods'} {listed(pods)} in namespace {metadata.namespace}"
    return f"delete ResourceClaim {metadata.name} in namespace {metadata.namespace}"
