"""Whose logs and metrics are read: of all operators, of agents that are unwell, and of some others.

A thousand agents have a thousand logs, which say the same where all is well.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from gpusharing.api import names
from gpusharing.snapshots.world import Json

MOST_UNWELL: Final = 20
SOME_OTHERS: Final = 3
_PORT: Final = "http"


class State(IntEnum):
    """The worst first."""

    NOT_READY = 0
    REPORTS_PROBLEM = 1
    """A condition of its NodeSharing."""
    RESTARTED = 2
    WELL = 3


@dataclass(frozen=True, kw_only=True)
class Program:
    """A pod of the operator or an agent."""

    pod: str
    namespace: str
    node: str
    container: str
    port: int
    is_agent: bool
    state: State
    has_previous: bool
    """A container of before, which has a log."""

    @property
    def is_unwell(self) -> bool:
        return self.state is not State.WELL


@dataclass(frozen=True, kw_only=True)
class Choice:
    chosen: Sequence[Program] = ()
    agents: int = 0
    unwell: int = 0
    unknown: Sequence[str] = ()
    """Nodes that were asked for and have no agent."""


def choose(pods: Sequence[Json], node_sharings: Sequence[Json], nodes: Collection[str] = ()) -> Choice:
    """`nodes`: agents of these, and of no others."""
    conditions = {one["metadata"]["name"]: (one.get("status") or {}).get("conditions") or () for one in node_sharings}
    found = sorted(_programs(pods, conditions), key=lambda one: (one.state, one.node, one.namespace, one.pod))
    operators = [one for one in found if not one.is_agent]
    agents = [one for one in found if one.is_agent]
    unwell = [one for one in agents if one.is_unwell]
    if nodes:
        some = [one for one in agents if one.node in nodes]
    else:
        some = [*unwell[:MOST_UNWELL], *_spread([one for one in agents if not one.is_unwell])]
    return Choice(
        chosen=[*operators, *some],
        agents=len(agents),
        unwell=len(unwell),
        unknown=sorted(set(nodes) - {one.node for one in agents}),
    )


def _spread(well: Sequence[Program]) -> Sequence[Program]:
    """Nodes of other pools have other names."""
    step = max(1, len(well) // SOME_OTHERS)
    return well[::step][:SOME_OTHERS]


def _programs(pods: Sequence[Json], conditions: Mapping[str, Sequence[Json]]) -> Iterator[Program]:
    for pod in pods:
        program = names.program_of(pod["metadata"].get("labels") or {})
        spec = pod.get("spec") or {}
        containers = spec.get("containers") or ()
        if program is None or not containers:
            continue
        # What others put beside it comes after it, or has another name.
        container = next((one for one in containers if f"gpusharing-{one['name']}" == program), containers[0])
        ports = [one["containerPort"] for one in container.get("ports") or () if one.get("name") == _PORT]
        statuses = (pod.get("status") or {}).get("containerStatuses") or ()
        status: Json = next((one for one in statuses if one["name"] == container["name"]), {})
        node = spec.get("nodeName") or ""
        yield Program(
            pod=pod["metadata"]["name"],
            namespace=pod["metadata"].get("namespace") or "",
            node=node,
            container=container["name"],
            port=ports[0] if ports else 8080,
            is_agent=program == names.AGENT,
            state=_state(status, conditions.get(node, ()) if program == names.AGENT else ()),
            has_previous=bool((status.get("lastState") or {}).get("terminated")),
        )


def _state(status: Json, conditions: Sequence[Json]) -> State:
    if not status.get("ready"):
        return State.NOT_READY
    if any(one.get("status") != "True" for one in conditions):
        return State.REPORTS_PROBLEM
    return State.RESTARTED if (status.get("lastState") or {}).get("terminated") else State.WELL
