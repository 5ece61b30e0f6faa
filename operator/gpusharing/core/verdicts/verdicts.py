"""What each claim of a node gets, and from which source: verdict and settings.

A promise holds: once an allocation was allowed or prepared, no edit of a policy denies it, and settings that cannot be
resolved any more stay unchanged. The last written entry and the agent's report show what was promised. Only a claim
that conflicts with another one may still have to give way (`gpusharing.core.verdicts.conflicts`).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from gpusharing.api import names
from gpusharing.api.dra import AllocationConfig, ResourceClaim
from gpusharing.api.meta import LabelSelector
from gpusharing.api.names import Sharing
from gpusharing.api.sharing.device_settings import DeviceSettings
from gpusharing.api.sharing.gpu_status import GpuStatus
from gpusharing.api.sharing.node_spec import LONGEST_REASON, ClaimSharing, GpuSharing, Verdict
from gpusharing.api.sharing.node_status import ClaimStatus
from gpusharing.api.text import clip
from gpusharing.core.claims import allocation, settings
from gpusharing.core.devices.offered import AS_FOUND
from gpusharing.core.memo import Memo
from gpusharing.core.policies.is_offered import is_offered
from gpusharing.core.state.node_view import NodeView, Place
from gpusharing.core.text import listed, release_hint
from gpusharing.core.verdicts import tenancy
from gpusharing.core.verdicts.conflicts import Loss
from gpusharing.core.verdicts.tenancy import Held, Registry

_NOTHING: Final = (GpuSharing(uuid=""), None)


class _Case(NamedTuple):
    """All that an entry is made of."""

    claim: ResourceClaim
    held: tuple[Held, ...]
    written: ClaimSharing | None
    """The entry as it was written last."""
    status: ClaimStatus | None
    """What the agent says."""
    tenants: Mapping[str, LabelSelector | None]
    labels: Mapping[str, str] | None
    """Of the namespace."""
    loss: Loss | None
    beyond_quota: str | None
    driver: str


EntryMemo: TypeAlias = Memo[_Case, ClaimSharing | None]


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
    memo: EntryMemo | None = None,
) -> tuple[ClaimSharing, ...]:
    """`lost`: by their uids, claims that have to give way to others. There is no entry while nothing can be said."""
    by_slot = _by_slot(view, gpus)
    written = {entry.uid: entry for entry in view.sharing.spec.claims}
    statuses = {status.uid: status for status in view.sharing.status.claims}
    held: defaultdict[str, list[Held]] = defaultdict(list)
    for hold in view.holds:
        held[hold.uid].append(Held(hold.result, *by_slot.get(hold.slot, _NOTHING)))
    cases = {
        (uid := claim.metadata.uid): _Case(
            claim=claim,
            held=tuple(held[uid]),
            written=written.get(uid),
            status=statuses.get(uid),
            tenants=registry.tenants,
            labels=registry.namespaces.get(claim.metadata.namespace),
            loss=lost.get(uid),
            beyond_quota=registry.beyond_quota.get(uid),
            driver=view.driver,
        )
        for claim in view.claims
    }
    entries = (memo or Memo()).map(_entry, cases)
    return tuple(sorted([entry for entry in entries if entry is not None], key=lambda entry: entry.uid))


def _by_slot(view: NodeView, gpus: Iterable[GpuSharing]) -> Mapping[int | None, tuple[GpuSharing, GpuStatus]]:
    return {view.gpus[gpu.uuid].status.slot: (gpu, view.gpus[gpu.uuid].status) for gpu in gpus}


def _entry(case: _Case) -> ClaimSharing | None:
    digest = allocation.digest(case.claim, case.driver)
    try:
        return _judge(case, digest)
    except Exception as error:  # noqa: BLE001 (of whatever kind: it concerns this claim alone)
        return _undecided(case, digest, error)


def _undecided(case: _Case, digest: str, error: Exception) -> ClaimSharing | None:
    """A failure of ours changes nothing for a claim that was judged or is prepared, and lets no other one in."""
    if case.written is not None and case.written.allocation_hash == digest:
        return case.written
    if case.status is not None:
        return None
    return ClaimSharing(
        uid=case.claim.metadata.uid,
        claim=allocation.display_name(case.claim),
        allocation_hash=digest,
        verdict=Verdict.DENIED,
        reason=f"the operator cannot decide on this claim ({type(error).__name__}): report it",
    )


def _judge(case: _Case, digest: str) -> ClaimSharing | None:
    claim, promise = case.claim, _promise(case, digest)
    try:
        problems = [] if promise.holds else _objections(case)
    except tenancy.UnknownNamespaceError:
        return None
    configs = allocation.configs(claim, case.driver)
    gpus = [(held.result, held.gpu.uuid) for held in case.held]
    resolved: list[DeviceSettings] = []
    refused: defaultdict[str, list[str]] = defaultdict(list)
    for held in case.held:
        try:
            resolved += _settings(held, configs, promise, gpus)
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
    # The same object as long as it says the same: comparing is faster then.
    return case.written if entry == case.written else entry


def _requests(names_of_requests: Sequence[str]) -> str:
    return f"request{'s' if len(names_of_requests) > 1 else ''} {listed(names_of_requests)}"


def _promise(case: _Case, digest: str) -> _Promise:
    runs = case.status is not None and allocation.is_prepared_as(case.status, [held.result for held in case.held])
    applied = case.status.settings if case.status is not None and runs else ()
    written = case.written if case.written is not None and case.written.allocation_hash == digest else None
    return _Promise(
        runs or (written is not None and written.verdict is Verdict.ALLOWED),
        {(one.request, one.device): one for one in [*applied, *(written.settings if written else ())]},
    )


def _objections(case: _Case) -> list[str]:
    namespaces = {} if case.labels is None else {case.claim.metadata.namespace: case.labels}
    found = tenancy.objections(case.claim, case.held, Registry(case.tenants, namespaces))
    found += [case.beyond_quota] if case.beyond_quota else []
    # Those who write claims and those who write policies are not the same people: this is for the former.
    return [*found, release_hint(case.claim)] if found else []


def _settings(
    held: Held,
    configs: Sequence[AllocationConfig],
    promise: _Promise,
    gpus: settings.ClaimedGpus,
) -> Iterable[DeviceSettings]:
    result, gpu = held.result, held.gpu
    kept = promise.settings.get((result.request, result.device))
    if result.admin_access:
        # Whoever looks changes nothing.
        return [DeviceSettings(request=result.request, device=result.device)]
    if _is_leaving(held):
        # The policy went on while the claim stayed: it keeps what it was given.
        return [kept] if kept else []
    try:
        offered = gpu.offers or AS_FOUND
        resolved = settings.resolve(
            result, configs, offered, gpu.policy, gpus=gpus, allow=gpu.allow, memory_wall=held.wall
        )
    except settings.SettingsError:
        if promise.holds:
            return [kept] if kept else []
        raise
    return [resolved]


def _is_leaving(held: Held) -> bool:
    """Whether it is a share of a GPU that is not shared in this mode any more, or only in another pool."""
    if names.sharing_of_device(held.result.device) not in {Sharing.TIME_SLICING, Sharing.MPS}:
        return False
    place = Place(held.result.pool, held.result.device)
    return held.status is None or not is_offered(place, held.gpu, held.status, ())
