"""A plan as data, as Markdown for a merge request, and for programs that show findings."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpusharing.api.sharing.node_spec import GpuSharing
from gpusharing.api.sharing.plan import Effect
from gpusharing.core.text import listed
from gpusharing.findings.finding import Finding, Severity
from gpusharing.findings.github import command
from gpusharing.findings.xml import element
from gpusharing.planning.changes import GpuPlan, ObjectChange, Plan, Step, in_words

_MOST_PLACES: Final = 5
_MOST_STEPS: Final = 4
_MARKS: Final = {Severity.ERROR: "❌", Severity.WARNING: "⚠️", Severity.INFO: "💡"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """GPUs that change alike."""

    change: str
    effect: Effect
    places: tuple[str, ...]
    """node/gpu-0"""
    claims: tuple[str, ...]

    @property
    def where(self) -> str:
        return some(self.places)

    @property
    def effect_in_words(self) -> str:
        return effect_in_words(self.effect, self.claims)


def groups(plan: Plan) -> list[Group]:
    """Those that disturb most come first."""
    places: defaultdict[tuple[Effect, str], list[str]] = defaultdict(list)
    claims: defaultdict[tuple[Effect, str], set[str]] = defaultdict(set)
    for node in plan.nodes:
        for gpu in node.gpus:
            key = gpu.effect, change_in_words(gpu)
            places[key].append(f"{node.node}/gpu-{gpu.slot}")
            claims[key].update(gpu.claims)
    found = [
        Group(change=change, effect=effect, places=tuple(found_at), claims=tuple(sorted(claims[effect, change])))
        for (effect, change), found_at in places.items()
    ]
    return sorted(found, key=lambda one: (-_WEIGHT[one.effect], -len(one.places), one.change))


def some(items: Sequence[str]) -> str:
    more = len(items) - _MOST_PLACES
    return ", ".join(items[:_MOST_PLACES]) + (f" and {more:,} more" if more > 0 else "")


def summary(plan: Plan) -> str:
    gpus = sum(len(node.gpus) for node in plan.nodes)
    if not gpus:
        return f"No GPU changes, of {_counted(plan.total_gpus, 'GPU')} on {_counted(plan.total_nodes, 'node')}."
    verb = "changes" if gpus == 1 else "change"
    claims = len({claim for gpu in plan.disturbed for claim in gpu.claims})
    disturbed = f"this concerns {_counted(claims, 'claim')} in use" if claims else "no running work is disturbed"
    nodes = f"{len(plan.nodes):,} of {_counted(plan.total_nodes, 'node')}"
    return f"{gpus:,} of {_counted(plan.total_gpus, 'GPU')} on {nodes} {verb}; {disturbed}."


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def change_in_words(gpu: GpuPlan) -> str:
    before, after = _offer_in_words(gpu.before), _offer_in_words(gpu.after)
    if before != after:
        return f"{before} → {after}"
    return f"{after} ({'; '.join(differences(gpu.before, gpu.after)) or 'settings'})"


def effect_in_words(effect: Effect, claims: Sequence[str]) -> str:
    named = f"{_counted(len(claims), 'claim')} ({listed(claims)})"
    match effect:
        case Effect.NONE:
            return "nobody is disturbed"
        case Effect.CLOSES_FIRST:
            return "nobody is disturbed; free again when the former devices are withdrawn"
        case Effect.REPARTITIONS:
            return "nobody is disturbed; repartitioned or reset while idle"
        case Effect.WAITS:
            return f"waits for {named}"
        case Effect.EVICTS:
            return f"evicts the pods of {named}"
        case Effect.UNCHANGED_UNTIL_IDLE:
            return f"stays unchanged while {named} hold it"


def differences(before: GpuSharing | None, after: GpuSharing) -> list[str]:
    """mps.maxClients 4 → 8."""
    one, other = _facts(before), _facts(after)
    return [
        f"{name} {one.get(name, '-')} → {other.get(name, '-')}"
        for name in sorted(one.keys() | other.keys())
        if one.get(name) != other.get(name)
    ]


def order_in_words(steps: Sequence[Step]) -> list[str]:
    """Of each policy the first steps."""
    by_policy: defaultdict[str, list[Step]] = defaultdict(list)
    for one in steps:
        by_policy[one.policy].append(one)
    lines: list[str] = []
    for policy, found in by_policy.items():
        lines += [f"{policy}: {some(one.nodes)}: {one.why}{time_in_words(one.seconds)}" for one in found[:_MOST_STEPS]]
        if more := found[_MOST_STEPS:]:
            nodes = sum(len(one.nodes) for one in more)
            lines.append(f"{policy}: {_counted(len(more), 'more step')} for {_counted(nodes, 'node')}")
    return lines


def time_in_words(seconds: float | None) -> str:
    if seconds is None:
        return ""
    if not seconds:
        return " (at once)"
    return f" (up to {seconds:.0f} s)" if seconds < 120 else f" (up to {seconds / 60:.0f} min)"


def about(finding: Finding) -> str:
    """What it is about, before its sentence."""
    return f"{finding.object}: " if finding.object.name else ""


def object_in_words(change: ObjectChange) -> str:
    details = f" ({', '.join(change.details)})" if change.details else ""
    return f"{change.verb} {change.object}{details}"


def to_json(plan: Plan) -> dict[str, Any]:
    return {
        "changes": plan.changes,
        "disturbs": bool(plan.disturbed),
        "summary": summary(plan),
        "policies": [_object(one) for one in plan.policies],
        "nodes": [
            {
                "node": node.node,
                "gpus": [_gpu(gpu) for gpu in node.gpus],
                "devicesAdded": list(node.added),
                "devicesRemoved": list(node.removed),
            }
            for node in plan.nodes
        ],
        "objects": [_object(one) for one in plan.objects],
        "order": [
            {"policy": one.policy, "nodes": list(one.nodes), "seconds": one.seconds, "why": one.why}
            for one in plan.steps
        ],
        "starting": [_workload(one) for one in plan.starting],
        "stranded": [_workload(one) for one in plan.stranded],
        "findings": [one.to_json() for one in plan.findings],
    }


def markdown(plan: Plan) -> str:
    return "\n".join(_markdown(plan)).rstrip() + "\n"


def github(findings: Iterable[Finding]) -> Iterator[str]:
    for one in findings:
        yield command(one, {}, f"{about(one)}{one.sentence} {one.remedy}")


def junit(plan: Plan) -> str:
    """A test for each policy that changes, and one for each finding."""
    cases = [element("testcase", {"classname": "plan", "name": object_in_words(one)}) for one in plan.policies]
    for one in plan.findings:
        text = f"{about(one)}{one.sentence} {one.remedy}"
        is_info = one.entry.severity is Severity.INFO
        failure = element("failure", {"type": one.code, "message": one.sentence}, text=text)
        inner = element("system-out", {}, text=text) if is_info else failure
        cases.append(element("testcase", {"classname": "plan", "name": f"{about(one)}{one.code}"}, [inner]))
    failures = sum("<failure" in case for case in cases)
    attributes = {"name": "gpusharing plan", "tests": str(len(cases)), "failures": str(failures)}
    suite = element("testsuite", attributes, [*cases, element("system-out", {}, text=summary(plan))])
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{element("testsuites", {}, [suite])}'


_WEIGHT: Final = {
    Effect.EVICTS: 5,
    Effect.WAITS: 4,
    Effect.UNCHANGED_UNTIL_IDLE: 3,
    Effect.REPARTITIONS: 2,
    Effect.CLOSES_FIRST: 1,
    Effect.NONE: 0,
}


def _markdown(plan: Plan) -> Iterator[str]:
    yield f"### GPU sharing: {summary(plan)}\n"
    for finding in plan.findings:
        yield f"- {_MARKS[finding.entry.severity]} **{finding.code}** {_cell(about(finding) + finding.sentence)}"
        yield f"  {_cell(finding.remedy)}"
    if plan.findings:
        yield ""
    if found := groups(plan):
        yield "| GPUs | change | effect | where |\n|---:|---|---|---|"
        for one in found:
            yield f"| {len(one.places):,} | {_cell(one.change)} | {_cell(one.effect_in_words)} | {_cell(one.where)} |"
        yield ""
    yield from _details("Order", order_in_words(plan.steps))
    yield from _details("Pods that would start", map(workload_in_words, plan.starting))
    yield from _details("Policies and other objects", map(object_in_words, (*plan.policies, *plan.objects)))


def _details(title: str, lines: Iterable[str]) -> Iterator[str]:
    found = list(lines)
    if found:
        yield f"<details><summary>{title} ({len(found):,})</summary>\n"
        yield from (f"- {_cell(line)}" for line in found)
        yield "\n</details>\n"


def workload_in_words(one: Any) -> str:
    what = f"{one.count:,} like {one.namespace}/{one.name}" if one.count > 1 else f"{one.namespace}/{one.name}"
    return f"{what}: {one.asks_for}"


def _cell(text: str) -> str:
    """In a table, and not as HTML."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|").replace("\n", " ")


