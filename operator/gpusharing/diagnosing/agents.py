"""Do the agents run, are they and their GPUs well, and are the slices there?"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from gpusharing.api import names
from gpusharing.core.text import counted, listed
from gpusharing.diagnosing.check import Check, Section, nodes, not_checked, of_cluster
from gpusharing.diagnosing.facts import ClusterFacts, InstallationFacts
from gpusharing.diagnosing.nodes import is_ours
from gpusharing.findings import installations
from gpusharing.findings.finding import Finding
from gpusharing.snapshots.world import Json

_OF_AGENT: Final = ("Ready", "StateTrusted")
"""Conditions of a NodeSharing."""
_OF_GPUS: Final = frozenset({"GpuUnhealthy", "SettingNotApplied"})
"""Reasons that the GPUs of the node say themselves, and more exactly."""
_LONGEST: Final = 300


def check_agents(facts: ClusterFacts, installed: InstallationFacts) -> Iterator[Check]:
    if installed.daemon_sets.unread:
        yield not_checked(Section.AGENTS, "daemonset", "DaemonSet of the agents", installed.daemon_sets.unread)
    else:
        yield _daemon_set(installed)
    if installed.node_sharings.unread:
        yield not_checked(Section.AGENTS, "reports", "What agents report", installed.node_sharings.unread)
        return
    unwell = _unwell(installed.node_sharings.objects)
    yield _reports(installed, unwell)
    yield _gpus(installed)
    if facts.slices.unread:
        yield not_checked(Section.AGENTS, "slices", "ResourceSlices of the nodes", facts.slices.unread)
    else:
        yield _slices(facts, installed, {node for those in unwell.values() for node in those})


def _daemon_set(installed: InstallationFacts) -> Check:
    name = "daemonset"
    if not installed.daemon_sets.objects:
        missing = f"DaemonSet of the agents in namespace {installed.namespace}"
        return Check(Section.AGENTS, name, "", [of_cluster(installations.NOT_INSTALLED, missing=missing)])
    # One for each kind of nodes is possible.
    statuses = [one.get("status") or {} for one in installed.daemon_sets.objects]
    wanted = sum(one.get("desiredNumberScheduled", 0) for one in statuses)
    ready = sum(one.get("numberReady", 0) for one in statuses)
    found: list[Finding] = []
    for one, status in zip(installed.daemon_sets.objects, statuses, strict=True):
        if not status.get("desiredNumberScheduled"):
            values = {"name": one["metadata"]["name"], "why": _selected_by(one)}
            found.append(of_cluster(installations.NO_AGENTS, **values))
    found += [
        of_cluster(installations.AGENTS_AWAY, nodes=nodes(those), why=why, namespace=installed.namespace)
        for why, those in sorted(_away(installed.agents.objects).items())
    ]
    if ready < wanted and not found:
        some = f"{wanted - ready} of {counted(wanted, 'node')}"
        values = {"nodes": some, "why": installed.agents.unread or "their pods are not there yet"}
        found.append(of_cluster(installations.AGENTS_AWAY, namespace=installed.namespace, **values))
    return Check(Section.AGENTS, name, f"Agents are ready on {ready} of {counted(wanted, 'node')}.", found)


def _selected_by(daemon_set: Json) -> str:
    spec = daemon_set["spec"]["template"]["spec"]
    selector: Mapping[str, str] = spec.get("nodeSelector") or {}
    labels = [f"{key}={value}" for key, value in sorted(selector.items())]
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    keys = [
        one["key"] for term in affinity.get("nodeSelectorTerms") or () for one in term.get("matchExpressions") or ()
    ]
    wanted = [*labels, *keys]
    return f"none has label {' or '.join(wanted[:4])}" if wanted else "no node has room for them"


def _away(pods: Sequence[Json]) -> Mapping[str, list[str]]:
    """Nodes by what is wrong with the pod of their agent."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for pod in pods:
        if problem := _problem(pod):
            found[problem].append(_node(pod))
    return found


