"""Sees that the closing guard holds on all API servers, and then reads which claims are allocated."""

import asyncio
import math
import time
from collections.abc import Callable
from typing import Final

import structlog

from gpusharing.api.core import ValidatingAdmissionPolicy
from gpusharing.api.meta import Identity
from gpusharing.controller.dry_runs import DryRuns
from gpusharing.controller.watching.listing import read_again
from gpusharing.controller.watching.store import Store
from gpusharing.core.cluster.guards import closing_upkeep
from gpusharing.core.cluster.guards.closing import CLOSING
from gpusharing.core.memo import Memo
from gpusharing.core.state.fence import Closed, Fence
from gpusharing.core.timestamps import seconds
from gpusharing.kube.kinds import ADMISSION_BINDINGS, ADMISSION_POLICIES, RESOURCE_CLAIMS
from gpusharing.kube.retry import patiently
from gpusharing.kube.transport import Api

log = structlog.get_logger(__name__)

_BETWEEN: Final = 1.0
# A watch that works tells within a second.
_TOLD_WITHIN: Final = 2.0
_LOOK_EVERY: Final = 0.05


class SeenGuards:
    def __init__(self, api: Api, store: Store, dry_runs: DryRuns, *, on_seen: Callable[[Fence], None]) -> None:
        self._api = api
        self._store = store
        self._dry_runs = dry_runs
        self._on_seen = on_seen
        self._changed = asyncio.Event()
        self._written: Memo[tuple[ValidatingAdmissionPolicy], closing_upkeep.Written] = Memo()

    def look(self) -> None:
        """A guard or its binding has changed."""
        self._changed.set()

    def entries(self, *, closing: bool) -> int:
        """How many the guard has, of what is being withdrawn or was."""
        return sum((one.over_since is None) == closing for one in self._records)

    @property
    def age(self) -> float:
        """Of the oldest entry of what is being withdrawn, in seconds."""
        moments = [seconds(one.since) for one in self._records if one.over_since is None]
        return max(0.0, time.time() - min(moments)) if moments else 0.0

    @property
    def _records(self) -> list[Closed]:
        guard = self._store.get(ADMISSION_POLICIES, CLOSING)
        return [one for records in self._read(guard).fence.values() for one in records] if guard else []

    def _read(self, guard: ValidatingAdmissionPolicy) -> closing_upkeep.Written:
        return self._written.one(lambda things: closing_upkeep.read(*things), (guard,))

    async def run(self) -> None:
        """Without end."""
        seen: tuple[object, ...] | None = None
        last = -math.inf
        while True:
            await self._changed.wait()
            # While many nodes change, so does the guard, again and again; and each time all claims are listed.
            await asyncio.sleep(last + _BETWEEN - time.monotonic())
            last = time.monotonic()
            self._changed.clear()
            guard = self._store.get(ADMISSION_POLICIES, CLOSING)
            binding = self._store.get(ADMISSION_BINDINGS, CLOSING)
            versions = tuple(one and one.metadata for one in (guard, binding))
            if guard is None or binding is None or versions == seen:
                continue
            written = self._read(guard)
            if written.revision and await self._dry_runs.all_refuse(
                CLOSING, written.revision, has_changed=self._changed.is_set
            ):
                await patiently(self._know_claims)
                log.info("closing guard in force", revision=written.revision, pools=len(written.fence))
                self._on_seen(written.fence)
                seen = versions

    async def _know_claims(self) -> None:
        """Returns when the store is not older than this moment, as far as claims are there."""
        kind = RESOURCE_CLAIMS
        before = self._store.known(kind)
        listed, _ = await self._api.identities(kind)

        def has_gone(identity: Identity) -> bool:
            return (identity.namespace, identity.name) in before and not self._store.get(
                kind, identity.name, identity.namespace
            )

        deadline = time.monotonic() + _TOLD_WITHIN
        while listed := [one for one in self._store.find_outdated(kind, listed, before=before) if not has_gone(one)]:
            if time.monotonic() > deadline:
                for identity in listed:
                    await read_again(self._api, self._store, kind, identity.name, identity.namespace)
                return
            await asyncio.sleep(_LOOK_EVERY)
