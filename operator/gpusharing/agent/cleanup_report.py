"""How far the clean-up of a node is, in its NodeSharing: while it waits, no agent reports there."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Final

from gpusharing.agent.health.conditions import READY, CleanupReason, condition
from gpusharing.kube import credentials
from gpusharing.kube.clock import now
from gpusharing.kube.kinds import NODE_SHARINGS
from gpusharing.kube.transport import Api, ApiError, UnreachableError, open_session

# Seconds. Pods that end wait meanwhile for nothing.
_WITHIN: Final = 5.0


class CleanupReport:
    def __init__(self, api: Api, node: str) -> None:
        self._api = api
        self._node = node
        self._reported: tuple[CleanupReason, str, frozenset[str]] | None = None

    async def write(self, reason: CleanupReason, message: str, *, claims: Collection[str]) -> str:
        """`claims`: the uids of those that are still prepared. Returns why it cannot be written: the clean-up goes on
        all the same, since the agent's rights may be gone already."""
        wanted = reason, message, frozenset(claims)
        if wanted == self._reported:
            return ""
        try:
            async with asyncio.timeout(_WITHIN):
                await self._write(reason, message, claims)
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                return f"the NodeSharing is not up to date: {error}"
        except (UnreachableError, OSError) as error:
            return f"the NodeSharing is not up to date: {error or type(error).__name__}"
        self._reported = wanted
        return ""

    async def _write(self, reason: CleanupReason, message: str, claims: Collection[str]) -> None:
        status = (await self._api.get(NODE_SHARINGS, self._node)).status
        ready = condition(READY, reason=reason, message=message, before=status.conditions, now=now())
        conditions = (ready, *(one for one in status.conditions if one.type != READY))
        prepared = tuple(claim for claim in status.claims if claim.uid in claims)
        changed = status.model_copy(update={"conditions": conditions, "claims": prepared})
        if changed != status:
            patch = {"status": changed.to_json()}
            await self._api.merge_patch(NODE_SHARINGS, self._node, patch, subresource="status")


@asynccontextmanager
async def reporting(kubeconfig: Path | None, node: str | None) -> AsyncIterator[CleanupReport | None]:
    """None where nobody has said which node this is."""
    if node is None:
        yield None
        return
    credential = credentials.load(kubeconfig)
    async with open_session(credential, connections=1) as session:
        yield CleanupReport(Api(session, credential.server, user_agent="gpusharing-agent-cleanup"), node)
