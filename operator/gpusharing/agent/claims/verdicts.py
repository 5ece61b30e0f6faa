"""The operator's word on claims for restricted GPUs: without it nothing of them is prepared."""

import asyncio
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from gpusharing.api.dra import ResourceClaim
from gpusharing.api.sharing.node_spec import ClaimSharing, Verdict
from gpusharing.core.claims import allocation

# Usually it is there before the kubelet asks. The kubelet asks again later.
_PATIENCE: Final = 5.0


class VerdictError(Exception):
    """The operator says no, or does not say anything."""


class Verdicts:
    def __init__(self, *, node: str, driver: str, patience: float = _PATIENCE) -> None:
        self._node = node
        self._driver = driver
        self._patience = patience
        self._told: Mapping[str, ClaimSharing] = {}
        self._news = asyncio.Event()

    def told(self, claims: Iterable[ClaimSharing]) -> None:
        """All that the operator says of claims now."""
        self._told = {claim.uid: claim for claim in claims}
        self._news.set()

    async def wait(self, claim: ResourceClaim, policies: Collection[str]) -> None:
        """Returns when the claim may have what it was allocated here; at once where that is open to everybody.
        `policies`: for whose tenants alone its GPUs are."""
        if not policies:
            return
        try:
            async with asyncio.timeout(self._patience):
                entry = await self._entry(claim)
        except TimeoutError:
            raise VerdictError(
                f"its GPU is for tenants of policy {', '.join(sorted(policies))} only, and the operator has not said "
                f"within {self._patience:g} s that this claim may have it: see spec.claims of NodeSharing "
                f"{self._node}, and whether the operator runs"
            ) from None
        if entry.verdict is not Verdict.ALLOWED:
            raise VerdictError(f"denied by the operator: {entry.reason}")

    async def _entry(self, claim: ResourceClaim) -> ClaimSharing:
        digest = allocation.digest(claim, self._driver)
        while True:
            entry = self._told.get(claim.metadata.uid)
            # One that speaks of another allocation is void.
            if entry is not None and entry.allocation_hash == digest:
                return entry
            self._news.clear()
            await self._news.wait()
