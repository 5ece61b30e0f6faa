"""Which reserved devices a namespace has, counted as quotas count them."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from typing import NamedTuple

from gpusharing.api import names
from gpusharing.api.dra import ResourceClaim
from gpusharing.api.meta import Key, key_of
from gpusharing.api.names import Sharing
from gpusharing.core.claims.allocation import results


class Account(NamedTuple):
    """What is counted together: devices that a policy reserves, in one namespace."""

    policy: str
    namespace: str


class Accounts:
    def __init__(self, driver: str) -> None:
        self._driver = driver
        self._claims: defaultdict[Account, dict[Key, ResourceClaim]] = defaultdict(dict)
        self._totals: Counter[tuple[Account, Sharing]] = Counter()

    def __iter__(self) -> Iterator[Account]:
        return iter(self._claims)

    def claims(self, account: Account) -> Collection[ResourceClaim]:
        return self._claims[account].values() if account in self._claims else ()

    def total(self, account: Account, sharing: Sharing) -> int:
        return self._totals[account, sharing]

    def replace(self, before: ResourceClaim | None, after: ResourceClaim | None) -> set[Account]:
        """The accounts of which something is different now."""
        had, has = (devices(claim, self._driver) if claim else Counter() for claim in (before, after))
        self._totals.subtract(had)
        self._totals.update(has)
        for one in had.keys() - has.keys():
            if not self._totals[one]:
                del self._totals[one]
        left, held = ({account for account, _ in counted} for counted in (had, has))
        key = key_of(before or after)
        for account in left - held:
            del self._claims[account][key]
            if not self._claims[account]:
                del self._claims[account]
        if after is not None:
            for account in held:
                self._claims[account][key] = after
        return left | held if had != has else set()


def accounts_of(claim: ResourceClaim, driver: str) -> set[Account]:
    return {account for account, _ in devices(claim, driver)}


def devices(claim: ResourceClaim, driver: str) -> Counter[tuple[Account, Sharing]]:
    """How many reserved devices the claim has. Who only looks at a device has none."""
    found: Counter[tuple[Account, Sharing]] = Counter()
    for result in results(claim, driver):
        policy, sharing = names.policy_of_pool(result.pool), names.sharing_of_device(result.device)
        if policy is not None and sharing is not None and not result.admin_access:
            found[Account(policy, claim.metadata.namespace), sharing] += 1
    return found
