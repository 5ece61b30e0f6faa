"""A cluster in memory in which scheduler, operator and agents have always done all that they would do.

What they do is decided by their own functions: `core.allocate` places, the operator's `Decider` decides, the agent's
`narrow` publishes, and `planning` says what a change comes to.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final, NamedTuple

import pydantic

from gpusharing.api.core import ValidatingAdmissionPolicy
from gpusharing.api.dra import DeviceClass, Namespace, ResourceClaim
from gpusharing.api.meta import Key, OwnedMeta
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.api.sharing.node_spec import ClaimSharing, GpuSharing
from gpusharing.api.sharing.plan import Effect
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.api.templates import ResourceClaimTemplate
from gpusharing.core.cluster.guards.claims import CLAIMS
from gpusharing.core.intents import ReplaceSpec, Target
from gpusharing.core.rollout.gpu_change import NodeRollout
from gpusharing.explaining.names_of_claims import names_of_claims
from gpusharing.findings.finding import Finding
from gpusharing.planning import publishing
from gpusharing.planning.changes import ObjectChange
from gpusharing.planning.deciding import Edit, decide
from gpusharing.planning.fitting import Denied
from gpusharing.planning.plan import Assumptions, denied_to, evicted, is_changed, plan, settled
from gpusharing.planning.state import decode, read, take_claim
from gpusharing.sharing_tests import agent, placing
from gpusharing.sharing_tests.published import Published
from gpusharing.snapshots.world import Json, World

_MOST_ROUNDS: Final = 8
"""Of a decision after which another one has to follow; three are usual."""


class Applied(NamedTuple):
    """What an edit comes to, as `gpusharing plan` says it before."""

    disturbed: Sequence[str]
    """Claims that it has to wait for, or evicts, as namespace/name."""
    findings: Sequence[Finding]


class SettledCluster:
    def __init__(self, world: World, *, full_menus: int, is_new: bool) -> None:
        """`is_new`: the agents have not published anything yet."""
        self._world = world
        self._assumed = Assumptions(full_menus=full_menus)
        self._state = read(world)
        self._claims = {_key(one): one for one in world.claims}
        self._pods = {_key(one): one for one in world.pods}
        self._templates = {_key(one): one for one in world.templates}
        self._published = Published(world)
        self._denied: Denied = {}
        self._settle(Edit(), self._state.decider.state.by_name(NodeSharing) if is_new else ())

    # ---------------------------------------------------------------------------------------------------- what it is

    @property
    def world(self) -> World:
        """As one would read it from its API server."""
        state = self._state.decider.state
        return replace(
            self._world,
            policies=_all(SharingPolicy, state.by_name(SharingPolicy).values()),
            node_sharings=_all(NodeSharing, state.by_name(NodeSharing).values()),
            namespaces=_all(Namespace, state.by_name(Namespace).values()),
            guards=_all(ValidatingAdmissionPolicy, state.by_name(ValidatingAdmissionPolicy).values()),
            classes=_all(DeviceClass, self._published.classes.values()),
            claims=list(self._claims.values()),
            pods=list(self._pods.values()),
            templates=self.templates,
            slices=self._published.slices,
        )

    def namespace(self, name: str) -> Namespace | None:
        return self._state.decider.state.get(Namespace, ("", name))

    @property
    def is_guarded(self) -> bool:
        """Whether the API server refuses what guards refuse."""
        return self._state.decider.state.get(ValidatingAdmissionPolicy, ("", CLAIMS)) is not None

    @property
    def minor(self) -> int:
        return self._world.minor

    @property
    def templates(self) -> Sequence[Json]:
        return list(self._templates.values())

    @property
    def policies(self) -> Sequence[SharingPolicy]:
        return list(self._state.decider.state.by_name(SharingPolicy).values())

    @property
    def pods(self) -> Mapping[Key, Json]:
        return self._pods

    def claims_of(self, pod: Key) -> Sequence[Json]:
        uid = self._pods[pod]["metadata"]["uid"]
        return [
            one
            for one in self._claims.values()
            if any(user.get("uid") == uid for user in (one.get("status") or {}).get("reservedFor") or ())
        ]

    def waiting_claims(self, pod: Json) -> Sequence[Json]:
        """Those that the pod names and that have no devices yet."""
        keys = [(pod["metadata"]["namespace"], name) for name in names_of_claims(pod)]
        found = [self._claims[key] for key in keys if key in self._claims]
        return [one for one in found if "allocation" not in (one.get("status") or {})]

    def gpu(self, node: str, slot: int) -> GpuSharing | None:
        """As the operator has decided on it."""
        sharing = self._sharing(node)
        if sharing is None:
            return None
        uuid = next((one.uuid for one in sharing.status.gpus if one.slot == slot), None)
        return next((one for one in sharing.spec.gpus if one.uuid == uuid), None)

    def verdict(self, node: str, claim: Json) -> ClaimSharing | None:
        sharing = self._sharing(node)
        uid = claim["metadata"]["uid"]
        return next((one for one in sharing.spec.claims if one.uid == uid), None) if sharing else None

    def _sharing(self, node: str) -> NodeSharing | None:
        return self._state.decider.state.get(NodeSharing, ("", node))

    # ------------------------------------------------------------------------------------------------- what is applied

    def apply(self, edit: Edit, classes: Iterable[Json] = ()) -> Applied:
        """Pods that are evicted end."""
        for one in classes:
            self._state.decider.state.put(DeviceClass, decode(DeviceClass, one))
        planned = plan(self.world, edit, self._assumed)
        waited = self._unchanged()
        disturbed = {claim for gpu in planned.disturbed if waited.get(gpu.uuid) != gpu.after for claim in gpu.claims}
        self._settle(edit, ())
        return Applied(tuple(sorted(disturbed)), planned.findings)

    def _unchanged(self) -> Mapping[str, GpuSharing]:
        """GPUs that wait for an earlier change until they are idle, with what they will be."""
        return {
            change.after.uuid: change.after
            for rollout in self._state.decider.rollouts.values()
            for change in rollout.changes
            if change.effect is Effect.UNCHANGED_UNTIL_IDLE
        }

    def add(self, pod: Json, claims: Iterable[Json]) -> None:
        """The API server has them; nobody has looked at them yet."""
        self._pods[_key(pod)] = pod
        for claim in claims:
            self.add_claim(claim)

    def add_claim(self, claim: Json) -> None:
        """One that is there already stays."""
        self._claims.setdefault(_key(claim), claim)

    def remove(self, pod: Key) -> None:
        """With the claims that it has alone."""
        self._end(pod)
        self._settle(Edit(), ())

    def _end(self, pod: Key) -> None:
        uid = self._pods[pod]["metadata"]["uid"]
        for claim in self.claims_of(pod):
            users = [one for one in claim["status"]["reservedFor"] if one.get("uid") != uid]
            if users:
                self._claims[_key(claim)] = {**claim, "status": {**claim["status"], "reservedFor": users}}
            else:
                self._release(_key(claim))
        del self._pods[pod]

    # -------------------------------------------------------------------------------------------------------- placing

    def place(self, pod: Key, *, rather_on: str | None = None) -> str | None:
        """The node on which it runs from now on; None: it waits. Nodes are tried in their order, `rather_on` first."""
        found = placing.place(
            self._pods[pod],
            self._claims,
            self._published,
            self._state.taken,
            denied=self._denied.get(pod[0], ()),
            rather_on=rather_on,
        )
        if found is None:
            return None
        node, allocated = found
        for claim in allocated:
            self._claims[_key(claim)] = claim
            take_claim(self._state, claim)
        self._pods[pod] = _running(self._pods[pod], node)
        self._settle(Edit(), [node] if allocated else ())
        return node

    def _release(self, claim: Key) -> None:
        self._claims.pop(claim, None)
        self._state.taken.remove(claim)
        self._state.decider.state.remove(ResourceClaim, claim)

    # ------------------------------------------------------------------------------------------------------- settling

    def _settle(self, edit: Edit, nodes: Collection[str]) -> None:
        """`nodes`: on these something is to be published that no decision shows."""
        decider = self._state.decider
        for _ in range(_MOST_ROUNDS):
            decided = decide(self._state, edit, now=self._world.taken_at)
            self._put_classes(decided.classes)
            edit = Edit()
            if not self._put_templates(decided.objects):
                break
        due = set(nodes)
        for _ in range(_MOST_ROUNDS):
            for key in sorted(evicted(decider.rollouts)):
                self._evict(key)
            for _ in decider.steps(now=self._world.taken_at):
                pass
            specs = {one.before.metadata.name: one for one in decider.pending if isinstance(one, ReplaceSpec)}
            due |= specs.keys()
            due |= {name for name, rollout in decider.rollouts.items() if any(map(is_changed, rollout.changes))}
            rollouts = decider.rollouts
            written = [self._write(name, rollouts[name], specs.get(name)) for name in sorted(due & rollouts.keys())]
            due = set()
            if not any(written):
                break
        self._denied = denied_to(self._state)

    def _evict(self, claim: Key) -> None:
        """A claim with all its pods. Of a pod that has ended meanwhile, it is gone."""
        status = self._claims.get(claim, {}).get("status") or {}
        users = {one.get("uid") for one in status.get("reservedFor") or ()}
        for key in [key for key, pod in self._pods.items() if pod["metadata"].get("uid") in users]:
            self._end(key)
        self._release(claim)

    def _write(self, name: str, rollout: NodeRollout, decided: ReplaceSpec | None) -> bool:
        """What operator and agent write of a node; whether it is anything new."""
        before = self._sharing(name)
        if before is None:
            return False
        gpus = [settled(change) for change in rollout.changes]
        unhealthy = {
            device: reason for one in self._published.of(name) for device, reason in publishing.unhealthy(one["spec"])
        }
        specs = list(publishing.published(gpus, unhealthy, full_menus=self._assumed.full_menus))
        self._published.replace(name, specs)
        after = agent.reported(before, gpus, specs, decided.spec if decided else before.spec)
        if after == before:
            return False
        self._state.decider.state.put(NodeSharing, after)
        return True

    def _put_classes(self, classes: Mapping[str, DeviceClass]) -> None:
        state = self._state.decider.state
        before = state.by_name(DeviceClass)
        there = {name: one for name, one in classes.items() if self._has_owner(one.metadata)}
        for name in before.keys() - there.keys():
            state.remove(DeviceClass, ("", name))
        for name, one in there.items():
            if before.get(name) != one:
                state.put(DeviceClass, one)
        self._published.use(there)

    def _put_templates(self, changes: Iterable[ObjectChange]) -> bool:
        """Whether there are others now."""
        state = self._state.decider.state
        found = [one for one in changes if one.object.kind == Target.RESOURCE_CLAIM_TEMPLATE]
        written = {(one.object.namespace, one.object.name): one for one in found if one.verb != "update"}
        for key, one in written.items():
            if one.verb == "delete":
                state.remove(ResourceClaimTemplate, key)
                self._templates.pop(key, None)
            else:
                body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", **one.body}
                state.put(ResourceClaimTemplate, decode(ResourceClaimTemplate, body))
                self._templates[key] = body
        gone = [key for key, one in state.all(ResourceClaimTemplate).items() if not self._has_owner(one.metadata)]
        for key in gone:
            state.remove(ResourceClaimTemplate, key)
            self._templates.pop(key, None)
        return bool(written or gone)

    def _has_owner(self, metadata: OwnedMeta) -> bool:
        """What policies own goes with them: Kubernetes' garbage collector sees to it."""
        owners = {one.uid for one in metadata.owner_references if one.kind == "SharingPolicy"}
        return not owners or not owners.isdisjoint(policy.metadata.uid for policy in self.policies)


def _running(pod: Json, node: str) -> Json:
    return {
        **pod,
        "spec": {**pod["spec"], "nodeName": node},
        "status": {**(pod.get("status") or {}), "phase": "Running"},
    }


def _key(value: Json) -> Key:
    return value["metadata"].get("namespace", ""), value["metadata"]["name"]


def _all(kind: Any, objects: Iterable[Any]) -> list[Json]:
    adapter = _adapter(kind)
    return [adapter.dump_python(one, mode="json", by_alias=True, exclude_none=True) for one in objects]


@cache
def _adapter(kind: Any) -> pydantic.TypeAdapter[Any]:
    return pydantic.TypeAdapter(kind)
