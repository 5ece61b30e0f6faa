"""What each claim of a node gets, and where that comes from: the operator's half of the answer.

What an allocation was promised holds: once it was allowed, or is prepared, no change of a policy denies it, and what
cannot be resolved any more stays as it was. That is known by the entry that was written last for the same allocation,
and by what the agent has prepared. Only who holds a GPU beside somebody else may still have to give way
(`gpusharing.core.verdicts.conflicts`).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from gpusharing.api import names
from gpusharing.api.dra import AllocationConfig, AllocationResult, ResourceClaim
from gpusharing.api.meta import LabelSelector
from gpusharing.api.sharing.device_settings import DeviceSettings
from gpusharing.api.sharing.gpu_status import UNTOLD, MemoryWallSupport
from gpusharing.api.sharing.node_spec import LONGEST_REASON, ClaimSharing, GpuSharing, Verdict
from gpusharing.api.sharing.node_status import ClaimStatus
from gpusharing.api.sharing.offers import Offers
from gpusharing.api.text import clip
from gpusharing.core.claims import allocation, settings
from gpusharing.core.departure import how_to_leave
from gpusharing.core.devices.offered import AS_FOUND
from gpusharing.core.memo import Kept
from gpusharing.core.state.node_view import NodeView
from gpusharing.core.state.prepared import is_running
from gpusharing.core.state.touched import Touched
from gpusharing.core.text import listed
from gpusharing.core.verdicts import tenancy
from gpusharing.core.verdicts.conflicts import Loss
from gpusharing.core.verdicts.tenancy import Held, Registry

_NOTHING: Final = (GpuSharing(uuid=""), UNTOLD)


class _Case(NamedTuple):
    """All that an entry is made of."""

    claim: ResourceClaim
    held: tuple[Held, ...]
    told: ClaimSharing | None
    """What was said last."""
    status: ClaimStatus | None
    """What the agent says."""
    tenants: Mapping[str, LabelSelector]
    labels: Mapping[str, str] | None
    """Of the namespace."""
    loss: Loss | None
    driver: str


KeptEntries: TypeAlias = Kept[_Case, ClaimSharing | None]


class _Promise(NamedTuple):
    """What became of an allocation before."""

    holds: bool
    """Whether it was allowed, or is prepared."""
    settings: Mapping[tuple[str, str], DeviceSettings]
    """By request and device."""


def claim_entries(
    view: NodeView,
    gpus: Iterable[GpuSharing],
    registry: Registry,
    lost: Mapping[str, Loss],
    driver: str,
    *,
    kept: KeptEntries | None = None,
    touched: Touched | None = None,
) -> tuple[ClaimSharing, ...]:
    """`lost`: by their uids, claims that have to give way to others. There is no entry while nothing can be said.
    `kept`: what was said of each last time. `touched`: since then."""
    kept = Kept() if kept is None else kept
    node, by_slot = view.name, _by_slot(view, gpus)
    told = {entry.uid: entry for entry in view.sharing.spec.claims}
    statuses = {status.uid: status for status in view.sharing.status.claims}
    cases: dict[str, _Case] = {}
    for claim in view.claims:
        if touched is not None and claim.metadata.uid not in touched.claims:
            continue
        uid, results = claim.metadata.uid, allocation.results_on(claim, node, driver)
        cases[uid] = _Case(
            claim=claim,
            held=tuple(
                [Held(result, *by_slot.get(names.slot_of_device(result.device), _NOTHING)) for result in results]
            ),
            told=told.get(uid),
            status=statuses.get(uid),
            tenants=registry.tenants,
            labels=registry.namespaces.get(claim.metadata.namespace),
            loss=lost.get(uid),
            driver=driver,
        )
    if touched is None:
        entries = kept.all(_entry, cases)
    else:
        entries = kept.some(_entry, cases, gone=touched.claims - cases.keys())
    return tuple(sorted([entry for entry in entries if entry is not None], key=lambda entry: entry.uid))


def _by_slot(view: NodeView, gpus: Iterable[GpuSharing]) -> Mapping[int | None, tuple[GpuSharing, MemoryWallSupport]]:
    decided = {gpu.uuid: gpu for gpu in gpus}
    return {
        status.slot: (decided[status.uuid], status.memory_wall)
        for status in view.sharing.status.gpus
        if status.uuid in decided
    }


def _entry(case: _Case) -> ClaimSharing | None:
    claim, digest = case.claim, allocation.digest(case.claim, case.driver)
    promise = _promise(case, digest)
    try:
        problems = [] if promise.holds else _objections(case)
    except tenancy.UnknownNamespaceError:
        return None
    configs = allocation.configs(claim, case.driver)
    resolved: list[DeviceSettings] = []
    refused: defaultdict[str, list[str]] = defaultdict(list)
    for held in case.held:
        try:
            resolved += _settings(held, configs, promise)
        except settings.SettingsError as error:
            refused[error.problem].append(held.result.request)
    problems += [f"{_requests(requests)}: {problem}" for problem, requests in refused.items()]
    problems += [case.loss.reason] if case.loss else []
    entry = ClaimSharing(
        uid=claim.metadata.uid,
        claim=allocation.display_name(claim),
        allocation_hash=digest,
        verdict=Verdict.DENIED if problems else Verdict.ALLOWED,
        reason=clip("; ".join(problems), LONGEST_REASON) or None,
        settings=tuple(resolved),
    )
    # There need not be two of them for as long as nothing else is said.
    return case.told if entry == case.told else entry


def _requests(names_of_requests: Sequence[str]) -> str:
    return f"request{'s' if len(names_of_requests) > 1 else ''} {listed(names_of_requests)}"


def _promise(case: _Case, digest: str) -> _Promise:
    runs = case.status is not None and is_running(case.status, [held.result for held in case.held])
    applied = case.status.settings if case.status is not None and runs else ()
    told = case.told if case.told is not None and case.told.allocation_hash == digest else None
    return _Promise(
        runs or (told is not None and told.verdict is Verdict.ALLOWED),
        {(one.request, one.device): one for one in [*applied, *(told.settings if told else ())]},
    )


def _objections(case: _Case) -> list[str]:
    namespaces = {} if case.labels is None else {case.claim.metadata.namespace: case.labels}
    found = tenancy.objections(case.claim, case.held, Registry(case.tenants, namespaces))
    # Those who write claims and those who write policies are not the same people: this is for the former.
    return [*found, how_to_leave(case.claim)] if found else []


def _settings(
    held: Held,
    configs: Sequence[AllocationConfig],
    promise: _Promise,
) -> Iterable[DeviceSettings]:
    result, gpu = held.result, held.gpu
    kept = promise.settings.get((result.request, result.device))
    if result.admin_access:
        # Whoever looks changes nothing.
        return [DeviceSettings(request=result.request, device=result.device)]
    if _is_leaving(result, gpu):
        # The policy went on while the claim stayed: it keeps what it was given.
        return [kept] if kept else []
    try:
        offered = gpu.offers or AS_FOUND
        return [settings.resolve(result, configs, offered, gpu.policy, allow=gpu.allow, memory_wall=held.wall)]
    except settings.SettingsError:
        if promise.holds:
            return [kept] if kept else []
        raise


def _is_leaving(result: AllocationResult, gpu: GpuSharing) -> bool:
    """Whether it is a share of a GPU that is not shared in this way any more, or only in another pool."""
    in_force = gpu.offers or Offers()
    match names.sharing_of_device(result.device):
        case names.Sharing.TIME_SLICING:
            is_offered = in_force.time_slicing is not None
        case names.Sharing.MPS:
            is_offered = in_force.mps is not None
        case _:
            return False
    restricted_to = gpu.policy.name if gpu.restricted and gpu.policy else None
    return not is_offered or names.policy_of_pool(result.pool) != restricted_to
