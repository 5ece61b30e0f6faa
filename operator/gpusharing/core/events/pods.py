"""Pods as objects of Events. A claim may name anything as its pod, and the API refuses Events about nonsense."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Final

from gpusharing.api.dra import ResourceClaim
from gpusharing.api.meta import ObjectMeta
from gpusharing.core.intents import RecordEvent, Target

_MOST_USERS: Final = 8
"""Of a claim, which may have hundreds."""

_MAX_NAME: Final = 253
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def with_pods(on_claim: RecordEvent, pods: Iterable[ObjectMeta]) -> tuple[RecordEvent, ...]:
    """An Event on a claim, and the same on pods that have it."""
    return (on_claim, *(replace(on_claim, target=Target.POD, about=pod, policy=None) for pod in pods))


def users(claim: ResourceClaim) -> Iterator[ObjectMeta]:
    """The first pods for which it is reserved."""
    pods = (
        _pod(claim, consumer.name, consumer.uid)
        for consumer in claim.status.reserved_for
        if consumer.resource == "pods" and not consumer.api_group
    )
    return islice(filter(None, pods), _MOST_USERS)


def owners(claim: ResourceClaim) -> Iterator[ObjectMeta]:
    """The pod for which it was made from a template."""
    pods = (_pod(claim, owner.name, owner.uid) for owner in claim.metadata.owner_references)
    return filter(None, pods)


def _pod(claim: ResourceClaim, name: str, uid: str) -> ObjectMeta | None:
    if len(name) > _MAX_NAME or not _SUBDOMAIN.fullmatch(name) or not uid:
        return None
    return ObjectMeta(name=name, namespace=claim.metadata.namespace, uid=uid)
