"""What each GPU of a node publishes now: as little as it can without ever letting two ways of taking it meet.

The scheduler pays for every device that is published. So a GPU that is taken publishes only what can still be had of
it, and of the idle ones only a few carry everything that is offered (the menu); the others are whole only. Scheduler,
API and agent see each other late; these rules keep two ways off one GPU all the same:

1. Adding is free, dropping takes two steps. A device that should not be there is first marked as closing and stays,
   with counters, until the mark has been in the API for longer than the scheduler can be late. Then it goes: on a GPU
   that is taken, when a look at the API shows that the claim still holds what excludes the device. At any time when
   the operator approves: nobody holds the device, and nobody can get it any more.
2. So what is released only gets more devices, with counters; what is too much then closes as above.
3. What is published is on disk before it is written. Where nobody knows what was published, everything is.
4. What the closing guard refuses by its name is offered under another one, beside the former for as long as that is
   published: such a name is refused to everybody, so it closes.
5. A GPU is in one pool at a time. Where it belongs into another one, all of it closes as above, and it appears there
   when the API has had its slice without a device.

The caller's part: give times of a clock that does not jump (seconds since boot), keep each GPU's `Publication` on disk,
write its slice, and call `written` when the API has it. After a reboot, `restarted` begins all waiting anew.
"""

import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Final

from pydantic.dataclasses import dataclass as record

from gpusharing.api import names
from gpusharing.api.meta import FROZEN_CONFIG, EmptyTuple
from gpusharing.core.devices.gpu import Gpu
from gpusharing.core.devices.options import Option, can_be_held_together, of_device
from gpusharing.core.publishing.entries import DEVICES_PER_SLICE, Entry, Standing
from gpusharing.core.publishing.menu import Menu, whole_only


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """In seconds."""

    patience: float = 60
    """So long nothing is written because of a claim that may leave again soon."""
    taken: float = 60
    """Longer than slices reach the scheduler late."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A prepared claim's hold on one device: a claim may lose it and get another one under the same uid."""

    claim: str
    device: str
    share_id: str | None = None
    admin: bool = False
    """Whoever only looks takes nothing."""


