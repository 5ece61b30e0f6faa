"""Makes the plan."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from gpusharing.api import names
from gpusharing.api.core import ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding
from gpusharing.api.dra import Namespace
from gpusharing.api.meta import Key
from gpusharing.api.sharing.node_spec import IDLE_WAIT
from gpusharing.api.sharing.plan import Effect
from gpusharing.api.sharing.rollout import RolloutMode
from gpusharing.core.allocate.taken import Taken
from gpusharing.core.cluster.guards import closing_upkeep
from gpusharing.core.cluster.guards.tenants_in_force import tenants_in_force
from gpusharing.core.reasons import AcceptedReason, ConditionType, ReadyReason
from gpusharing.core.rollout.gpu_change import GpuChange, NodeRollout
from gpusharing.core.rollout.gpu_progress import blocking_holds
from gpusharing.core.rollout.plan import differ
from gpusharing.core.text import counted, listed
from gpusharing.explaining import lean
from gpusharing.findings import planning, reading
from gpusharing.findings.finding import Finding, Reference
from gpusharing.planning import fitting, order, publishing
from gpusharing.planning.changes import GpuPlan, NodePlan, Plan, Step, Workload
from gpusharing.planning.deciding import Decided, Edit, decide
from gpusharing.planning.fitting import Denied, Fleet
from gpusharing.planning.publishing import Settled
from gpusharing.planning.state import KindOfClaim, State, read
from gpusharing.snapshots.world import Json, World

_NOT_READY: Final = frozenset(
    {
        ReadyReason.NO_MATCHING_NODES,
        ReadyReason.NO_MATCHING_GPUS,
        ReadyReason.LOST_ALL_GPUS,
        ReadyReason.NOTHING_OFFERED,
    }
)
REQUIRED: Final = ("nodes", "namespaces", "node_sharings", "policies", "claims", "classes", "slices")
"""Fields of a World without which a plan would be wrong."""
_LONGEST: Final = 600
"""Characters of what a condition says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumptions:
    """What no file says."""

    full_menus: int = 1
    """Idle GPUs of a node and policy that publish every mode: the agent's --full-menus."""
    idle_wait: float = IDLE_WAIT


def plan(world: World, edit: Edit, assumptions: Assumptions | None = None) -> Plan:
    assumed = assumptions or Assumptions()
    state = read(world, idle_wait=assumed.idle_wait)
    decided = decide(state, edit, now=world.taken_at)
    return _Planning(world, state, decided, assumed).plan()


def without(found: Plan, codes: Collection[str]) -> Plan:
    """Findings of these codes are left out."""
    return replace(found, findings=tuple(one for one in found.findings if one.code not in codes))


