"""Claims as kube-controller-manager cares for them: made of templates, released when their pods have ended."""

from typing import Any, Final

from gpusharing.demo.cluster import CLAIMS, PODS, TEMPLATES, Cluster, Json
from gpusharing.kube.transport import ApiError

ENDED: Final = frozenset({"Succeeded", "Failed"})
_POD_CLAIM_NAME: Final = "resource.kubernetes.io/pod-claim-name"


class ClaimController:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def run(self) -> None:
        """Without end."""
        while True:
            changed = self._cluster.has_changed()
            for pod in self._cluster.all(PODS):
                if not has_ended(pod) and not pod["metadata"].get("deletionTimestamp"):
                    await self._make_claims(pod)
            for claim in self._cluster.all(CLAIMS):
                await self._release(claim)
            await changed

    async def _make_claims(self, pod: Json) -> None:
        statuses = list((pod.get("status") or {}).get("resourceClaimStatuses") or ())
        known = {one["name"] for one in statuses}
        made = []
        for entry in pod["spec"].get("resourceClaims") or ():
            template = entry.get("resourceClaimTemplateName")
            if template and entry["name"] not in known:
                found = self._cluster.get(TEMPLATES, template, pod["metadata"]["namespace"])
                if found is None:
                    return
                made.append({"name": entry["name"], "resourceClaimName": await self._made(pod, entry["name"], found)})
        if made:
            await _unless_gone(
                self._cluster.patch(
                    PODS, pod, {"status": {"resourceClaimStatuses": statuses + made}}, subresource="status"
                )
            )

    async def _made(self, pod: Json, entry: str, template: Json) -> str:
        namespace = pod["metadata"]["namespace"]
        for claim in self._cluster.all(CLAIMS):
            if claim["metadata"].get("annotations", {}).get(_POD_CLAIM_NAME) == entry and _belongs_to(claim, pod):
                # It was made before, and the pod's status could not be written.
                return str(claim["metadata"]["name"])
        spec = template["spec"]
        body = {
            "metadata": {
                **(spec.get("metadata") or {}),
                "generateName": f"{pod['metadata']['name']}-{entry}-",
                "annotations": {_POD_CLAIM_NAME: entry},
                "ownerReferences": [_owner(pod)],
            },
            "spec": spec["spec"],
        }
        return str((await self._cluster.create(CLAIMS, body, namespace))["metadata"]["name"])

    async def _release(self, claim: Json) -> None:
        """Who has ended does not need it any more; what nobody needs is free again."""
        status = claim.get("status") or {}
        users = status.get("reservedFor") or []
        left = [one for one in users if self._uses(one, claim["metadata"]["namespace"])]
        if len(left) < len(users) or (not users and status.get("allocation")):
            patch: dict[str, Any] = {"reservedFor": left or None}
            if not left:
                patch |= {"allocation": None, "devices": None}
            body = {"metadata": {"resourceVersion": claim["metadata"]["resourceVersion"]}, "status": patch}
            await _unless_gone(self._cluster.patch(CLAIMS, claim, body, subresource="status"))
        if not left and self._is_of_ended_pod(claim):
            await _unless_gone(self._cluster.delete(CLAIMS, claim))

    def _uses(self, user: Json, namespace: str) -> bool:
        pod = self._cluster.get(PODS, user["name"], namespace)
        return pod is not None and pod["metadata"]["uid"] == user["uid"] and not has_ended(pod)

    def _is_of_ended_pod(self, claim: Json) -> bool:
        """Whether it was made for a pod that has ended. With a pod that is gone goes what it owns."""
        for pod in self._cluster.all(PODS):
            if _belongs_to(claim, pod):
                return has_ended(pod)
        return False


def has_ended(pod: Json) -> bool:
    return (pod.get("status") or {}).get("phase") in ENDED


def _belongs_to(claim: Json, pod: Json) -> bool:
    owners = claim["metadata"].get("ownerReferences") or ()
    return any(owner["uid"] == pod["metadata"]["uid"] for owner in owners)


def _owner(pod: Json) -> Json:
    metadata = pod["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


async def _unless_gone(writing: Any) -> None:
    """Somebody else may have deleted or changed it: then there is news, and it is looked at again."""
    try:
        await writing
    except ApiError as error:
        if error.status not in {404, 409}:
            raise