@record(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class Publication:
    """What one GPU publishes, as it is kept on disk."""

    pool: str
    entries: Annotated[tuple[Entry, ...], EmptyTuple] = ()
    complete: bool = False
    """Whether all that may have been published before is among the entries, or was withdrawn by the rules."""
    vacated: bool = False
    """Whether the API has had it without any entry: nothing of the GPU is in this pool any more."""
    withheld: bool = False
    """Whether nobody could ever get any of it, since the operator had not spoken."""

    @property
    def devices(self) -> frozenset[str]:
        return frozenset(entry.device for entry in self.entries)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuView:
    """One GPU: what is wanted of it and what is known of it."""

    gpu: Gpu
    group: str
    """GPUs that are offered alike: each group has menus of its own. Policy and model make one."""
    menu: Menu
    policy: str | None
    pool: str
    """Where its devices belong."""
    configured: bool
    """False: the operator has not spoken, so that nobody knows what else may be offered and allocated."""
    published: Publication | None
    """None: nobody knows."""
    found: frozenset[str] = frozenset()
    """Where nobody knows: the devices that the API shows for it."""
    found_in: str | None = None
    """And the pool in which it shows them, or in which claims hold them."""
    prepared: tuple[Holder, ...] = ()
    allocated: frozenset[str] = frozenset()
    """Devices that the operator has seen allocated."""
    close_approved: frozenset[str] = frozenset()
    """Devices that the operator lets be withdrawn, since they began to close the last time."""
    closed_names: tuple[str, ...] = ()
    """Items of the closing guard, in the pool where its devices belong."""

    @property
    def is_moving(self) -> bool:
        """Whether there may be something of it in a pool where it does not belong. Without the operator's word nobody
        knows where that is."""
        left = self.published is not None and self.published.vacated
        return self.configured and self.pool != self.published_in and not left

    @property
    def published_in(self) -> str:
        return self.published.pool if self.published else self.found_in or self.pool


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPlan:
    publication: Publication
    confirm: tuple[Holder, ...] = ()
    """Read these claims, and ask again with the answers: something can go if they hold what they held."""
    look_again: float = math.inf
    """When time alone will change something."""
    ignored: tuple[str, ...] = ()
    """Devices of other slots that something says are this GPU's: records were lost, or are of another node."""


Answers = Mapping[Holder, bool]
"""Whether a claim that was just read has this very device allocated."""

_NO_ANSWERS: Final[Answers] = {}
_DEFAULT_TIMING: Final = Timing()


def narrow(
    views: Sequence[GpuView],
    *,
    now: float,
    menus: int = 1,
    timing: Timing = _DEFAULT_TIMING,
    answers: Answers = _NO_ANSWERS,
) -> list[GpuPlan]:
    """A plan for each GPU, in the same order. `menus` idle GPUs of each group carry everything that is offered."""
    foreign = [_foreign_devices(view) for view in views]
    views = [_without(view, devices) if devices else view for view, devices in zip(views, foreign, strict=True)]
    taken_by = [_holders(view, answers) for view in views]
    with_menu = _slots_with_menu(views, taken_by, menus)
    views = [_with_open_names(view) for view in views]
    plans = [
        _Planning(view, holders, answers, now, timing).plan(full=view.gpu.slot in with_menu)
        for view, holders in zip(views, taken_by, strict=True)
    ]
    return [replace(plan, ignored=devices) if devices else plan for plan, devices in zip(plans, foreign, strict=True)]


def written(stored: Publication, current: Publication, *, now: float) -> Publication:
    """After the API took what `stored` says: what closes there and still does waits from now on."""
    is_empty = not stored.entries and not current.entries and stored.pool == current.pool
    closing = {entry.device for entry in stored.entries if entry.standing is not Standing.OPEN}
    return replace(
        current,
        vacated=current.vacated or is_empty,
        entries=tuple(
            replace(entry, closing_since=now)
            if entry.device in closing and entry.standing is not Standing.OPEN and entry.closing_since is None
            else entry
            for entry in current.entries
        ),
    )


def restarted(publication: Publication, *, now: float) -> Publication:
    """After a reboot times are those of another clock."""
    return replace(publication, entries=tuple(_not_after(entry, now, whatever=True) for entry in publication.entries))


def _foreign_devices(view: GpuView) -> tuple[str, ...]:
    """Those that are no devices of this GPU, whatever says that they are."""
    entries = view.published.devices if view.published else frozenset()
    held = {holder.device for holder in view.prepared}
    named = view.found | view.allocated | view.close_approved | entries | held
    return tuple(sorted(device for device in named if names.slot_of_device(device) != view.gpu.slot))


def _without(view: GpuView, devices: Collection[str]) -> GpuView:
    published = view.published and replace(
        view.published, entries=tuple(entry for entry in view.published.entries if entry.device not in devices)
    )
    return replace(
        view,
        published=published,
        found=view.found.difference(devices),
        prepared=tuple(holder for holder in view.prepared if holder.device not in devices),
        allocated=view.allocated.difference(devices),
        close_approved=view.close_approved.difference(devices),
    )


def _holders(view: GpuView, answers: Answers) -> tuple[Holder, ...]:
    # A claim that has lost its device takes nothing, whatever is prepared.
    return tuple(holder for holder in view.prepared if not holder.admin and answers.get(holder, True))


def _slots_with_menu(views: Sequence[GpuView], taken_by: Iterable[Collection[Holder]], menus: int) -> set[int]:
    """The lowest idle ones, so that shares fill the GPUs from one end: the scheduler takes the first that fits. Those
    that somebody was allocated come last: a pod whose claim is not prepared for long must not keep the only menu."""
    idle: dict[str, list[tuple[bool, int]]] = {}
    for view, holders in zip(views, taken_by, strict=True):
        if not holders and not view.is_moving and whole_only(view.menu) != view.menu:
            idle.setdefault(view.group, []).append((bool(view.allocated), view.gpu.slot))
    return {slot for candidates in idle.values() for _, slot in sorted(candidates)[:menus]}


def _with_open_names(view: GpuView) -> GpuView:
    """Each device of the menu under the name by which claims can get it."""
    held = {holder.device for holder in view.prepared if not holder.admin}
    known = (view.published.devices if view.published else view.found | view.allocated) | held
    if view.is_moving or not (view.closed_names or any(map(names.revision_of_device, known))):
        return view
    by_name: dict[names.DeviceName | None, list[str]] = {}
    for device in sorted(known, key=lambda device: (device not in held, names.revision_of_device(device))):
        by_name.setdefault(names.read_device(device), []).append(device)
    menu: list[Option] = []
    added = 0
    for option in view.menu:
        there = by_name.get(names.read_device(option.device), ())
        device = _open_name(option.device, there, held, view.closed_names)
        added += device not in there
        # Without room in its slice it comes when a former name has gone.
        if device == option.device or device in there or len(known) + added <= DEVICES_PER_SLICE:
            menu.append(replace(option, device=device))
    return replace(view, menu=tuple(menu))


def _open_name(device: str, there: Sequence[str], held: Collection[str], closed: Sequence[str]) -> str:
    """`there`: its names that are published, best first. Clients of a shared device come to those who hold it."""
    for known in there:
        if known in held or not names.is_covered(known, closed):
            return known
    return next(
        name
        for revision in itertools.count()
        if not names.is_covered(name := names.at_revision(device, revision), closed)
    )


def _not_after(entry: Entry, now: float, *, whatever: bool = False) -> Entry:
    """An entry of which no time is in the future."""

    def bounded(moment: float | None) -> float | None:
        return moment if moment is None else now if whatever else min(moment, now)

    return replace(entry, unwanted_since=bounded(entry.unwanted_since), closing_since=bounded(entry.closing_since))


@dataclass(slots=True)
class _Planning:
    """The work on one GPU."""

    view: GpuView
    holders: tuple[Holder, ...]
    answers: Answers
    now: float
    timing: Timing
    confirm: tuple[Holder, ...] = ()
    look_again: float = math.inf

    def plan(self, *, full: bool) -> GpuPlan:
        before = self._before()
        moving = self.view.is_moving
        wanted = set() if moving else self._wanted(full=full)
        held = {holder.device for holder in self.holders}
        known = {entry.device: entry for entry in before.entries}
        entries: list[Entry] = []
        for device in self._in_order(wanted | held | known.keys()):
            entry = known.get(device, Entry(device=device, policy=self.view.policy))
            if device in wanted:
                entries.append(Entry(device=device, policy=self.view.policy))
            elif not self._may_go(closing := self._closing(entry), withheld=moving and before.withheld):
                entries.append(closing)
        publication = Publication(
            pool=before.pool if moving or not self.view.configured else self.view.pool,
            entries=tuple(entries),
            # Only with the operator's word everything that may be allocated is on the menu.
            complete=before.complete or self.view.configured,
            vacated=before.vacated and not entries,
            withheld=before.withheld and (moving or not self.view.configured),
        )
        return GpuPlan(publication=publication, confirm=self.confirm, look_again=self.look_again)

    def _before(self) -> Publication:
        """What may be published. Where that is not known, it is everything that is offered and more."""
        view = self.view
        known = view.published or self._unknown()
        entries = {entry.device: _not_after(entry, self.now) for entry in known.entries}
        if view.published is None or (view.configured and not known.complete):
            somehow = view.found | view.allocated | {option.device for option in view.menu}
            entries |= {device: Entry(device=device, policy=view.policy) for device in somehow if device not in entries}
        return replace(known, entries=tuple(entries.values()))

    def _unknown(self) -> Publication:
        is_new = not (self.view.configured or self.view.found_in or self.view.found or self.view.prepared)
        return Publication(pool=self.view.published_in, withheld=is_new)

    def _wanted(self, *, full: bool) -> set[str]:
        menu = self.view.menu
        if self.holders:
            return self._beside({holder.device for holder in self.holders})
        if full:
            return {option.device for option in menu}
        # Others come to those who will hold it.
        awaited = self._beside(self.view.allocated) if self.view.allocated else set()
        return {option.device for option in whole_only(menu)} | awaited

    def _beside(self, devices: Collection[str]) -> set[str]:
        """What can be had of the menu with these."""
        held = [of_device(self.view.gpu, device) for device in sorted(devices)]
        return {option.device for option in self.view.menu if self._fits_beside(held, option)}

    def _fits_beside(self, held: Sequence[Option], option: Option) -> bool:
        others = [other for other in held if other.device != option.device]
        return can_be_held_together(self.view.gpu, [*others, option])

    def _in_order(self, devices: Collection[str]) -> list[str]:
        """As on the menu, then what is not on it any more."""
        on_menu = [option.device for option in self.view.menu if option.device in devices]
        return on_menu + sorted(set(devices) - set(on_menu))

    def _closing(self, entry: Entry) -> Entry:
        """The entry of a device that should not be there."""
        offered = not self.view.is_moving and any(option.device == entry.device for option in self.view.menu)
        since = self.now if entry.unwanted_since is None else entry.unwanted_since
        if offered and entry.standing is Standing.OPEN and not self._is_over(since + self.timing.patience):
            return replace(entry, unwanted_since=since)
        in_use = entry.device in self.view.allocated or any(entry.device == holder.device for holder in self.holders)
        standing = Standing.DRAINING if in_use and not offered else Standing.CLOSING
        return replace(entry, unwanted_since=since, standing=standing)

    def _may_go(self, entry: Entry, *, withheld: bool) -> bool:
        if any(holder.device == entry.device for holder in self.holders):
            return False
        if withheld:
            # A new node is not to wait for what it never gave to anybody.
            return entry.device not in self.view.allocated
        if entry.closing_since is None:
            return False
        if entry.device in self.view.close_approved:
            return entry.device not in self.view.allocated
        in_the_way = self._holders_that_exclude(entry.device)
        if not in_the_way or not self._is_over(entry.closing_since + self.timing.taken):
            return False
        unanswered = tuple(holder for holder in in_the_way if holder not in self.answers)
        self.confirm += tuple(holder for holder in unanswered if holder not in self.confirm)
        return not unanswered

    def _holders_that_exclude(self, device: str) -> tuple[Holder, ...]:
        """As few as are enough. None: the device could be had beside all of them."""
        option = of_device(self.view.gpu, device)
        chosen: dict[str, Holder] = {}
        # Those that have answered first: one answer is enough for all that it decides.
        for holder in sorted(self.holders, key=lambda holder: (holder not in self.answers, holder.claim)):
            chosen.setdefault(holder.device, holder)
            alone = [of_device(self.view.gpu, holder.device), option]
            if not can_be_held_together(self.view.gpu, alone):
                return (holder,)
        together = [*(of_device(self.view.gpu, held) for held in chosen), option]
        return () if can_be_held_together(self.view.gpu, together) else tuple(chosen.values())

    def _is_over(self, moment: float) -> bool:
        if moment > self.now:
            self.look_again = min(self.look_again, moment)
        return moment <= self.now
