"""What the page shows, and where it comes from."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.explaining.explanation import Explanation
from gpusharing.occupancy.fleet import Fleet
from gpusharing.planning.changes import Plan
from gpusharing.ui.history import Sample

_NOTHING: Final = Fleet()


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    number: int = 0
    """A later one has a higher number."""
    fleet: Fleet = _NOTHING
    policies: tuple[SharingPolicy, ...] | None = ()
    """By name. None: they may not be read."""
    problem: str = ""
    """Why it may be old."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    at: str
    about: str
    reason: str
    message: str
    is_warning: bool = False
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """About one object."""

    explanation: Explanation
    users: tuple[Explanation, ...] = ()
    """Of a GPU: its claims."""
    events: tuple[Event, ...] = ()
    """The latest first."""
    policy: SharingPolicy | None = None


class SourceError(Exception):
    """Why there is no answer: the API server does not give one."""


class PlanError(SourceError):
    """Why there is no plan, with the place in the text."""


class Source(Protocol):
    """Of the page. Used by several threads."""

    @property
    def samples(self) -> Sequence[Sample]: ...

    def picture(self) -> Picture: ...

    def later(self, number: int, patience: float) -> Picture:
        """As soon as there is one; after `patience` seconds the same."""

    def plan(self, text: bytes) -> Plan:
        """Raises SourceError."""


class Lookup(Protocol):
    """Of details. None: there is no such object, or it may not be read. Raises SourceError."""

    def gpu(self, node: str, name: str) -> Details | None: ...

    def node(self, name: str) -> Details | None: ...

    def pod(self, namespace: str, name: str) -> Details | None: ...

    def policy(self, name: str) -> Details | None: ...
