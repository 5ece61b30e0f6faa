"""Asks the API servers, by dry runs that a guard has to refuse, by which revision of the guard they go.

API servers take over a changed guard some time after the write, each at another moment. Each is asked at the address
that the Service `kubernetes` has for it. A single address may be that of a load balancer, unless there is a single API
server: each keeps a Lease, named after its host. One that cannot be reached may be that of a server which others reach.
Then what is seen on one counts for all of them after `TAKEN_OVER_WITHIN`. That is assumed, not seen.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from gpusharing.core.cluster.guards.form import probe, seen_revision
from gpusharing.kube.kinds import ENDPOINT_SLICES, LEASES
from gpusharing.kube.transport import Api, ApiError, UnreachableError

log = structlog.get_logger(__name__)

TAKEN_OVER_WITHIN: Final = 5.0
"""Seconds. Measured on one API server: 0.1 to 0.7."""

_IDENTITIES: Final = (
    f"{LEASES.path(namespace='kube-system')}?labelSelector=apiserver.kubernetes.io%2Fidentity%3Dkube-apiserver"
)
_ASK_EVERY: Final = 0.1
_SLOWEST: Final = 5.0


class DryRuns:
    def __init__(self, api: Api, *, namespace: str) -> None:
        """`namespace`: where the operator may create Leases."""
        self._api = api
        self._namespace = namespace

    async def all_refuse(self, guard: str, revision: int, *, has_changed: Callable[[], bool]) -> bool:
        """Returns when all of them go by this revision or a later one. False: the guard has changed before that."""
        deadline = time.monotonic() + TAKEN_OVER_WITHIN
        servers = await self._servers()
        asking = [self._refuses(server, guard, revision, deadline, has_changed) for server in (self._api, *servers)]
        if not all(await asyncio.gather(*asking)):
            return False
        if len(servers) < 2 and not await self._is_only_server():
            await asyncio.sleep(deadline - time.monotonic())
        return True

    async def one_admits(self, guard: str, revision: int) -> bool:
        """Whether one of them has no such guard, or an older revision. Asks each of them once: of those that do not
        answer, nothing is known."""
        servers = await self._servers()
        asking = (self._revision(server, guard) for server in (self._api, *servers))
        answers = await asyncio.gather(*asking, return_exceptions=True)
        return any(isinstance(seen, int) and seen < revision for seen in answers)

    async def _refuses(
        self, server: Api, guard: str, revision: int, deadline: float, has_changed: Callable[[], bool]
    ) -> bool:
        delay = _ASK_EVERY
        while True:
            try:
                seen = await self._revision(server, guard)
            except UnreachableError:
                if server is not self._api and time.monotonic() > deadline:
                    return True
            else:
                if seen is not None and seen >= revision:
                    return True
            if time.monotonic() > deadline:
                if has_changed():
                    return False
                delay = min(2 * delay, _SLOWEST)
            await asyncio.sleep(delay)

    async def _revision(self, server: Api, guard: str) -> int | None:
        """0: it admits what the guard has to refuse. None: something else refuses that."""
        body = {"metadata": {"name": probe(guard), "namespace": self._namespace}}
        try:
            await server.try_create(LEASES, body, self._namespace)
        except ApiError as error:
            return seen_revision(error.message)
        return 0

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