@dataclass(slots=True)
class _Planning:
    world: World
    state: State
    decided: Decided
    assumed: Assumptions
    _changing: dict[str, list[GpuChange]] = field(default_factory=dict)
    """By node, the GPUs that change."""
    _published: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """By changing node, the devices of our driver that are published now."""
    _planned: dict[str, set[str]] = field(default_factory=dict)

    def plan(self) -> Plan:
        rollouts = self.state.decider.rollouts
        for name, rollout in sorted(rollouts.items()):
            if found := [change for change in rollout.changes if is_changed(change)]:
                self._changing[name] = found
        starting, stranded = self._fitting(rollouts)
        nodes = tuple(self._node(name, changes) for name, changes in self._changing.items())
        steps = tuple(self._steps())
        return Plan(
            policies=self.decided.policies,
            nodes=nodes,
            objects=self.decided.objects,
            steps=steps,
            starting=tuple(starting),
            stranded=tuple(stranded),
            findings=tuple(self._findings(nodes, steps, stranded)),
            unreadable=tuple(self.state.unreadable),
            total_nodes=len(rollouts),
            total_gpus=sum(len(rollout.changes) for rollout in rollouts.values()),
        )

    # ---------------------------------------------------------------------------------------------------------- nodes

    def _node(self, name: str, changes: Sequence[GpuChange]) -> NodePlan:
        published, planned = self._published[name], self._planned.get(name, set())
        return NodePlan(
            node=name,
            gpus=tuple(_gpu(change) for change in changes),
            added=tuple(sorted(planned - published)),
            removed=tuple(sorted(published - planned)),
        )

    # ------------------------------------------------------------------------------------------------------- workloads

    def _fitting(self, rollouts: Mapping[str, NodeRollout]) -> tuple[list[Workload], list[Workload]]:
        after = self._fleet(rollouts)
        denied = denied_to(self.state)
        taken = self._taken_after(rollouts)
        found = list(fitting.starting(self.world, after, taken, denied))
        in_use = fitting.kinds_in_use(self.state)
        missing = fitting.without_place(in_use, after, denied)
        del after, taken
        if not found and not missing:
            return [], []
        before = self._fleet({})
        # What fits now, too, waits for something else.
        waiting = {_id(pod) for pod, _ in found}
        fits_now = {
            _id(pod) for pod, _ in fitting.starting(self.world, before, self.state.taken, denied) if _id(pod) in waiting
        }
        starting = [workload for pod, workload in found if _id(pod) not in fits_now]
        # Those that had none before are not stranded by this.
        homeless = {id(kind) for kind in fitting.without_place(missing, before, {})}
        return _grouped(starting), [_workload(kind) for kind in missing if id(kind) not in homeless]

    def _fleet(self, rollouts: Mapping[str, NodeRollout]) -> Fleet:
        """With what is published when all changes are done; without rollouts, with what is published now."""
        changing = self._changing.keys() if rollouts else frozenset[str]()
        slices = []
        unhealthy: dict[str, str] = {}
        for one in self.world.slices:
            spec = one["spec"]
            node = spec.get("nodeName", "")
            if spec["driver"] == names.DRIVER and node in changing:
                self._published[node] |= publishing.devices([spec])
                unhealthy |= {f"{node}/{device}": reason for device, reason in publishing.unhealthy(spec)}
            else:
                slices.append(fitting.slice_of(one["metadata"]["name"], spec))
        for node in changing:
            specs = list(self._specs(node, rollouts[node], unhealthy))
            self._planned[node] = set(publishing.devices(specs))
            slices += [fitting.slice_of(f"{node}-{number}", spec) for number, spec in enumerate(specs)]
        return Fleet(
            nodes=lean.Lean(lean.Node).of_objects(self.world.nodes),
            slices=slices,
            classes=self.decided.classes,
            minor=self.world.minor,
            rules=fitting.rules_of(self.world),
        )

    def _specs(self, node: str, rollout: NodeRollout, unhealthy: Mapping[str, str]) -> Iterator[dict[str, Any]]:
        gpus = [settled(change) for change in rollout.changes]
        of_node = {device.removeprefix(f"{node}/"): reason for device, reason in unhealthy.items()} if unhealthy else {}
        return publishing.published(gpus, of_node, full_menus=self.assumed.full_menus)

    def _taken_after(self, rollouts: Mapping[str, NodeRollout]) -> Taken:
        """Without claims whose pods are evicted."""
        taken = self.state.taken.copy()
        for key in evicted(rollouts):
            taken.remove(key)
        return taken

    # ------------------------------------------------------------------------------------------------------- rollouts

    def _steps(self) -> Iterator[Step]:
        by_policy: defaultdict[str, dict[str, list[GpuChange]]] = defaultdict(dict)
        for node, changes in self._changing.items():
            for change in changes:
                if change.policy is not None:
                    by_policy[change.policy].setdefault(node, []).append(change)
        takes = self._takes()
        for policy, by_node in sorted(by_policy.items()):
            examined = self.state.decider.examined.by_name.get(policy)
            if examined is None:
                # It is deleted: what it had is free at once, or when its claims have left.
                yield from order.steps(policy, order.UNLIMITED, by_node, {}, takes=takes)
            else:
                parts = self.state.decider.parts.get(policy, {})
                yield from order.steps(policy, examined.policy.spec.rollout, by_node, parts, takes=takes)

    def _takes(self) -> order.Takes:
        state = self.state.decider.state
        guards = state.by_name(ValidatingAdmissionPolicy)
        bindings = state.by_name(ValidatingAdmissionPolicyBinding)
        is_guarded = closing_upkeep.holds(guards, bindings)
        holders = {
            (hold.claim.metadata.namespace, hold.claim.metadata.name)
            for changes in self._changing.values()
            for change in changes
            if change.effect is Effect.EVICTS
            for hold in change.gpu.holds
        }
        return order.Takes(self.world, holders, closing=order.WITH_GUARD if is_guarded else self.assumed.idle_wait)

    # ------------------------------------------------------------------------------------------------------- findings

    def _findings(
        self, nodes: Sequence[NodePlan], steps: Sequence[Step], stranded: Sequence[Workload]
    ) -> Iterator[Finding]:
        for written in self.decided.statuses:
            yield from self._of_status(Reference("SharingPolicy", written.before.metadata.name), written)
        yield from _evictions(nodes)
        for policy, parts in self.state.decider.parts.items():
            mine = [step for step in steps if step.policy == policy]
            if left := order.never_begun(mine, parts):
                yield planning.BLOCKED.found(Reference("SharingPolicy", policy), nodes=listed(left))
        yield from _of_stranded(stranded)
        for field_, why in sorted(self.world.unread.items()):
            yield reading.NOT_READ.found(
                Reference("Snapshot", ""), resource=field_, missing=f"the plan leaves them out ({_clipped(why)})"
            )
        if self.state.unreadable:
            yield planning.SKIPPED.found(Reference("Snapshot", ""), objects=listed(self.state.unreadable))

    def _of_status(self, about: Reference, written: Any) -> Iterator[Finding]:
        conditions = {one.type: one for one in written.status.conditions}
        rollout = written.before.spec.rollout
        accepted = conditions[ConditionType.ACCEPTED]
        ready = conditions[ConditionType.READY]
        degraded = conditions[ConditionType.DEGRADED]
        if accepted.reason != AcceptedReason.ACCEPTED:
            yield planning.NOT_ACCEPTED.found(about, problem=_clipped(accepted.message))
            return
        if rollout.paused or rollout.mode is RolloutMode.PLAN:
            yield planning.SUSPENDED.found(about, why="rollout.paused" if rollout.paused else "rollout.mode: Plan")
        elif ready.reason in _NOT_READY:
            yield planning.NOT_READY.found(about, reason=ready.reason, problem=_clipped(ready.message))
        if degraded.status == "True":
            yield planning.DEGRADED.found(about, reason=degraded.reason, problem=_clipped(degraded.message))


