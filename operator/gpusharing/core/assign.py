"""Which policy wins which GPU of a node. Never a mix of two: one winner, and losers that learn why."""

from collections.abc import Mapping, Sequence

from gpusharing.api.sharing import GpuSharing, Loser, LossReason, PolicyReference, SharingPolicy
from gpusharing.core import acceptance


def assign(
    policies: Sequence[SharingPolicy],
    *,
    labels: Mapping[str, str],
    uuids: Sequence[str],
    before: Sequence[GpuSharing],
) -> tuple[GpuSharing, ...]:
    """How each GPU is to be shared, in the order of uuids. `before` is what was decided last, so that GPUs stay put."""
    previous = {gpu.uuid: gpu for gpu in before}
    winners: dict[str, SharingPolicy] = {}
    losers: dict[str, list[Loser]] = {uuid: [] for uuid in uuids}
    for policy in sorted(policies, key=_rank):
        had = {uuid for uuid in uuids if _had(policy, previous.get(uuid))}
        if acceptance.objection(policy):
            # A mistake never opens the fleet: what the policy had stays its own, and it wants nothing else.
            winners |= {uuid: policy for uuid in had if uuid not in winners}
            continue
        wanted = uuids if policy.spec.nodes.matches(labels) else ()
        free = [uuid for uuid in wanted if uuid not in winners]
        limit = _limit(policy.spec.gpus.max_per_node, len(wanted))
        won = sorted(free, key=lambda uuid: (uuid not in had, uuid))[:limit]
        if len(won) < limit:
            for uuid in wanted:
                if uuid in winners:
                    losers[uuid].append(Loser(policy=policy.metadata.name, reason=_why(policy, winners[uuid])))
        winners |= dict.fromkeys(won, policy)
    return tuple(_entry(uuid, winners.get(uuid), losers[uuid], previous.get(uuid)) for uuid in uuids)


def _rank(policy: SharingPolicy) -> tuple[int, str]:
    return -policy.spec.priority, policy.metadata.name


def _had(policy: SharingPolicy, entry: GpuSharing | None) -> bool:
    return entry is not None and entry.policy is not None and entry.policy.name == policy.metadata.name


def _limit(max_per_node: int | str | None, matching: int) -> int:
    match max_per_node:
        case None:
            return matching
        case int():
            return min(max_per_node, matching)
        case str():
            return min(max(1, matching * int(max_per_node.removesuffix("%")) // 100), matching)


def _why(loser: SharingPolicy, winner: SharingPolicy) -> LossReason:
    return LossReason.LOWER_PRIORITY if loser.spec.priority < winner.spec.priority else LossReason.NAME_SORTS_LATER


def _entry(uuid: str, winner: SharingPolicy | None, losers: Sequence[Loser], previous: GpuSharing | None) -> GpuSharing:
    if winner is None:
        return GpuSharing(uuid=uuid, losers=tuple(losers))
    if acceptance.objection(winner) and previous is not None:
        return previous.model_copy(update={"losers": tuple(losers)})
    reference = PolicyReference(name=winner.metadata.name, generation=winner.metadata.generation)
    return GpuSharing(uuid=uuid, policy=reference, losers=tuple(losers), offers=winner.spec.offers)
