"""What Prepare has to answer, told without looking at how the agent decides it."""

from collections.abc import Iterable
from dataclasses import dataclass

from agent.histories.world import Claim, Violation, World
from gpusharing.api import names
from gpusharing.api.dra import AllocationResult
from gpusharing.api.names import Sharing

_SIZES = {"1g10gb": 1, "2g20gb": 2, "3g40gb": 4}


@dataclass
class Verdict:
    uid: str
    must_refuse: str | None
    """What the refusal says."""
    may_refuse: bool

    def refused(self, message: str) -> None:
        if self.must_refuse is None and not self.may_refuse:
            raise Violation(f"{self.uid} is refused without a reason: {message}")
        if self.must_refuse and not self.may_refuse and self.must_refuse not in message:
            raise Violation(f"the refusal of {self.uid} does not say {self.must_refuse!r}: {message}")

    def prepared(self) -> None:
        if self.must_refuse:
            raise Violation(f"{self.uid} was prepared, but: {self.must_refuse}")


def expected(world: World, claim: Claim) -> Verdict:
    assert world.agent
    uuids = {world.uuid_of(result.device) for result in claim.results}
    may_refuse = not world.is_calm or any(
        world.gpus[uuid].spoiled or world.gpus[uuid].changed or world.gpus[uuid].offers_unknown for uuid in uuids
    )
    # A GPU that did not answer when the agent last looked is found by its next rescan.
    is_found = all(world.agent.gpus.is_here(uuid) for uuid in uuids)
    may_refuse = may_refuse or not is_found or not _are_published(world, claim)
    # Until a round has found out again what the others hold.
    may_refuse = may_refuse or bool(world.agent.records.lost_claims - {claim.uid})
    return Verdict(claim.uid, _reason(world, claim), may_refuse)


def _reason(world: World, claim: Claim) -> str | None:
    assert world.agent
    if claim.uid not in world.server.claims:
        return "cannot be read"
    if not claim.results:
        return "has no device"
    known = world.agent.records.claims.get(claim.uid)
    if known and tuple(device.share_id for device in known.devices) == tuple(one.share_id for one in claim.results):
        return None
    for uuid in sorted({world.uuid_of(result.device) for result in claim.held}):
        theirs = [
            (other.uid, device.device)
            for other, device in world.agent.records.holders_of(uuid)
            if other.uid != claim.uid
        ]
        for result in claim.held:
            if world.uuid_of(result.device) != uuid:
                continue
            for holder, device in theirs:
                if not go_together(result.device, device):
                    return holder
    if claim.kind.refused:
        return claim.kind.refused
    daemons = {one.device for one in claim.held if names.sharing_of_device(one.device) is Sharing.MPS}
    return "can use one MPS daemon" if len(daemons) > 1 else None


def _are_published(world: World, claim: Claim) -> bool:
    """What is not any more was allocated by a scheduler that was late."""
    assert world.agent
    return all(
        any(entry.device == one.device for entry in world.agent.gpus.entries(world.uuid_of(one.device)))
        and world.agent.gpus.pool(world.uuid_of(one.device)) == one.pool
        for one in claim.results
    )


def go_together(mine: str, theirs: str) -> bool:
    """Devices of one GPU."""
    one, other = names.read_device(mine), names.read_device(theirs)
    assert one
    assert other
    if one.sharing is not other.sharing or one.sharing is Sharing.EXCLUSIVE:
        return False
    if one.place is None or other.place is None:
        return True
    mine_end, their_end = one.place.start + _size(mine), other.place.start + _size(theirs)
    return mine_end <= other.place.start or their_end <= one.place.start


def _size(device: str) -> int:
    return _SIZES[device.split("-")[3]]


def require_one_way(world: World, results: Iterable[AllocationResult]) -> None:
    """A scheduler that is up to date never gives a GPU away in two ways."""
    allocated = list(world.server.results())
    for result in results:
        for other in allocated:
            same = world.uuid_of(result.device) == world.uuid_of(other.device)
            together = result.pool == other.pool and go_together(result.device, other.device)
            if same and not result.admin_access and not together:
                raise Violation(f"{result.device} is published while {other.device} is allocated")
