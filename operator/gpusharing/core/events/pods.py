"""Pods as objects of Events. A claim may name anything as its pod, and the API refuses Events about nonsense."""

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from gpusharing.api.dra import ResourceClaim
from gpusharing.api.meta import ObjectMeta

_MOST_USERS: Final = 8
"""Of a claim, which may have hundreds."""

_MAX_NAME: Final = 253
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


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
    references = claim.metadata.owner_references
    pods = (_pod(claim, reference.get("name"), reference.get("uid")) for reference in references if _is_pod(reference))
    return islice(filter(None, pods), _MOST_USERS)


def _is_pod(reference: Mapping[str, Any]) -> bool:
    return (reference.get("apiVersion"), reference.get("kind")) == ("v1", "Pod")


def _pod(claim: ResourceClaim, name: Any, uid: Any) -> ObjectMeta | None:
    is_name = isinstance(name, str) and len(name) <= _MAX_NAME and _SUBDOMAIN.fullmatch(name)
    if not is_name or not isinstance(uid, str) or not uid:
        return None
    return ObjectMeta(name=name, namespace=claim.metadata.namespace, uid=uid)
