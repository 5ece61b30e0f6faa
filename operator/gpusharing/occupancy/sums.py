"""Sums by node, namespace and policy, and of all."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from gpusharing.occupancy.fleet import Fleet, GpuUse, Holder, Use


def of_gpus(name: str, gpus: Collection[GpuUse]) -> Use:
    """What is hidden counts as well."""
    used = [gpu.memory_used for gpu in gpus if gpu.memory_used is not None]
    busy = [gpu.utilization for gpu in gpus if gpu.utilization is not None]
    hidden = _hidden(gpus)
    return Use(
        name=name,
        gpus=len(gpus),
        gpus_in_use=sum(not gpu.is_idle for gpu in gpus),
        claims=len({one.uid for gpu in gpus for one in gpu.holders}) + hidden,
        hidden=hidden,
        ratio=sum(gpu.ratio or 0 for gpu in gpus),
        memory=sum(gpu.memory for gpu in gpus),
        memory_promised=sum(gpu.memory_promised for gpu in gpus),
        memory_used=sum(used) if used else None,
        utilization=_mean(busy),
    )


def by_policy(gpus: Iterable[GpuUse]) -> Sequence[Use]:
    found: defaultdict[str, list[GpuUse]] = defaultdict(list)
    for gpu in gpus:
        found[gpu.policy or ""].append(gpu)
    return [of_gpus(name, found[name]) for name in sorted(found)]


def by_namespace(gpus: Sequence[GpuUse]) -> Sequence[Use]:
    named: defaultdict[str, list[tuple[GpuUse, Holder]]] = defaultdict(list)
    for gpu in gpus:
        for one in gpu.holders:
            named[one.namespace].append((gpu, one))
    found = [_of_holders(name, named[name]) for name in sorted(named)]
    hidden = [gpu for gpu in gpus if gpu.hidden]
    return [*found, _of_hidden(hidden)] if hidden else found


def _of_holders(name: str, held: Sequence[tuple[GpuUse, Holder]]) -> Use:
    places = {(gpu.node, gpu.slot): gpu for gpu, _ in held}
    holders = [one for _, one in held]
    used = [one.memory_used for one in holders if one.memory_used is not None]
    busy = [one.utilization for one in holders if one.utilization is not None]
    return Use(
        name=name,
        gpus=len(places),
        gpus_in_use=len(places),
        claims=len({one.uid for one in holders}),
        ratio=sum(one.ratio or 0 for one in holders),
        memory=sum(gpu.memory for gpu in places.values()),
        memory_promised=sum(one.memory_promised or 0 for one in holders),
        memory_used=sum(used) if used else None,
        utilization=_mean(busy),
    )


def _of_hidden(gpus: Sequence[GpuUse]) -> Use:
    """What is left of each GPU without those who have a name."""
    count = _hidden(gpus)
    return Use(
        gpus=len(gpus),
        gpus_in_use=len(gpus),
        claims=count,
        hidden=count,
        ratio=sum((gpu.ratio or 0) - sum(one.ratio or 0 for one in gpu.holders) for gpu in gpus),
        memory=sum(gpu.memory for gpu in gpus),
        memory_promised=sum(gpu.memory_promised - sum(one.memory_promised or 0 for one in gpu.holders) for gpu in gpus),
    )


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _hidden(gpus: Iterable[GpuUse]) -> int:
    """A claim may have several GPUs."""
    return len({uid for gpu in gpus for uid in gpu.hidden_claims})


def summed(fleet: Fleet) -> Fleet:
    """With the sums of its nodes."""
    gpus = fleet.gpus
    return replace(
        fleet, total=of_gpus("", gpus), policies=tuple(by_policy(gpus)), namespaces=tuple(by_namespace(gpus))
    )