def _offer_in_words(entry: GpuSharing | None) -> str:
    if entry is None:
        return "not offered yet"
    offers = in_words(entry.offers)
    if entry.policy is None:
        return "as found, no policy"
    return f"{entry.policy.name}: {offers}{' for tenants' if entry.restricted else ''}"


def _facts(entry: GpuSharing | None) -> Mapping[str, Any]:
    if entry is None:
        return {}
    value = {
        **(entry.offers.to_json() if entry.offers else {}),
        "allow": entry.allow.to_json() if entry.allow else {},
    }
    return dict(_flat(value, ""))


def _flat(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _flat(item, f"{path}.{name}" if path else name)
    else:
        yield path, value


def _gpu(gpu: GpuPlan) -> dict[str, Any]:
    return {
        "uuid": gpu.uuid,
        "slot": gpu.slot,
        "from": _entry(gpu.before),
        "to": _entry(gpu.after),
        "effect": gpu.effect.value,
        "claims": list(gpu.claims),
        "refused": [one.to_json() for one in gpu.refused],
    }


def _entry(entry: GpuSharing | None) -> dict[str, Any] | None:
    if entry is None:
        return None
    return {
        "policy": entry.policy.name if entry.policy else None,
        "offers": entry.offers.to_json() if entry.offers else None,
        "restricted": entry.restricted,
        "allow": entry.allow.to_json() if entry.allow else None,
    }


def _object(change: ObjectChange) -> dict[str, Any]:
    reference = {name: value for name, value in change.object._asdict().items() if value}
    return {"object": reference, "verb": change.verb, "details": list(change.details)}


def _workload(one: Any) -> dict[str, Any]:
    return {"namespace": one.namespace, "name": one.name, "count": one.count, "asksFor": one.asks_for}
