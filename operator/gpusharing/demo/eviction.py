"""Pods whose devices have a taint with NoExecute are deleted, as kube-controller-manager does it."""

from collections.abc import Iterator

from gpusharing.demo.claims import has_ended
from gpusharing.demo.cluster import CLAIMS, PODS, SLICES, TAINT_RULES, Cluster, Json

_EVICTS = "NoExecute"


class Eviction:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def run(self) -> None:
        """Without end."""
        while True:
            changed = self._cluster.has_changed()
            for claim in self._cluster.all(CLAIMS):
                if self._is_to_go(claim):
                    await self._cluster.delete(PODS, *self._users(claim))
            await changed

    def _is_to_go(self, claim: Json) -> bool:
        """A toleration with `tolerationSeconds` counts as one without end."""
        allocation = (claim.get("status") or {}).get("allocation") or {}
        for result in (allocation.get("devices") or {}).get("results") or ():
            for taint in self._taints(result):
                if not any(_tolerates(one, taint) for one in result.get("tolerations") or ()):
                    return True
        return False

    def _taints(self, result: Json) -> Iterator[Json]:
        for one in self._cluster.all(SLICES):
            spec = one["spec"]
            if (spec["driver"], spec["pool"]["name"]) == (result["driver"], result["pool"]):
                for device in spec.get("devices") or ():
                    if device["name"] == result["device"]:
                        yield from (taint for taint in device.get("taints") or () if taint["effect"] == _EVICTS)
        for rule in self._cluster.all(TAINT_RULES):
            selector = rule["spec"].get("deviceSelector")
            is_meant = selector is not None and all(
                selector.get(name) in {None, result[name]} for name in ("driver", "pool", "device")
            )
            if is_meant and rule["spec"]["taint"]["effect"] == _EVICTS:
                yield rule["spec"]["taint"]

    def _users(self, claim: Json) -> Iterator[Json]:
        for user in (claim.get("status") or {}).get("reservedFor") or ():
            pod = self._cluster.get(PODS, user["name"], claim["metadata"]["namespace"])
            if pod is None or pod["metadata"]["uid"] != user["uid"]:
                continue
            if not pod["metadata"].get("deletionTimestamp") and not has_ended(pod):
                yield pod


def _tolerates(toleration: Json, taint: Json) -> bool:
    return (
        toleration.get("effect") in {None, "", taint["effect"]}
        and toleration.get("key") in {None, "", taint["key"]}
        and (toleration.get("operator") == "Exists" or (toleration.get("value") or "") == (taint.get("value") or ""))
    )
