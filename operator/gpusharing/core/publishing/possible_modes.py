"""In which of the offered modes an idle GPU can be had. What `menu` publishes, without making the devices."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from gpusharing.api import names
from gpusharing.api.names import Sharing
from gpusharing.api.sharing.modes import for_mode
from gpusharing.api.sharing.offers import Offers
from gpusharing.core.devices.gpu import MigSupport


class _MigMode(Protocol):
    @property
    def enabled(self) -> bool: ...


class _Instance(Protocol):
    @property
    def profile(self) -> str: ...
    @property
    def start(self) -> int: ...


class _Allocated(Protocol):
    @property
    def device(self) -> str: ...


class Reported(Protocol):
    """Of the status of a GPU, of whoever has decoded it."""

    @property
    def pool(self) -> str | None: ...
    @property
    def mig_mode(self) -> _MigMode | None: ...
    @property
    def instances(self) -> Sequence[_Instance]: ...


class Decided(Protocol):
    """Of the spec of a GPU."""

    @property
    def restricted_to(self) -> str | None: ...
    @property
    def allocated(self) -> Sequence[_Allocated]: ...


def modes_while_idle(
    node: str, reported: Reported, decided: Decided, offers: Offers, mig: MigSupport | None, *, is_unhealthy: bool
) -> tuple[Sharing, ...]:
    """None while it is unhealthy, or is not in the pool yet in which it is to be."""
    is_moving = reported.pool not in {None, names.pool(node, restricted_to=decided.restricted_to)}
    if is_moving or is_unhealthy:
        return ()
    return possible_modes(
        offers,
        mig,
        mig_enabled=is_mig_enabled(reported),
        instances=[(one.profile, one.start) for one in reported.instances],
        allocated=[one.device for one in decided.allocated],
    )


def is_mig_enabled(reported: Reported) -> bool:
    return reported.mig_mode is not None and reported.mig_mode.enabled


def possible_modes(
    offers: Offers,
    mig: MigSupport | None,
    *,
    mig_enabled: bool,
    instances: Iterable[tuple[str, int]] = (),
    allocated: Iterable[str] = (),
) -> tuple[Sharing, ...]:
    """`instances`: MIG instances that are there, by profile and start. `allocated`: devices that claims have."""
    has_layout = offers.mig is not None and offers.mig.layout is not None
    held = set() if has_layout else _instances_of(allocated, mig)
    stays_cut = any(one not in held for one in instances)
    found = _possible(offers, mig, mig_enabled=mig_enabled, has_layout=has_layout, stays_cut=stays_cut)
    return tuple(found)


def needs_reset(offers: Offers, mig: MigSupport | None, *, mig_enabled: bool) -> bool:
    """Whether MIG is offered and cannot be had, because other modes are offered as well: for MIG alone, the agent
    resets the GPU."""
    others = offers.exclusive or offers.time_slicing or offers.mps
    return offers.mig is not None and others is not None and _switch_resets(mig) and not mig_enabled


def _possible(
    offers: Offers, mig: MigSupport | None, *, mig_enabled: bool, has_layout: bool, stays_cut: bool
) -> Iterator[Sharing]:
    can_be_whole = not stays_cut and not (mig_enabled and _switch_resets(mig))
    can_be_cut = stays_cut if has_layout else mig is not None and (mig_enabled or not mig.switch_resets_gpu)
    for mode in Sharing:
        if for_mode(offers, mode) is not None and (can_be_cut if mode is Sharing.MIG else can_be_whole):
            yield mode


def _instances_of(devices: Iterable[str], mig: MigSupport | None) -> set[tuple[str, int]]:
    found = [name.place for device in devices if (name := names.read_device(device)) and name.place]
    profiles = [(mig.profile(place.profile_id) if mig else None, place.start) for place in found]
    return {(profile.name, start) for profile, start in profiles if profile}


def _switch_resets(mig: MigSupport | None) -> bool:
    return mig is not None and mig.switch_resets_gpu
