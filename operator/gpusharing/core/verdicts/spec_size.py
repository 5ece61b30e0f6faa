"""A NodeSharing has to fit into etcd, with the agent's half of it: what is missed least is left out first."""

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, TypeAlias

from gpusharing.api import names, strict_json
from gpusharing.api.sharing.node_spec import ClaimSharing, NodeSharingSpec, Verdict
from gpusharing.api.text import clip
from gpusharing.core.state.node_view import NodeView

LARGEST_SPEC: Final = 768 * 2**10
"""In bytes, as JSON. etcd takes 1.5 MiB."""
_SHORT_REASON: Final = 100

_Shorten: TypeAlias = Callable[[ClaimSharing], ClaimSharing | None]


def fitted(spec: NodeSharingSpec, view: NodeView) -> NodeSharingSpec:
    """Agents resolve the settings of claims on open GPUs themselves. The verdicts on restricted GPUs stay: their claims
    are not prepared without."""
    if _at_most(spec) <= LARGEST_SPEC:
        return spec
    is_open = _open(spec, view)

    def without_settings(entry: ClaimSharing) -> ClaimSharing:
        can_do_without = entry.uid in is_open and entry.verdict is Verdict.ALLOWED
        return entry.model_copy(update={"settings": ()}) if can_do_without else entry

    def without_entry(entry: ClaimSharing) -> ClaimSharing | None:
        return None if entry.uid in is_open else entry

    claims: Sequence[ClaimSharing] = spec.claims
    excess = _size(spec) - LARGEST_SPEC
    for shorten in (without_settings, _with_short_reason, without_entry):
        claims, excess = _shortened(claims, shorten, excess)
    return spec.model_copy(update={"claims": tuple(claims)})


def _with_short_reason(entry: ClaimSharing) -> ClaimSharing:
    return entry.model_copy(update={"reason": clip(entry.reason, _SHORT_REASON)}) if entry.reason else entry


def _shortened(claims: Sequence[ClaimSharing], shorten: _Shorten, excess: int) -> tuple[Sequence[ClaimSharing], int]:
    """No more of them than has to be."""
    found: list[ClaimSharing] = []
    for entry in claims:
        short = shorten(entry) if excess > 0 else entry
        if short is not entry:
            excess -= _size(entry) - (_size(short) if short else 0)
        if short is not None:
            found.append(short)
    return found, excess


def _open(spec: NodeSharingSpec, view: NodeView) -> Collection[str]:
    """By uid, claims that hold no device that is for tenants alone."""
    slots = {view.gpus[gpu.uuid].status.slot for gpu in spec.gpus if gpu.restricted and gpu.uuid in view.gpus}
    restricted = {
        hold.uid for hold in view.holds if hold.slot in slots or names.policy_of_pool(hold.place.pool) is not None
    }
    return {entry.uid for entry in spec.claims} - restricted


def _size(value: Any) -> int:
    return len(strict_json.canonical(value.to_json()))


def _at_most(spec: NodeSharingSpec) -> int:
    """Without writing it: it is asked for at each decision. Names have up to 317 characters of one byte, sentences have
    characters of up to four."""
    gpus = sum(
        [
            8192
            + 256 * (len(gpu.allocated) + len(gpu.losers) + 2 * len(gpu.close_approved) + len(gpu.closed_names))
            + 8192 * len(gpu.refused)
            for gpu in spec.gpus
        ]
    )
    claims = sum([512 + 4 * len(entry.reason or "") for entry in spec.claims])
    settings = sum(
        [
            768 + 4 * sum(map(len, setting.ignored)) + 4 * len(setting.ignored)
            for entry in spec.claims
            for setting in entry.settings
        ]
    )
    return gpus + claims + settings
