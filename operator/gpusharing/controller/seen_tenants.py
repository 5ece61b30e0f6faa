"""Sees what the guards of tenants know on all API servers: before that, no policy is ready that needs them.

A guard is asked after each change, and again when an API server was away, and every minute: what holds may cease to.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import structlog

from gpusharing.controller.dry_runs import TAKEN_OVER_WITHIN, DryRuns
from gpusharing.controller.watching.store import Store
from gpusharing.core.cluster.guards.form import GENERATED, revision_of
from gpusharing.core.cluster.guards.installation import binds, is_as_installed
from gpusharing.core.cluster.guards.upkeep import REQUIRED, entries_of, texts
from gpusharing.core.state.seen_entries import SeenEntries, Standing, in_force, standing
from gpusharing.kube.kinds import ADMISSION_BINDINGS, ADMISSION_POLICIES

log = structlog.get_logger(__name__)

_AGAIN: Final = 60.0
# While many policies change, so do the guards, again and again.
_BETWEEN: Final = 0.5
# At the start, nobody waits longer than for a guard that is in force.
_AT_FIRST: Final = TAKEN_OVER_WITHIN + 1.0

_OF_TENANTS: Final = {GENERATED.tenants, GENERATED.limits}


@dataclass(slots=True, eq=False)
class _Guard:
    name: str
    versions: tuple[str | None, str | None] = (None, None)
    """Of the guard and its binding, as they were known last."""
    revision: int = 0
    """By which it is seen; 0: it is missing, or was changed, or nobody has written it yet."""
    entries: Standing = field(default_factory=dict)
    seen: int = 0
    """The highest revision by which all API servers were seen to go; 0: none."""
    turned: asyncio.Event = field(default_factory=asyncio.Event)


class SeenTenants:
    def __init__(self, store: Store, dry_runs: DryRuns, *, on_seen: Callable[[SeenEntries], None]) -> None:
        self._store = store
        self._dry_runs = dry_runs
        self._on_seen = on_seen
        self._guards: Final = [_Guard(name) for name in REQUIRED]
        self._told: SeenEntries = dict.fromkeys(REQUIRED, frozenset())

    def look(self) -> None:
        """A guard or its binding has changed."""
        was_needed = self._is_needed
        for guard in self._guards:
            self._take_in(guard)
        if self._is_needed and not was_needed:
            self.ask_again()
        self._tell()

    def ask_again(self) -> None:
        """An API server may not hold to them any more."""
        for guard in self._guards:
            guard.turned.set()

    async def run(self) -> None:
        """Without end."""
        await asyncio.gather(*map(self._follow, self._guards))

    async def look_at_first(self) -> None:
        """Before the first decision: otherwise each policy would cease to be ready at each start of the operator."""
        try:
            async with asyncio.timeout(_AT_FIRST):
                await asyncio.gather(*map(self._ask, self._guards))
        except TimeoutError:
            self.ask_again()

    @property
    def _is_needed(self) -> bool:
        """Whether any policy has tenants or limits."""
        return any(entry.variable in _OF_TENANTS for guard in self._guards for entry in guard.entries)

    def _take_in(self, guard: _Guard) -> None:
        policy = self._store.get(ADMISSION_POLICIES, guard.name)
        binding = self._store.get(ADMISSION_BINDINGS, guard.name)
        versions = (
            policy.metadata.resource_version if policy else None,
            binding.metadata.resource_version if binding else None,
        )
        if versions == guard.versions:
            return
        before, guard.versions = guard.versions, versions
        guard.turned.set()
        holds = policy is not None and binding is not None and is_as_installed(policy) and binds(binding)
        guard.revision = revision_of(texts(policy)) if policy is not None and holds else 0
        found = entries_of(policy) if policy is not None and holds else ()
        guard.entries = standing(guard.entries, found, guard.revision)
        if not holds or before[1] != versions[1]:
            # What was seen before may have been out of force since.
            guard.seen = 0

    async def _follow(self, guard: _Guard) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_AGAIN):
                    await guard.turned.wait()
            began = time.monotonic()
            await self._ask(guard)
            await asyncio.sleep(began + _BETWEEN - time.monotonic())

    async def _ask(self, guard: _Guard) -> None:
        guard.turned.clear()
        revision, binding = guard.revision, guard.versions[1]
        if not revision or not self._is_needed:
            return
        if guard.seen >= revision:
            if not await self._dry_runs.one_admits(guard.name, revision):
                return
            log.warning("guard not in force", guard=guard.name, revision=revision)
            guard.seen = 0
            self._tell()
        if not await self._dry_runs.all_refuse(guard.name, revision, has_changed=guard.turned.is_set):
            return
        if guard.versions[1] == binding and guard.revision:
            log.info("guard in force", guard=guard.name, revision=revision)
            guard.seen = max(guard.seen, revision)
            self._tell()

    def _tell(self) -> None:
        seen = {guard.name: in_force(guard.entries, guard.seen) for guard in self._guards}
        if seen != self._told:
            self._told = seen
            self._on_seen(seen)
