"""Why a pod, or a claim, waits."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto

from gpusharing.core.allocate.allocation import OnNode, Problem
from gpusharing.core.allocate.extended_resources import IMPLICIT, ExtendedResources, NotProvidedError
from gpusharing.core.allocate.requests import Claim
from gpusharing.core.quantities import whole
from gpusharing.explaining import agents, asking, classes, lacking, lean, refusals, wording
from gpusharing.explaining.asking import Answer
from gpusharing.explaining.explanation import Table
from gpusharing.explaining.lack import Lack
from gpusharing.explaining.scene import Scene
from gpusharing.explaining.scheduler import Said
from gpusharing.explaining.where import Exclusion, Plugin
from gpusharing.findings import reading, waiting
from gpusharing.findings.finding import Finding, Reference
from gpusharing.snapshots.world import Json

_STEPS = ("REQUEST", "DEVICES", "OF THESE")


class Expected(Enum):
    """What the scheduler should say, too."""

    DEVICES = auto()
    NODES = auto()
    ANYTHING = auto()
    NOTHING = auto()
    """It should place the pod."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    findings: Sequence[Finding]
    tables: Sequence[Table] = ()
    expected: Expected = Expected.DEVICES

    def agrees_with(self, said: Said) -> bool:
        match self.expected:
            case Expected.DEVICES:
                return said.is_about_devices or bool(said.others)
            case Expected.NODES:
                return any(one.is_about_nodes or one.is_about_devices for one in said.reasons)
            case Expected.ANYTHING:
                return True
        return False


def why(
    scene: Scene,
    about: Reference,
    claims: Sequence[Claim],
    *,
    excluded: Mapping[str, Exclusion],
    said: Said | None = None,
) -> Outcome:
    """`claims`: not allocated yet, at least in part. `excluded`: nodes on which the pod may not run anyway."""
    if unread := _unread(scene, about):
        return Outcome(findings=unread, expected=Expected.ANYTHING)
    outcome = _why(scene, about, claims, excluded=excluded, said=said)
    return replace(outcome, findings=[*outcome.findings, *_hidden(scene, about)])


def _unread(scene: Scene, about: Reference) -> list[Finding]:
    """Without these nothing can be said but what the scheduler says."""
    needed = {"slices": "resourceslices", "classes": "deviceclasses", "nodes": "nodes"}
    missing = "gpusharing cannot look for devices by itself"
    return [
        reading.NOT_READ.found(about, resource=resource, missing=missing)
        for name, resource in needed.items()
        if name in scene.world.unread
    ]


def _hidden(scene: Scene, about: Reference) -> list[Finding]:
    if scene.sees_all_claims:
        return []
    missing = "claims of other namespaces are counted without their names"
    return [reading.NOT_READ.found(about, resource="resourceclaims of all namespaces", missing=missing)]


def _why(
    scene: Scene,
    about: Reference,
    claims: Sequence[Claim],
    *,
    excluded: Mapping[str, Exclusion],
    said: Said | None = None,
) -> Outcome:
    denied = classes.closed_to(about.namespace, scene)
    mine = asking.prepare(scene, claims, denied=list(denied))
    answer = mine.ask(claims)
    if answer.stop is not None:
        return Outcome(findings=[refusals.refusal(answer.stop, about, scene)])
    if elsewhere := _elsewhere(about, claims, answer, excluded):
        return elsewhere
    allowed = {node.metadata.name for node in scene.nodes} - excluded.keys()
    fitting = answer.fitting(allowed)
    if fitting:
        return _fits(about, fitting, said)
    if others := answer.fitting():
        nodes = [name for name, _ in others]
        return Outcome(findings=[_excluded(about, nodes, excluded)], expected=Expected.NODES)
    # Where there are devices only on nodes on which it may not run, those are looked at.
    everywhere = {node.metadata.name for node in scene.nodes}
    looked_at = allowed if lacking.has_devices(answer, allowed) else everywhere
    return _does_not_fit(Lack(about=about, scene=scene, asking=mine, claims=claims, answer=answer, nodes=looked_at))


def _fits(about: Reference, fitting: Sequence[tuple[str, OnNode]], said: Said | None) -> Outcome:
    nodes = wording.some([name for name, _ in fitting])
    others = said.others if said else []
    if said and others:
        reasons = wording.some([f"{one.text} on {wording.nodes(one.on)}" for one in others])
        found = waiting.OTHER_REASON.found(about, nodes=nodes, reasons=reasons)
        return Outcome(findings=[found], expected=Expected.ANYTHING)
    first = [one.device.id[2] for chosen in fitting[0][1].chosen or () for one in chosen]
    devices = f" (there {wording.some(first)})" if first else ""
    return Outcome(findings=[waiting.FITS.found(about, nodes=nodes, devices=devices)], expected=Expected.NOTHING)


