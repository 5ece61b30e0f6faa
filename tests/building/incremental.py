"""A decider that learns of each change of a world, as the operator's does."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from building.from_nothing import World
from gpusharing.api.meta import key_of
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.core.decision.incremental import Decider
from gpusharing.core.intents import Intent, RecordEvent
from gpusharing.core.state.cluster_state import ClusterState

_FIELDS: tuple[Callable[[World], Mapping[Any, Any]], ...] = (
    lambda of: of.policies,
    lambda of: of.nodes,
    lambda of: of.node_sharings,
    lambda of: of.claims,
    lambda of: of.namespaces,
    lambda of: of.classes,
    lambda of: of.guards,
    lambda of: of.bindings,
    lambda of: of.quotas,
    lambda of: of.templates,
    lambda of: of.taint_rules or {},
)


class Incremental:
    def __init__(self, at: World) -> None:
        self.decider = Decider(at.setup)
        self.world = World(driver=at.driver, minor=at.minor, policies={}, nodes={}, node_sharings={}, claims={})
        self.become(at)

    def become(self, at: World) -> None:
        for field in _FIELDS:
            before, after = field(self.world), field(at)
            for name in before.keys() - after.keys():
                remove(self.decider.state, before[name])
            for name, item in after.items():
                if before.get(name) is not item:
                    put(self.decider.state, item)
        if at.seen_fence is not self.world.seen_fence:
            self.decider.state.see_fence(at.seen_fence)
        if at.seen_entries != self.decider.state.seen_entries:
            self.decider.state.see_entries(at.seen_entries)
        self.world = at

    def decide(self, *, now: str) -> list[Intent]:
        return decide(self.decider, now=now)


def decide(decider: Decider, *, now: str) -> list[Intent]:
    """All that is pending after a round."""
    for _ in decider.steps(now=now):
        pass
    fold(decider, now=now)
    return decider.pending


def fold(decider: Decider, *, now: str) -> None:
    for _ in decider.fold_statuses(now=now):
        pass


def by_object(events: Iterable[RecordEvent]) -> list[tuple[str, str, str]]:
    """In an order that does not hang on how they were found."""
    return sorted((event.about.uid, event.reason, event.occurrence) for event in events)


def put(state: ClusterState, item: Any) -> None:
    state.put(_kind_of(item), item)


def remove(state: ClusterState, item: Any) -> None:
    state.remove(_kind_of(item), key_of(item))


def _kind_of(item: Any) -> type[Any]:
    return SharingPolicy if isinstance(item, SharingPolicy) else type(item)
