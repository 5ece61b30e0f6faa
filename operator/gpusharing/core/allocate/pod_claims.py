"""Which claims a pod has."""

from collections.abc import Mapping
from typing import Any, Final

from gpusharing.api.meta import Key
from gpusharing.core.allocate.requests import Claim, group_of, read_claim

_SCHEDULING: Final = "scheduling.k8s.io/"


class PodClaimError(Exception):
    """A claim with which the scheduler does not try any node."""

    def __init__(self, claim: str, message: str) -> None:
        super().__init__(message)
        self.claim = claim
        """As the pod calls it."""


def claims_of_pod(pod: Mapping[str, Any], claims: Mapping[Key, Mapping[str, Any]]) -> list[Claim]:
    """In the order of the pod, without what it asks for as extended resources. Both as the API server has them. Raises
    PodClaimError and UnknownRequestError."""
    found: list[Claim] = []
    namespace = pod["metadata"].get("namespace") or ""
    for entry in pod["spec"].get("resourceClaims") or ():
        name = entry.get("resourceClaimName") or _made(pod, entry["name"])
        if name is None:
            continue
        claim = claims.get((namespace, name))
        if claim is None:
            raise PodClaimError(entry["name"], f"claim {name} does not exist")
        if claim["metadata"].get("deletionTimestamp"):
            raise PodClaimError(entry["name"], f"claim {name} is being deleted")
        if not entry.get("resourceClaimName") and not _is_made_for(claim, pod):
            raise PodClaimError(entry["name"], f"claim {name} was made for neither the pod nor its PodGroup")
        found.append(read_claim(claim, pod=pod))
    return found


def _made(pod: Mapping[str, Any], entry: str) -> str | None:
    """The claim that was made of a template; None: none was needed."""
    for made in (pod.get("status") or {}).get("resourceClaimStatuses") or ():
        if made["name"] == entry:
            name: str | None = made.get("resourceClaimName")
            return name
    raise PodClaimError(entry, "the claim has not been made of its template yet")


def _is_made_for(claim: Mapping[str, Any], pod: Mapping[str, Any]) -> bool:
    owner = next((one for one in claim["metadata"].get("ownerReferences") or () if one.get("controller")), None)
    if owner is None:
        return False
    is_group = owner["kind"] == "PodGroup" and owner["apiVersion"].startswith(_SCHEDULING)
    return bool(owner["uid"] == pod["metadata"].get("uid")) or (is_group and owner["name"] == group_of(pod))
