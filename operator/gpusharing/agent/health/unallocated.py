"""Prepared claims that the API does not know as allocated any more: somebody emptied their status, or deleted them with
force. Their pods may run, so they keep their GPUs, and the scheduler must learn it: for the API these GPUs are free."""

import structlog

from gpusharing.agent.state.models import PreparedClaim, PreparedDevice
from gpusharing.agent.state.records import Records

log = structlog.get_logger(__name__)


class UnallocatedClaims:
    def __init__(self, records: Records) -> None:
        self._records = records
        self._suspects: set[str] = set()
        self._unallocated: set[str] = set()

    def __contains__(self, uid: object) -> bool:
        return uid in self._unallocated

    @property
    def to_check(self) -> set[str]:
        """Uids of claims whose allocation should be read, also of those that were found to have none."""
        return (self._suspects | self._unallocated) & self._records.claims.keys()

    def suspect(self, uid: str) -> None:
        """Another claim was allocated what this one has."""
        self._suspects.add(uid)

    def mark(self, claim: PreparedClaim, *, is_allocated: bool) -> bool:
        """What the API says now. Returns whether it said something else before."""
        self._suspects.discard(claim.uid)
        if is_allocated is (claim.uid not in self._unallocated):
            return False
        if is_allocated:
            self._unallocated.discard(claim.uid)
            log.info("prepared claim is allocated again", claim=claim.display_name, claim_uid=claim.uid)
        else:
            self._unallocated.add(claim.uid)
            log.warning("prepared claim is not allocated", claim=claim.display_name, claim_uid=claim.uid)
        return True

    def on(self, uuid: str) -> list[tuple[PreparedClaim, PreparedDevice]]:
        """Those that have this GPU, until they are unprepared."""
        return [(claim, device) for claim, device in self._records.claims_on(uuid) if claim.uid in self._unallocated]
