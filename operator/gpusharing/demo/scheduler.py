"""Pods find their node and their devices as kube-scheduler would have it: `core.allocate` decides.

What other plugins of the scheduler look at, such as CPU and affinity between pods, does not exist here.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from gpusharing.api.dra import DeviceClass
from gpusharing.core.allocate.extended_resources import ExtendedResources, NotProvidedError
from gpusharing.core.allocate.pod_claims import PodClaimError, claims_of_pod
from gpusharing.core.allocate.requests import UnknownRequestError
from gpusharing.core.allocate.taken import Taken
from gpusharing.demo.cluster import CLAIMS, CLASSES, NODES, PODS, SLICES, TAINT_RULES, Cluster, Json
from gpusharing.explaining import lean
from gpusharing.explaining.where import Plugin, exclusions
from gpusharing.kube.clock import now
from gpusharing.kube.kinds import DEVICE_CLASSES, RESOURCE_CLAIMS
from gpusharing.kube.transport import ApiError
from gpusharing.sharing_tests.placing import Placed, place
from gpusharing.sharing_tests.published import Published
from gpusharing.snapshots.world import World

_SAYS: Final = {
    Plugin.SELECTOR: "node(s) didn't match Pod's node affinity/selector",
    Plugin.CORDONED: "node(s) were unschedulable",
}
_NO_DEVICES: Final = "cannot allocate all claims"


class WaitsError(Exception):
    """Why a pod is not scheduled, as kube-scheduler words it."""

    def __init__(self, message: str, reason: str = "Unschedulable") -> None:
        super().__init__(message)
        self.reason = reason


class Scheduler:
    def __init__(self, cluster: Cluster, *, minor: int) -> None:
        self._cluster = cluster
        self._minor = minor

    async def run(self) -> None:
        """Without end."""
        while True:
            changed = self._cluster.has_changed()
            for pod in self._waiting():
                try:
                    await self._schedule(pod)
                except WaitsError as error:
                    await self._say(pod, error)
            await changed

    def _waiting(self) -> list[Json]:
        """The oldest first."""
        found = [
            pod
            for pod in self._cluster.all(PODS)
            if not pod["spec"].get("nodeName") and not pod["metadata"].get("deletionTimestamp")
        ]
        return sorted(found, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))

    async def _schedule(self, pod: Json) -> None:
        """Raises WaitsError."""
        placed = self._place(pod)
        for claim in placed.claims:
            await self._allocate(claim)
        try:
            await self._cluster.bind(pod, placed.node)
        except ApiError as error:
            raise WaitsError(f"binding rejected: {error.message}", "SchedulerError") from None

    def _place(self, pod: Json) -> Placed:
        claims = self._cluster.claims()
        classes = {one["metadata"]["name"]: DEVICE_CLASSES.from_json(one) for one in self._cluster.all(CLASSES)}
        nodes = lean.Lean(lean.Node).of_objects(self._cluster.all(NODES))
        excluded = exclusions(pod, nodes)
        try:
            asked = claims_of_pod(pod, claims)
            _refuse_extended_resources(pod, classes)
        except (PodClaimError, UnknownRequestError) as error:
            raise WaitsError(str(error)) from None
        left = [one.metadata.name for one in nodes if one.metadata.name not in excluded]
        if not asked:
            placed = Placed(left[0], []) if left else None
        else:
            taken = Taken(map(RESOURCE_CLAIMS.from_json, self._cluster.all(CLAIMS)))
            placed = place(pod, claims, self._published(classes), taken, denied=(), rather_on=None)
        if placed is None:
            said = [_SAYS.get(one.plugin, f"node(s) had untolerated taint {one.detail}") for one in excluded.values()]
            raise WaitsError(_nobody_fits([*said, *(_NO_DEVICES for _ in left)]))
        return placed

    def _published(self, classes: Mapping[str, DeviceClass]) -> Published:
        published = Published(
            World(
                minor=self._minor,
                taken_at=now(),
                nodes=self._cluster.all(NODES),
                slices=self._cluster.all(SLICES),
                taint_rules=self._cluster.all(TAINT_RULES),
            )
        )
        published.use(classes)
        return published

    async def _allocate(self, claim: Json) -> None:
        status = {name: claim["status"][name] for name in ("allocation", "reservedFor")}
        users = [one["uid"] for one in status["reservedFor"]]
        if len(users) > len(set(users)):
            # It was reserved before, and the pod could not be bound.
            return
        body = {"metadata": {"resourceVersion": claim["metadata"]["resourceVersion"]}, "status": status}
        try:
            await self._cluster.patch(CLAIMS, claim, body, subresource="status")
        except ApiError as error:
            # The allocation guard may have refused it.
            raise WaitsError(f'running PreBind plugin "DynamicResources": {error.message}', "SchedulerError") from None

    async def _say(self, pod: Json, error: WaitsError) -> None:
        status = pod.get("status") or {}
        said = {"type": "PodScheduled", "status": "False", "reason": error.reason, "message": str(error)}
        conditions = {one["type"]: one for one in status.get("conditions") or ()}
        known = conditions.get("PodScheduled", {})
        if any(known.get(name) != value for name, value in said.items()):
            conditions["PodScheduled"] = {**said, "lastTransitionTime": now()}
            try:
                await self._cluster.patch(
                    PODS, pod, {"status": {"conditions": list(conditions.values())}}, subresource="status"
                )
            except ApiError as failed:
                if failed.status != 404:
                    raise


def _refuse_extended_resources(pod: Json, classes: Mapping[str, DeviceClass]) -> None:
    try:
        asks = ExtendedResources(classes).claim(pod, {}) is not None
    except NotProvidedError as error:
        raise WaitsError(str(error)) from None
    if asks:
        raise WaitsError("the demo's scheduler makes no claims for extended resources: give the pod a ResourceClaim")


def _nobody_fits(reasons: Sequence[str]) -> str:
    counted = sorted(Counter(reasons).items())
    return f"0/{len(reasons)} nodes are available: {', '.join(f'{count} {reason}' for reason, count in counted)}."
