"""Why claims wait, kept up to date: claims are many, and so may groups be."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from gpusharing.api.dra import DeviceClass, Namespace, ResourceClaim
from gpusharing.api.meta import Key
from gpusharing.core.decision.failures import Failures
from gpusharing.core.events.waiting_claims import ClassState, Why, explain, policy_of_class, waiting_events
from gpusharing.core.intents import RecordEvent
from gpusharing.core.state.cluster_state import ClusterState, WaitingGroup

_CLASS: Final = "DeviceClass"
_GROUP: Final = "WaitingClaims"


class _Explained(NamedTuple):
    """Claims that wait, all for the same reason."""

    why: Why | None
    events: dict[Key, Sequence[RecordEvent]]


class WaitingClaims:
    """A claim is looked at when it comes, or when its group waits for another reason."""

    def __init__(self, state: ClusterState, failures: Failures) -> None:
        self._state = state
        self._failures = failures
        self._classes: Mapping[str, ClassState | None] = {}
        """By class, of claims that wait for it."""
        self._groups: dict[WaitingGroup, _Explained] = {}
        self._changed: defaultdict[WaitingGroup, set[Key]] = defaultdict(set)
        self._new: list[RecordEvent] = []

    @property
    def events(self) -> list[RecordEvent]:
        return [event for group in self._groups.values() for events in group.events.values() for event in events]

    @property
    def reasons(self) -> Mapping[WaitingGroup, str]:
        """Of those that wait for a reason that is certain."""
        return {group: explained.why.reason for group, explained in self._groups.items() if explained.why}

    @property
    def policies(self) -> Mapping[str, str]:
        """By class, of those that claims wait for."""
        names = {group.device_class for group in self._state.waiting}
        return {name: policy for name in names if (policy := self._policy_of(name))}

    def take_events(self) -> Sequence[RecordEvent]:
        """Those that came since they were taken last."""
        events, self._new = self._new, []
        return events

    def add_changes(self, changes: Mapping[WaitingGroup, Iterable[Key]]) -> None:
        for group, keys in changes.items():
            self._changed[group].update(keys)

    def forget_classes(self) -> None:
        """What a class or a namespace says may have changed."""
        self._classes = {}

    def explain(self, examine: Callable[[str, str], ClassState | None]) -> Iterator[None]:
        """In steps: claims that come and go between two of them are changes of the next round. `examine`: the state of
        a class, by the names of the class and its policy; None if the policy is unknown."""
        changed, self._changed = self._changed, defaultdict(set)
        before, self._classes = self._classes, self._examine_classes(examine)
        turned = {name for name, state in self._classes.items() if name not in before or before[name] != state}
        for group in changed.keys() | {group for group in self._state.waiting if group.device_class in turned}:
            name = f"{group.namespace}/{group.device_class}"
            try:
                yield from self._explain_group(group, changed.get(group, ()))
            except Exception as error:  # noqa: BLE001 (of whatever kind: it concerns these claims alone)
                self._groups.pop(group, None)
                self._failures.add(_GROUP, name, error)
            else:
                self._failures.remove(_GROUP, name)
            yield

    def _explain_group(self, group: WaitingGroup, changed: Iterable[Key]) -> Iterator[None]:
        claims = self._state.waiting.get(group)
        if claims is None:
            self._groups.pop(group, None)
            return
        why = self._why(group)
        known = self._groups.get(group)
        if known is None or known.why != why:
            known = self._groups[group] = _Explained(why, {})
            changed = list(claims)
        for key in changed if why else ():
            known.events.pop(key, None)
            claim: ResourceClaim | None = claims.get(key)
            if claim is not None and why:
                known.events[key] = waiting_events(claim, why)
                self._new += known.events[key]
            yield

    def _why(self, group: WaitingGroup) -> Why | None:
        state = self._classes.get(group.device_class)
        return explain(group, state, self._state.get(Namespace, ("", group.namespace))) if state else None

    def _examine_classes(self, examine: Callable[[str, str], ClassState | None]) -> Mapping[str, ClassState | None]:
        names = {group.device_class for group in self._state.waiting}
        for gone in {name for kind, name in self._failures.failing if kind == _CLASS} - names:
            self._failures.remove(_CLASS, gone)
        return {name: self._examine_class(name, examine) for name in names}

    def _policy_of(self, name: str) -> str | None:
        device_class = self._state.get(DeviceClass, ("", name))
        return policy_of_class(device_class) if device_class else None

    def _examine_class(self, name: str, examine: Callable[[str, str], ClassState | None]) -> ClassState | None:
        policy = self._policy_of(name)
        try:
            state = examine(name, policy) if policy else None
        except Exception as error:  # noqa: BLE001 (of whatever kind: it concerns claims for this class alone)
            # It is tried again at each fold, and reported once.
            if (_CLASS, name) not in self._failures.failing:
                self._failures.add(_CLASS, name, error)
            return None
        self._failures.remove(_CLASS, name)
        return state
