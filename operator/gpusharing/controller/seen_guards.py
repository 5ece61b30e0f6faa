"""Sees that the closing guard holds on all API servers, and then reads which claims are allocated.

API servers take over a changed guard some time after the write, each at another moment. Each is asked by a dry run that
the guard has to refuse, at the address that the Service `kubernetes` has for it. A single address may be that of a load
balancer, unless there is a single API server: each keeps a Lease, named after its host. One that cannot be reached may
be that of a server which others reach. Then what is seen on one counts for all of them after `TAKEN_OVER_WITHIN`. That
is assumed, not seen.
"""

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from gpusharing.api.core import ValidatingAdmissionPolicy
from gpusharing.api.meta import Identity
from gpusharing.controller.watching.listing import read_again
from gpusharing.controller.watching.store import Store
from gpusharing.core.cluster.guards import closing_upkeep
from gpusharing.core.cluster.guards.closing import CLOSING
from gpusharing.core.cluster.guards.form import probe, seen_revision
from gpusharing.core.memo import Memo
from gpusharing.core.state.fence import Closed, Fence
from gpusharing.core.timestamps import seconds
from gpusharing.kube.kinds import ADMISSION_BINDINGS, ADMISSION_POLICIES, ENDPOINT_SLICES, LEASES, RESOURCE_CLAIMS
from gpusharing.kube.retry import patiently
from gpusharing.kube.transport import Api, ApiError, UnreachableError

log = structlog.get_logger(__name__)

TAKEN_OVER_WITHIN: Final = 5.0
"""Seconds. Measured on one API server: 0.1 to 0.7."""

_IDENTITIES: Final = (
    f"{LEASES.path(namespace='kube-system')}?labelSelector=apiserver.kubernetes.io%2Fidentity%3Dkube-apiserver"
)
_ASK_EVERY: Final = 0.1
_SLOWEST: Final = 5.0
_BETWEEN: Final = 1.0
# A watch that works tells within a second.
_TOLD_WITHIN: Final = 2.0
_LOOK_EVERY: Final = 0.05


class SeenGuards:
    def __init__(self, api: Api, store: Store, *, namespace: str, on_seen: Callable[[Fence], None]) -> None:
        """`namespace`: where the operator may create Leases."""
        self._api = api
        self._store = store
        self._namespace = namespace
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
            if written.revision and await self._holds_everywhere(CLOSING, written.revision):
                await patiently(self._know_claims)
                log.info("closing guard in force", revision=written.revision, pools=len(written.fence))
                self._on_seen(written.fence)
                seen = versions

    async def _holds_everywhere(self, guard: str, revision: int) -> bool:
        """False: the guard was changed before it was seen."""
        deadline = time.monotonic() + TAKEN_OVER_WITHIN
        servers = await self._servers()
        asking = [self._holds(server, guard, revision, deadline) for server in (self._api, *servers)]
        if not all(await asyncio.gather(*asking)):
            return False
        if len(servers) < 2 and not await self._is_only_server():
            await asyncio.sleep(deadline - time.monotonic())
        return True

    async def _holds(self, server: Api, guard: str, revision: int, deadline: float) -> bool:
        """Later revisions are as good: what is in force is looked at again when the guard changes."""
        delay = _ASK_EVERY
        body = {"metadata": {"name": probe(guard), "namespace": self._namespace}}
        while True:
            try:
                await server.try_create(LEASES, body, self._namespace)
            except ApiError as error:
                seen = seen_revision(error.message)
                if seen is not None and seen.isdecimal() and int(seen) >= revision:
                    return True
            except UnreachableError:
                if server is not self._api and time.monotonic() > deadline:
                    return True
            if time.monotonic() > deadline:
                if self._changed.is_set():
                    return False
                delay = min(2 * delay, _SLOWEST)
            await asyncio.sleep(delay)

    async def _servers(self) -> Sequence[Api]:
        """By their addresses; none where these are not known."""
        try:
            slice_ = await self._api.get(ENDPOINT_SLICES, "kubernetes", "default")
        except (ApiError, UnreachableError) as error:
            log.info("addresses of API servers not known", error=str(error))
            return ()
        ports = [port.get("port") for port in slice_.ports if port.get("name") == "https"]
        found: list[Api] = []
        for endpoint in slice_.endpoints:
            for address in endpoint.get("addresses", ()):
                host = f"[{address}]" if ":" in address else address
                found += [self._api.at(f"https://{host}:{port}") for port in ports]
        return found

    async def _is_only_server(self) -> bool:
        """The Lease of one that has ended stays for an hour: too many may be found, but not too few."""
        try:
            found = await self._api.get_json(_IDENTITIES)
        except (ApiError, UnreachableError) as error:
            log.info("number of API servers not known", error=str(error))
            return False
        return len(found["items"]) == 1

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
