"""The claims of a pod, or why they are not there."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from gpusharing.core.allocate.pod_claims import PodClaimError, claims_of_pod
from gpusharing.core.allocate.requests import Claim, UnknownRequestError
from gpusharing.explaining.scene import Scene
from gpusharing.findings import reading, waiting
from gpusharing.findings.finding import Finding, Reference
from gpusharing.snapshots.world import CLAIMS, TEMPLATES, Json

_NOT_MADE = "FailedResourceClaimCreation"


class Claims(NamedTuple):
    claims: Sequence[Claim] = ()
    findings: Sequence[Finding] = ()
    """Why there are none."""


def read(pod: Json, about: Reference, scene: Scene) -> Claims:
    try:
        return Claims(claims_of_pod(pod, scene.whole_claims))
    except UnknownRequestError as error:
        return Claims(findings=[waiting.REFUSED.found(about, where="", problem=error)])
    except PodClaimError as error:
        return Claims(findings=_missing(pod, error, about, scene))


def _missing(pod: Json, error: PodClaimError, about: Reference, scene: Scene) -> list[Finding]:
    namespace = about.namespace
    entry: Mapping[str, Any] = next(one for one in pod["spec"]["resourceClaims"] if one["name"] == error.claim)
    served = ", ".join(scene.served) or "resource.k8s.io/v1"
    if template := entry.get("resourceClaimTemplateName"):
        is_known = "templates" not in scene.world.unread
        if is_known and scene.world.get(TEMPLATES, template, namespace) is None:
            return [waiting.NO_TEMPLATE.found(about, template=template, namespace=namespace, served=served)]
        said = _not_made(pod, scene)
        remedy = (
            "Change what the message says, and the claim is made by itself."
            if said
            else "Wait some seconds: the controller manager of the cluster makes it."
        )
        problem = f"Kubernetes could not make it: {said}" if said else str(error)
        return [waiting.NO_CLAIM.found(about, entry=error.claim, problem=problem, remedy=remedy)]
    if CLAIMS.field in scene.world.unread:
        missing = "gpusharing cannot see what the pod asks for"
        return [reading.NOT_READ.found(about, resource=CLAIMS.plural, missing=missing)]
    remedy = f"Create the claim, with apiVersion resource.k8s.io/v1: this API server serves {served}."
    if "being deleted" in str(error):
        remedy = "Wait until it is gone, and create it again."
    elif "was made for neither" in str(error):
        remedy = "Delete the claim: the controller manager makes another one for this pod."
    return [waiting.NO_CLAIM.found(about, entry=error.claim, problem=error, remedy=remedy)]


def _not_made(pod: Json, scene: Scene) -> str:
    """What the controller manager says."""
    about = pod["metadata"].get("uid")
    messages = [
        one.get("message") or one.get("note") or ""
        for one in scene.world.events
        if one.get("reason") == _NOT_MADE
        and (one.get("involvedObject") or one.get("regarding") or {}).get("uid") == about
    ]
    return str(messages[-1]) if messages else ""
