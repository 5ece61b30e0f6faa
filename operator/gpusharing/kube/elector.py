"""Takes a Lease, keeps it, and gives it back: one of several equal programs leads.

The leader trusts its lease for two thirds of what it promised, from the moment at which it asked for it. A third is
left for clocks that run differently, and for what was under way. After that it writes nothing any more (`fence`). If
then the lease is still its own, nobody else has led and it goes on; otherwise it ends: what it knows may be old.
"""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import aiohttp
import structlog

from gpusharing.kube.clock import now_precisely, seconds_since_boot
from gpusharing.kube.kinds import LEASES
from gpusharing.kube.lease import ObservedLease, Step, claimed, next_step, observe, released
from gpusharing.kube.transport import Api, ApiError, UnreachableError

log = structlog.get_logger(__name__)

_TRUSTED: Final = 2 / 3
_RETRY: Final = 2 / 15
"""Parts of the duration. A request may take as long as the trust: a slow API server answers no sooner to the next."""

_READING: Final = frozenset({"GET", "HEAD"})


class LeaseLostError(Exception):
    """Another program may lead now, so this one must end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseName:
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Elector:
    """`api` has a session of its own: a renewal waits for no other request."""

    def __init__(self, api: Api, lease: LeaseName, *, me: str, duration: int) -> None:
        self._api = api
        self._lease = lease
        self._me = me
        self._duration = duration
        self._observed = ObservedLease(lease=None, since=seconds_since_boot())
        self._looked_at = float("-inf")
        self._asked_at = float("-inf")
        self._trusted_until = float("-inf")

    @property
    def leads(self) -> bool:
        return seconds_since_boot() < self._trusted_until

    @property
    def stands_by(self) -> bool:
        """Whether another one leads, as far as was seen lately enough to come after it in time."""
        recent = seconds_since_boot() - self._looked_at < self._duration
        return recent and self._next_step() is Step.WAIT

    @asynccontextmanager
    async def leading(self) -> AsyncIterator[None]:
        """Begins when it leads; LeaseLostError ends what is done meanwhile, when it does not any more."""
        await self._take()
        log.info("leading", lease=str(self._lease), holder=self._me)
        try:
            async with asyncio.TaskGroup() as tasks:
                keeping = tasks.create_task(self._keep())
                yield
                keeping.cancel()
        except ExceptionGroup as errors:
            if len(errors.exceptions) == 1:
                raise errors.exceptions[0] from None
            raise
        finally:
            await self._release()

    async def fence(self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        """A middleware for the sessions of whoever leads: a process may be stopped for long, and not know it."""
        if request.method not in _READING and not self.leads:
            refusal = f"this replica does not have lease {self._lease}: writes are not allowed"
            raise aiohttp.ClientConnectionError(refusal)
        return await handler(request)

    async def _take(self) -> None:
        problem = ""
        while True:
            try:
                await self._look()
                if self._next_step() is not Step.WAIT:
                    await self._claim()
                    return
                problem = ""
            except (ApiError, UnreachableError, TimeoutError) as error:
                if problem != (problem := _told(error)):
                    log.warning("lease not acquired", lease=str(self._lease), error=problem)
            await self._pause()

    async def _keep(self) -> None:
        while True:
            problem = await self._renew_while_trusted()
            try:
                async with self._in_time():
                    await self._look_whether_kept()
                    await self._claim()
            except (ApiError, UnreachableError, TimeoutError):
                raise LeaseLostError(f"lease {self._lease} could not be renewed in time: {problem}") from None
            log.info("lease still ours", lease=str(self._lease))

    async def _renew_while_trusted(self) -> str:
        """What kept it from being renewed in the end."""
        problem = "no time left for a request"
        while (left := self._trusted_until - seconds_since_boot()) > 0:
            try:
                async with asyncio.timeout(left):
                    # From one question to the next, not from the last answer, which may have been a while.
                    await self._pause(since=self._asked_at)
                    await self._renew()
            except (ApiError, UnreachableError, TimeoutError) as error:
                problem = _told(error)
                log.warning("lease not renewed", lease=str(self._lease), error=problem)
        return problem

    async def _renew(self) -> None:
        try:
            await self._claim()
        except ApiError as error:
            if error.status not in {404, 409}:
                raise
            await self._look_whether_kept()

    async def _look_whether_kept(self) -> None:
        await self._look()
        if self._next_step() is not Step.KEEP:
            self._trusted_until = float("-inf")
            raise LeaseLostError(f"lease {self._lease} belongs to {self._observed.holder or 'nobody'} now")

    async def _release(self) -> None:
        if not self.leads:
            return
        self._trusted_until = float("-inf")
        try:
            async with self._in_time():
                # A renewal that was under way may have been stored.
                await self._look()
                if self._next_step() is Step.KEEP:
                    await self._write(released(moment=now_precisely()))
        except (ApiError, UnreachableError, TimeoutError) as error:
            log.warning("lease not released", lease=str(self._lease), error=_told(error))

    async def _look(self) -> None:
        async with self._in_time():
            try:
                lease = await self._api.get(LEASES, self._lease.name, self._lease.namespace)
            except ApiError as error:
                if error.status != 404:
                    raise
                lease = None
        self._looked_at = seconds_since_boot()
        self._observed = observe(self._observed, lease, now=self._looked_at)

    async def _claim(self) -> None:
        self._asked_at = seconds_since_boot()
        await self._write(claimed(self._observed, me=self._me, duration=self._duration, moment=now_precisely()))
        self._trusted_until = self._asked_at + self._duration * _TRUSTED

    async def _write(self, record: dict[str, object]) -> None:
        """Nobody else's record is overwritten: the write names the version that was seen."""
        name, before = self._lease.name, self._observed.lease
        metadata = {"resourceVersion": before.metadata.resource_version} if before else {"name": name}
        body = {"metadata": metadata, "spec": record}
        async with self._in_time():
            if before:
                lease = await self._api.merge_patch(LEASES, name, body, namespace=self._lease.namespace)
            else:
                lease = await self._api.create(LEASES, body, self._lease.namespace)
        self._observed = observe(self._observed, lease, now=seconds_since_boot())

    def _next_step(self) -> Step:
        return next_step(self._observed, me=self._me, duration=self._duration, now=seconds_since_boot())

    def _in_time(self) -> asyncio.Timeout:
        return asyncio.timeout(self._duration * _TRUSTED)

    async def _pause(self, since: float | None = None) -> None:
        waited = seconds_since_boot() - since if since is not None else 0
        await asyncio.sleep(self._duration * _RETRY * random.uniform(0.8, 1.2) - waited)  # noqa: S311


def _told(error: Exception) -> str:
    return str(error) or "no answer in time"
