"""Reserved devices that a namespace has beyond its quota.

Kubernetes counts claims when they are created, so those of before the quota are let in: of before the policy, or of the
time in which somebody deletes it and makes it again. Here counts what is allocated.
"""

from collections.abc import Mapping
from typing import Final

from gpusharing.api.dra import ResourceClaim
from gpusharing.api.meta import Key
from gpusharing.api.names import Sharing
from gpusharing.api.sharing.modes import FIELDS, for_mode
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.api.sharing.node_spec import Verdict
from gpusharing.api.sharing.tenants import Quota
from gpusharing.core.claims.allocation import nodes_of
from gpusharing.core.state.accounts import Account, Accounts, devices

Excess = Mapping[str, str]
"""By the uids of claims that may not have their devices: why not."""

NO_EXCESS: Final[Excess] = {}


class Counting:
    """One look at what was allocated and allowed."""

    def __init__(self, accounts: Accounts, sharings: Mapping[Key, NodeSharing], driver: str) -> None:
        self._accounts = accounts
        self._sharings = sharings
        self._driver = driver

    def excess(self, account: Account, quota: Quota | None) -> Excess:
        """The youngest of those that were not allowed before are too many."""
        limits = {sharing: for_mode(quota, sharing) for sharing in Sharing} if quota else {}
        found: dict[str, str] = {}
        for sharing, limit in limits.items():
            if limit is not None and self._accounts.total(account, sharing) > limit:
                found |= dict.fromkeys(self._beyond(limit, account, sharing), _why(account, sharing, limit))
        return found

    def _beyond(self, limit: int, account: Account, sharing: Sharing) -> list[str]:
        beyond: list[str] = []
        total = 0
        for claim in self._in_order(account):
            count = devices(claim, self._driver)[account, sharing]
            if count and total + count > limit:
                beyond.append(claim.metadata.uid)
            else:
                total += count
        return beyond

    def _in_order(self, account: Account) -> list[ResourceClaim]:
        claims = self._accounts.claims(account)
        nodes = {node for claim in claims for node in nodes_of(claim, self._driver)}
        allowed = {uid for node in nodes if (known := self._sharings.get(("", node))) for uid in _allowed(known)}

        def order(claim: ResourceClaim) -> tuple[bool, str, str]:
            metadata = claim.metadata
            return metadata.uid not in allowed, metadata.creation_timestamp, metadata.uid

        return sorted(claims, key=order)


def _allowed(sharing: NodeSharing) -> set[str]:
    """Claims that keep what they have."""
    written = {entry.uid for entry in sharing.spec.claims if entry.verdict is Verdict.ALLOWED}
    return written | {claim.uid for claim in sharing.status.claims}


def _why(account: Account, sharing: Sharing, limit: int) -> str:
    return (
        f"SharingPolicy {account.policy}: spec.tenants.quota.{FIELDS[sharing]} permits namespace {account.namespace} "
        f"{limit}, and older claims have them"
    )