def _node(pod: Json) -> str:
    """Also of one that is not bound yet: pods of a DaemonSet name their node."""
    if name := pod["spec"].get("nodeName"):
        return str(name)
    affinity = ((pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    fields = [one for term in affinity.get("nodeSelectorTerms") or () for one in term.get("matchFields") or ()]
    return str(fields[0]["values"][0]) if fields else pod["metadata"]["name"]


def _problem(pod: Json) -> str:
    """Empty: it is ready."""
    status: Mapping[str, Any] = pod.get("status") or {}
    conditions = {one["type"]: one for one in status.get("conditions") or ()}
    if conditions.get("Ready", {}).get("status") == "True":
        return ""
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        waiting = (container.get("state") or {}).get("waiting")
        if waiting and waiting.get("reason") != "PodInitializing":
            return f"{container.get('name')}: {_short(waiting.get('reason', ''), waiting.get('message', ''))}"
    scheduled = conditions.get("PodScheduled", {})
    if scheduled.get("status") == "False":
        return _short("its pod is not scheduled", scheduled.get("message", ""))
    return f"the pod is {status.get('phase', 'Unknown')}, and not ready"


def _short(reason: str, message: str) -> str:
    return f"{reason}{f' ({message})' if message else ''}"[:_LONGEST]


def _unwell(sharings: Sequence[Json]) -> Mapping[tuple[str, str], list[str]]:
    """Nodes by reason and message of a condition that should be True, apart from what their GPUs say."""
    found: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for sharing in sharings:
        for one in (sharing.get("status") or {}).get("conditions") or ():
            is_of_agent = one.get("type") in _OF_AGENT and one.get("reason") not in _OF_GPUS
            if is_of_agent and one.get("status") != "True":
                message = str(one.get("message") or "no message")[:_LONGEST]
                found[str(one.get("reason", "")), message].append(sharing["metadata"]["name"])
    return found


def _reports(installed: InstallationFacts, unwell: Mapping[tuple[str, str], Collection[str]]) -> Check:
    found: list[Finding] = []
    reported = {one["metadata"]["name"] for one in installed.node_sharings.objects if one.get("status")}
    with_agent = {_node(one) for one in installed.agents.objects if not _problem(one)}
    if silent := with_agent - reported:
        found.append(of_cluster(installations.SILENT, nodes=nodes(silent), namespace=installed.namespace))
    by_reason: defaultdict[str, list[tuple[str, Collection[str]]]] = defaultdict(list)
    for (reason, message), those in unwell.items():
        by_reason[reason].append((message, those))
    for reason, cases in sorted(by_reason.items()):
        those = {node for _, some in cases for node in some}
        message = max(cases, key=lambda case: (len(case[1]), case[0]))[0]
        values = {"nodes": nodes(those).capitalize(), "reason": reason, "message": message}
        found.append(of_cluster(installations.AGENTS_UNWELL, **values))
    count = counted(len(reported), "agent")
    return Check(Section.AGENTS, "reports", f"{count} reported, and none has a problem.", found)


def _gpus(installed: InstallationFacts) -> Check:
    by_reason: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    count = 0
    for sharing in installed.node_sharings.objects:
        for gpu in (sharing.get("status") or {}).get("gpus") or ():
            count += 1
            for one in gpu.get("conditions") or ():
                if one.get("type") == "Healthy" and one.get("status") != "True":
                    name = f"{sharing['metadata']['name']}/gpu-{gpu.get('slot')}"
                    by_reason[str(one.get("reason", ""))].append((name, str(one.get("message", ""))[:_LONGEST]))
    found = [
        of_cluster(
            installations.GPUS_UNWELL,
            gpus=listed(sorted(name for name, _ in cases)),
            reason=reason,
            message=min(cases)[1] or "no message",
        )
        for reason, cases in sorted(by_reason.items())
    ]
    return Check(Section.AGENTS, "gpus", f"{counted(count, 'GPU')} {'is' if count == 1 else 'are'} healthy.", found)


def _slices(facts: ClusterFacts, installed: InstallationFacts, unwell: Collection[str]) -> Check:
    ours = [one for one in facts.slices.objects if one["spec"].get("driver") == names.DRIVER and is_ours(one)]
    publishing = {one["spec"].get("nodeName") for one in ours}
    with_gpus = {
        one["metadata"]["name"]
        for one in installed.node_sharings.objects
        if any(gpu.get("published") for gpu in (one.get("status") or {}).get("gpus") or ())
    }
    found: list[Finding] = []
    if without := with_gpus - publishing - set(unwell):
        values = {"nodes": nodes(without), "first": min(without)}
        found.append(of_cluster(installations.NOTHING_PUBLISHED, **values))
    if pools := sorted(_incomplete(ours)):
        found.append(of_cluster(installations.SLICES_INCOMPLETE, pools=listed([f"pool {pool}" for pool in pools])))
    return Check(Section.AGENTS, "slices", f"{counted(len(publishing), 'node')} published all ResourceSlices.", found)


def _incomplete(slices: Sequence[Json]) -> Iterator[str]:
    pools: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for one in slices:
        pool = one["spec"]["pool"]
        pools[pool["name"]].append(pool)
    for name, found in pools.items():
        newest = max(pool["generation"] for pool in found)
        current = [pool for pool in found if pool["generation"] == newest]
        if len(current) != current[0]["resourceSliceCount"]:
            yield name
