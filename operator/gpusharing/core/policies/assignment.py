"""Which policy wins which GPU of a node. Never a mix of two: one winner, and losers that learn why."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpusharing.api.meta import LabelSelector
from gpusharing.api.sharing.node_spec import GpuSharing, Loser, LossReason, PolicyReference
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.api.sharing.tenants import Allowance
from gpusharing.core.policies.policy import ExaminedPolicy, Rank, rank
from gpusharing.core.policies.selection import Selection

_NOTHING = Selection(failed={})


@dataclass(frozen=True, slots=True)
class Contest:
    """The GPUs of one node while they are given away, rank by rank."""

    uuids: Sequence[str]
    previous: Mapping[str, GpuSharing]
    winners: dict[str, Rank]
    losers: dict[str, list[Loser]]
    held: dict[str, SharingPolicy]
    """GPUs that stay with whoever had them last, since a selector of this policy, which might want them, failed."""

    def had(self, name: str) -> set[str]:
        return {uuid for uuid in self.uuids if (entry := self.previous.get(uuid)) and _is_of(entry, name)}


def assign(
    policies: Sequence[ExaminedPolicy],
    *,
    selections: Mapping[str, Selection],
    uuids: Sequence[str],
    before: Sequence[GpuSharing],
) -> tuple[GpuSharing, ...]:
    """Who gets each GPU, in the order of uuids, with the offers as the winner has them.

    `selections` has, by name, what the accepted policies want of this node. `before` is what was decided last, so that
    GPUs stay put.
    """
    contest = Contest(uuids, {gpu.uuid: gpu for gpu in before}, {}, {uuid: [] for uuid in uuids}, {})
    by_name = {examined.name: examined.policy for examined in policies}
    wanting = {rank(examined): examined for examined in policies if not examined.is_suspended}
    suspended = {examined.name: examined.policy for examined in policies if examined.is_suspended}
    stays = _by_rank(contest, suspended)
    untouched: set[str] = set()
    for turn in sorted(wanting.keys() | stays.keys()):
        # A mistake never opens the fleet: what such a policy had stays its own, and it wants nothing else.
        kept = [uuid for uuid in stays.get(turn, ()) if uuid not in contest.winners]
        contest.winners.update(dict.fromkeys(kept, turn))
        untouched.update(kept)
        if turn in wanting:
            _take(wanting[turn], selections.get(turn.name, _NOTHING), contest)
    # Nor does one on a single GPU: nobody who did not have it gets it, and who had it keeps it even when it is gone.
    untouched |= contest.held.keys() - contest.winners.keys()
    return tuple(
        _untouched(uuid, contest)
        if uuid in untouched
        else _entry(uuid, by_name[winner.name] if (winner := contest.winners.get(uuid)) else None, contest)
        for uuid in uuids
    )


def _by_rank(contest: Contest, suspended: Mapping[str, SharingPolicy]) -> dict[Rank, list[str]]:
    """What policies had that want nothing new, by the rank with which they won it: not even a new priority counts."""
    found: dict[Rank, list[str]] = {}
    for uuid in contest.uuids:
        entry = contest.previous.get(uuid)
        if entry and entry.policy and (policy := suspended.get(entry.policy.name)):
            priority = policy.spec.priority if entry.priority is None else entry.priority
            found.setdefault(Rank(-priority, policy.metadata.name), []).append(uuid)
    return found


def _take(examined: ExaminedPolicy, selection: Selection, contest: Contest) -> None:
    policy, had = examined.policy, contest.had(examined.name)
    free = [
        uuid for uuid in selection.wanted if uuid not in contest.winners and (uuid not in contest.held or uuid in had)
    ]
    # What it keeps although it cannot be judged counts as well: otherwise it would take another one for the time being.
    kept = len(had & selection.failed.keys() - contest.winners.keys())
    limit = max(0, _limit(policy.spec.gpus.max_per_node, len(selection.wanted) + kept) - kept)
    won = sorted(free, key=lambda uuid: (uuid not in had, uuid))[:limit]
    if len(won) < limit:
        for uuid in selection.wanted:
            if uuid not in won:
                contest.losers[uuid].append(Loser(policy=examined.name, reason=_why(examined, uuid, contest)))
    contest.winners.update(dict.fromkeys(won, rank(examined)))
    for uuid in selection.failed:
        if uuid not in contest.winners:
            contest.held.setdefault(uuid, policy)


def _is_of(entry: GpuSharing, name: str) -> bool:
    return entry.policy is not None and entry.policy.name == name


def _limit(max_per_node: int | str | None, matching: int) -> int:
    match max_per_node:
        case None:
            return matching
        case int():
            return min(max_per_node, matching)
        case str():
            return min(max(1, matching * int(max_per_node.removesuffix("%")) // 100), matching)


def _why(loser: ExaminedPolicy, uuid: str, contest: Contest) -> LossReason:
    winner = contest.winners.get(uuid)
    if winner is None:
        return LossReason.SELECTOR_FAILED
    outranked = winner.reversed_priority < rank(loser).reversed_priority
    return LossReason.LOWER_PRIORITY if outranked else LossReason.NAME_SORTS_LATER


def _untouched(uuid: str, contest: Contest) -> GpuSharing:
    entry = contest.previous.get(uuid, GpuSharing(uuid=uuid))
    return entry.model_copy(update={"losers": tuple(contest.losers[uuid])})


def _entry(uuid: str, winner: SharingPolicy | None, contest: Contest) -> GpuSharing:
    losers = tuple(contest.losers[uuid])
    if winner is None:
        return GpuSharing(uuid=uuid, losers=losers)
    tenants = winner.spec.tenants
    return GpuSharing(
        uuid=uuid,
        policy=PolicyReference(name=winner.metadata.name, generation=winner.metadata.generation),
        priority=winner.spec.priority,
        losers=losers,
        offers=winner.spec.offers,
        restricted=tenants.namespaces != LabelSelector(),
        allow=tenants.allow if tenants.allow != Allowance() else None,
    )
