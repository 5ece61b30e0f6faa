"""Prepared claims that neither the API nor the kubelet knows any more are given back.

The kubelet gives back what it knows. It forgets claims when its own state is lost, and agents can be away for longer
than it tries. What is certain: after a reboot no container of a claim of before runs; in the same boot none starts once
the claim's CDI spec is gone, and none runs that has none of the claim's mounts.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from gpusharing.agent.claims import containers
from gpusharing.agent.claims.files import ClaimFiles
from gpusharing.agent.claims.preparing import Preparer
from gpusharing.agent.claims.reading import ClaimReader, ClaimRef
from gpusharing.agent.state.models import PreparedClaim
from gpusharing.agent.state.records import Records
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.kube.clock import seconds_since_boot
from gpusharing.kube.transport import ApiError, UnreachableError

log = structlog.get_logger(__name__)

_EVERY: Final = 60.0
# So many claims are read at a time.
_AT_ONCE: Final = 8
# Longer than the kubelet takes to give back what it knows, and than a container that fails waits to be started again.
_UNUSED_FOR: Final = 900.0


class ForgottenClaims:
    def __init__(
        self,
        *,
        records: Records,
        reader: ClaimReader,
        files: ClaimFiles,
        preparer: Preparer,
        clock: Callable[[], float] = seconds_since_boot,
    ) -> None:
        self._records = records
        self._reader = reader
        self._files = files
        self._preparer = preparer
        self._clock = clock
        self._looked_at = -_EVERY
        self._unused_since: dict[str, float] = {}
        """By uid: since when neither the API knew the claim nor a container used it, at each look."""
        self._asked: dict[str, float] = {}

    async def give_back(self, sharing: NodeSharing) -> None:
        """Asks only for claims that the operator, who sees all of this node, does not name."""
        now = self._clock()
        if now < self._looked_at + _EVERY or not sharing.spec.gpus:
            return
        self._looked_at = now
        named = {claim.uid for claim in sharing.spec.claims}
        suspects = {uid: claim for uid, claim in self._records.all_claims.items() if uid not in named}
        self._unused_since = {uid: since for uid, since in self._unused_since.items() if uid in suspects}
        self._asked = {uid: moment for uid, moment in self._asked.items() if uid in suspects}
        for uid in sorted(suspects, key=lambda uid: (self._asked.get(uid, 0), uid))[:_AT_ONCE]:
            self._asked[uid] = now
            try:
                await self._look_at(suspects[uid], now)
            except (ApiError, UnreachableError, OSError) as error:
                log.warning("claim not looked at", claim=suspects[uid].display_name, error=str(error))
                return

    async def _look_at(self, claim: PreparedClaim, now: float) -> None:
        known = await self._reader.find(ClaimRef(claim.uid, claim.namespace, claim.name))
        is_earlier = claim.uid in self._records.earlier_claims
        if known or (not is_earlier and await asyncio.to_thread(containers.run_with, claim.uid)):
            self._unused_since.pop(claim.uid, None)
        elif is_earlier or now >= self._unused_since.setdefault(claim.uid, now) + _UNUSED_FOR:
            await self._give_back(claim)

    async def _give_back(self, claim: PreparedClaim) -> None:
        # None starts from here on; one may have, a moment ago.
        async with self._files.turn(claim.uid):
            await self._files.delete_spec(claim.uid)
            if claim.uid in self._records.claims and await asyncio.to_thread(containers.run_with, claim.uid):
                await self._files.renew(claim)
                self._unused_since.pop(claim.uid, None)
                return
        await self._preparer.take_back(claim.uid)
        self._unused_since.pop(claim.uid, None)
        log.warning("forgotten claim unprepared", claim=claim.display_name, claim_uid=claim.uid)