def denied_to(state: State) -> Denied:
    """As the allocation guard, when it knows the policies."""
    objects = state.decider.state
    tenants = tenants_in_force(state.decider.examined.in_order, objects.by_name(ValidatingAdmissionPolicy))
    return {
        name: frozenset(
            policy
            for policy, selector in tenants.items()
            if selector is None or not selector.matches(namespace.metadata.labels or {})
        )
        for name, namespace in objects.by_name(Namespace).items()
    }


def evicted(rollouts: Mapping[str, NodeRollout]) -> set[Key]:
    """Claims whose pods are evicted."""
    leaving = {
        hold.uid
        for rollout in rollouts.values()
        for change in rollout.changes
        if change.effect is Effect.EVICTS
        for hold in blocking_holds(change.after, change.gpu)
    }
    return {
        (hold.claim.metadata.namespace, hold.claim.metadata.name)
        for rollout in rollouts.values()
        for change in rollout.changes
        for hold in change.gpu.holds
        if hold.uid in leaving
    }


def is_changed(change: GpuChange) -> bool:
    if change.before is None:
        return change.after.policy is not None
    begins_to_evict = change.effect is Effect.EVICTS and not change.is_applied
    return begins_to_evict or differ(change.before, change.after)


def _gpu(change: GpuChange) -> GpuPlan:
    return GpuPlan(
        uuid=change.after.uuid,
        slot=change.gpu.status.slot,
        before=change.before,
        after=change.after,
        effect=change.effect,
        claims=change.claims,
    )


def settled(change: GpuChange) -> Settled:
    """The GPU when its change is done."""
    stays = change.effect is Effect.UNCHANGED_UNTIL_IDLE and change.before is not None
    entry = change.before if stays and change.before is not None else change.after
    leaving = {id(hold) for hold in blocking_holds(entry, change.gpu)} if change.effect is Effect.EVICTS else set()
    staying = tuple(hold for hold in change.gpu.holds if id(hold) not in leaving)
    return Settled(view=change.gpu, entry=entry, staying=staying)


def _evictions(nodes: Sequence[NodePlan]) -> Iterator[Finding]:
    by_policy: defaultdict[str, list[tuple[str, GpuPlan]]] = defaultdict(list)
    for node in nodes:
        for gpu in node.gpus:
            if gpu.effect is Effect.EVICTS:
                winner = gpu.after.policy or (gpu.before.policy if gpu.before else None)
                by_policy[winner.name if winner else ""].append((node.node, gpu))
    for policy, found in sorted(by_policy.items()):
        claims = sorted({claim for _, gpu in found for claim in gpu.claims})
        places = [f"{node}/gpu-{gpu.slot}" for node, gpu in found]
        yield planning.EVICTS.found(
            Reference("SharingPolicy", policy),
            claims=f"{counted(len(claims), 'claim')} ({listed(claims)})",
            gpus=listed(places),
        )


def _of_stranded(stranded: Sequence[Workload]) -> Iterator[Finding]:
    """Namespaces that ask for the same are told together."""
    by_wish: defaultdict[str, list[Workload]] = defaultdict(list)
    for one in stranded:
        by_wish[one.asks_for].append(one)
    for wish, found in sorted(by_wish.items()):
        claims = counted(sum(one.count for one in found), "claim")
        examples = listed([f"{one.namespace}/{one.name}" for one in found])
        about = Reference("Namespace", found[0].namespace) if len(found) == 1 else Reference("Cluster", "")
        yield planning.STRANDED.found(about, claims=claims, examples=examples, what=wish)


def _grouped(found: Sequence[Workload]) -> list[Workload]:
    """Pods of a namespace that ask for the same are told together."""
    counts = Counter((one.namespace, one.asks_for) for one in found)
    first: dict[tuple[str, str], Workload] = {}
    for one in found:
        first.setdefault((one.namespace, one.asks_for), one)
    return [
        Workload(namespace=one.namespace, name=one.name, count=counts[key], asks_for=one.asks_for)
        for key, one in sorted(first.items())
    ]


def _workload(kind: KindOfClaim) -> Workload:
    asks_for = fitting.in_words([kind.claim] if kind.claim else [])
    return Workload(namespace=kind.namespace, name=kind.example, count=kind.allocated, asks_for=asks_for)


def _id(pod: Json) -> str:
    metadata = pod["metadata"]
    return f"{metadata.get('namespace')}/{metadata['name']}"


def _clipped(text: str) -> str:
    flat = " ".join(text.split()).rstrip(".")
    return flat if len(flat) <= _LONGEST else f"{flat[: _LONGEST - 3]}..."