def _excluded(about: Reference, nodes: Sequence[str], excluded: Mapping[str, Exclusion]) -> Finding:
    plugins = Counter(excluded[name].plugin for name in nodes)
    plugin = plugins.most_common(1)[0][0]
    details = sorted({excluded[name].detail for name in nodes if excluded[name].plugin is plugin} - {""})
    remedies = {
        Plugin.SELECTOR: "Change the pod's nodeSelector or affinity, or label these nodes.",
        Plugin.CORDONED: "Run `kubectl uncordon` on one of them.",
        Plugin.TAINT: f"Add a toleration for {wording.some(details)} to the pod.",
    }
    return waiting.NODES_EXCLUDED.found(
        about,
        nodes=wording.some(nodes),
        why=f"{plugin}: {wording.some(details)}" if details else plugin.value,
        remedy=remedies[plugin],
    )


def _does_not_fit(lack: Lack) -> Outcome:
    about, scene, answer = lack.about, lack.scene, lack.answer
    if not scene.slices:
        return Outcome(findings=agents.why_no_slices(scene, about, lack.claims))
    found = lacking.findings(lack)
    if lacking.matches_nothing(lack):
        other = lack.asking.without_narrowing(scene)
        unnarrowed = replace(lack, asking=other, answer=other.ask(lack.claims))
        if better := lacking.findings(unnarrowed):
            # It may have room there: where a GPU has not changed its pool yet, or its layout is not known.
            found, lack = better, unnarrowed
    found = [*found, *_pools(about, answer, lack.nodes)]
    found += agents.missing(scene, about)
    gave_up = [
        name
        for one in answer.answered
        if one.found.problem is Problem.GAVE_UP
        for name in one.group.members
        if name in lack.nodes
    ]
    if gave_up:
        found.insert(0, waiting.GAVE_UP.found(about, nodes=wording.some(gave_up)))
    if not found and not lacking.has_devices(answer, lack.nodes):
        found = agents.why_no_devices(scene, about, lack.claims)
    return Outcome(findings=found, tables=[Table("steps", _STEPS, lacking.steps(lack))])


def _elsewhere(
    about: Reference, claims: Sequence[Claim], answer: Answer, excluded: Mapping[str, Exclusion]
) -> Outcome | None:
    """Whether the pod may run on no node on which its allocated claims can be used."""
    bound = [claim for claim in claims if claim.is_allocated and claim.node_selector is not None]
    away = {
        name for one in answer.answered if one.found.problem is Problem.CLAIM_ELSEWHERE for name in one.group.members
    }
    there = [name for one in answer.answered for name in one.group.members if name not in away]
    if not bound or not away or any(name not in excluded for name in there):
        return None
    nodes = wording.some(there) or "nodes that do not exist any more"
    finding = waiting.ALLOCATED_ELSEWHERE.found(about, claim=bound[0].display_name, nodes=nodes)
    return Outcome(findings=[finding], expected=Expected.NODES)


def _pools(about: Reference, answer: Answer, nodes: Collection[str]) -> list[Finding]:
    incomplete = sorted(
        {pool for one in answer.answered if _has(one.group.members, nodes) for pool in one.found.incomplete}
    )
    invalid = {
        pool: why
        for one in answer.answered
        if _has(one.group.members, nodes)
        for pool, why in one.found.invalid.items()
    }
    found = [waiting.POOL_INVALID.found(about, pool=pool, problem=why) for pool, why in sorted(invalid.items())[:1]]
    if incomplete:
        these = "it" if len(incomplete) == 1 else "them"
        pools = f"{'pool' if len(incomplete) == 1 else 'pools'} {wording.some(incomplete)}"
        found.append(waiting.POOL_INCOMPLETE.found(about, pools=pools, these=these))
    return found


def _has(members: Sequence[str], nodes: Collection[str]) -> bool:
    return any(name in nodes for name in members)


def extended(pod: Json, about: Reference, scene: Scene) -> tuple[Claim | None, Finding | None]:
    """What the scheduler adds for extended resources, as on the first node on which it can."""
    by_plugins = {name for node in scene.nodes for name, amount in _allocatable(node).items() if amount}
    provided = by_plugins | {one.spec.extended_resource_name or "" for one in scene.classes.values()}
    provided |= {f"{IMPLICIT}{name}" for name in scene.classes}
    for container in (*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]):
        resources = container.get("resources") or {}
        for name in {**(resources.get("limits") or {}), **(resources.get("requests") or {})}:
            if "/" in name and "kubernetes.io/" not in name.removeprefix(IMPLICIT) and name not in provided:
                return None, waiting.NOT_PROVIDED.found(about, resource=name)
    resources_ = ExtendedResources(scene.classes)
    for node in scene.nodes:
        try:
            return resources_.claim(pod, _allocatable(node)), None
        except NotProvidedError:
            continue
    return None, None


def _allocatable(node: lean.Node) -> Mapping[str, int]:
    return {name: whole(amount) for name, amount in (node.status.allocatable or {}).items() if "/" in name}
