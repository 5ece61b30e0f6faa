"""One GPU, its claims, scheduler, API, kubelet and agent: every order of events, breadth first.

Who it is for may change as well, and with that the pool that it is in. A device is told with its pool: n1/gpu-0.

The agent is the real function. The scheduler knows allocations at once and slices late (reference: narrowing.md), pods
are deleted by force at any moment, writes fail or succeed without an answer, the kubelet wipes slices, the agent loses
its disk. Only time is abstract: the agent may find a wait over whenever the environment allows that it is.
"""

import math
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NamedTuple

from core.narrowing.agents import NOW, TIMING, Agent
from gpusharing.api import names
from gpusharing.api.names import Sharing
from gpusharing.core.devices.counters import fit, supply
from gpusharing.core.devices.gpu import Gpu
from gpusharing.core.devices.offered import AS_FOUND, OfferedGpu
from gpusharing.core.devices.options import Option
from gpusharing.core.publishing.entries import Entry, Standing
from gpusharing.core.publishing.menu import Menu, menu
from gpusharing.core.publishing.narrowing import GpuView, Holder, Publication

POLICY: Final = "p"
NODE: Final = "n1"

NEW, ON_ITS_WAY, ALLOCATED, GONE = range(4)


class Claim(NamedTuple):
    phase: int = NEW
    device: str | None = None
    alive: bool = True
    """Its pod is."""
    prepared: str | None = None
    """The device that the node prepared for it, whatever has become of the claim."""


class Noted(NamedTuple):
    """An entry on the agent's disk, with times as what they come to."""

    device: str
    closing: bool = False
    in_api: bool = False
    """The API has had the mark, and had it ever since."""


class Disk(NamedTuple):
    """What the agent knows of what it publishes."""

    pool: str
    entries: tuple[Noted, ...]
    vacated: bool = False
    complete: bool = True
    withheld: bool = False


Slices = tuple[tuple[str, tuple[tuple[str, bool], ...]], ...]
"""By pool: devices, and whether they are closing. A slice that is not there has no place here."""


class State(NamedTuple):
    claims: tuple[Claim, ...]
    disk: Disk | None
    api: Slices
    seen: Slices
    """By the scheduler."""
    pending: tuple[Slices, ...]
    """On its way to the scheduler."""
    losses: int
    """So often the disk may still be lost, or the slice be wiped."""
    policy: int = 0
    """Which of the setting's offers are wanted now; before the first of them the operator has not spoken."""


Step = tuple[str, State]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Who wants what of a GPU that is offered how."""

    offered: OfferedGpu
    later: tuple[OfferedGpu, ...] = ()
    """How it is offered when the policy has changed, at any moment."""
    claims: tuple[str, ...]
    """The device that each wants, or the start of its name and `*`; after `admin:` for one that only looks. Sorted."""
    shares: int = 2
    force: bool = True
    """Whether pods are deleted by force."""
    reused: bool = False
    """Whether a claim outlives its pod and is allocated again."""
    silent: bool = False
    """Whether the operator speaks only some time after the agent has begun."""
    losses: int = 1
    late: int = 2
    """So many slices may be on their way."""

    def __post_init__(self) -> None:
        if list(self.claims) != sorted(self.claims):
            raise ValueError("claims that want the same can only stand for each other where they are in order")

    @cached_property
    def gpu(self) -> Gpu:
        return self.offered.gpu

    @cached_property
    def menus(self) -> tuple[Menu, ...]:
        return tuple(menu(offered) for offered in (self.offered, *self.later))

    @cached_property
    def pools(self) -> tuple[str, ...]:
        """Where it belongs while it is offered so."""
        return tuple(
            names.pool(NODE, restricted_to=POLICY if offered.restricted else None)
            for offered in (self.offered, *self.later)
        )

    @cached_property
    def as_found(self) -> Menu:
        return menu(replace(self.offered, offers=AS_FOUND, policy=None))

    @cached_property
    def options(self) -> dict[str, Option]:
        return {option.device: option for menu_ in (*self.menus, self.as_found) for option in menu_}

    @cached_property
    def supply(self) -> dict[str, int]:
        return dict(supply(self.gpu))

    def is_admin(self, claim: int) -> bool:
        return self.claims[claim].startswith("admin:")

    def devices(self, claim: int) -> list[str]:
        """In whichever pool: whose claims it is to have is another's concern."""
        prefix = self.claims[claim].removeprefix("admin:")
        return [
            f"{pool}/{device}"
            for pool in dict.fromkeys((NODE, *self.pools))
            for device in self.options
            if device == prefix or (prefix[-1] == "*" and device.startswith(prefix[:-1]))
        ]

    def is_shared(self, device: str) -> bool:
        return self.options[without_pool(device)].sharing in {Sharing.TIME_SLICING, Sharing.MPS}


def pool_of(device: str) -> str:
    return device.rpartition("/")[0]


def without_pool(device: str) -> str:
    return device.rpartition("/")[2]


@dataclass(frozen=True)
class Clock:
    """What it is time for when the agent looks."""

    patient: bool
    """Whether nothing begins to close yet."""
    waited: Mapping[str, float]
    """For how long the API has had the mark of a closing device."""


@dataclass(frozen=True)
class Finding:
    states: int
    way: tuple[str, ...] | None
    """From the beginning to two ways or two pools on one GPU, or to a share too many. None: there is no such way."""
    published: frozenset[frozenset[str]] = frozenset()
    """All sets of devices that were ever in the API."""


def explore(setting: Setting, agent: Agent, *, at_most: int = 2_000_000) -> Finding:
    world = _World(setting, agent)
    start = State(tuple(Claim() for _ in setting.claims), None, (), (), (), setting.losses, -setting.silent)
    came_from: dict[State, Step | None] = {start: None}
    queue = deque([start])
    while queue:
        state = queue.popleft()
        if world.is_wrong(state):
            return Finding(len(came_from), _way(came_from, state))
        for event, next_state in world.steps(state):
            following = world.alike(next_state)
            if following not in came_from:
                came_from[following] = (event, state)
                queue.append(following)
        if len(came_from) > at_most:
            raise AssertionError(f"more than {at_most} states: a smaller setting is needed")
    contents = {state.api for state in came_from if state.api}
    published = frozenset(frozenset(_devices(content)) for content in contents)
    return Finding(len(came_from), None, published)


def _way(came_from: dict[State, Step | None], state: State) -> tuple[str, ...]:
    events = []
    while step := came_from[state]:
        event, state = step
        events.append(event)
    return tuple(reversed(events))


class _World:
    def __init__(self, setting: Setting, agent: Agent) -> None:
        self.setting = setting
        self.agent = agent
        self.rounds: dict[tuple[object, ...], tuple[Disk | None, ...]] = {}
        self.fitting: dict[tuple[str, ...], bool] = {}
        # Many states have the same claims.
        self.clashing: dict[tuple[Claim, ...], bool] = {}
        self.in_order: dict[tuple[Claim, ...], tuple[Claim, ...]] = {}

    # ------------------------------------------------------------------------------------------ what must not be

    def is_wrong(self, state: State) -> bool:
        if state.claims not in self.clashing:
            self.clashing[state.claims] = self._clash(self._held(state.claims))
        return self.clashing[state.claims] or sum(bool(devices) for _, devices in state.api) > 1

    def _clash(self, held: list[str]) -> bool:
        if len({pool_of(device) for device in held}) > 1:
            return True
        for device in set(held):
            if held.count(device) > (self.setting.shares if self.setting.is_shared(device) else 1):
                return True
        return not self._fit(held)

    def _held(self, claims: tuple[Claim, ...]) -> list[str]:
        return [
            claim.device
            for index, claim in enumerate(claims)
            if claim.device and claim.phase in {ON_ITS_WAY, ALLOCATED} and not self.setting.is_admin(index)
        ]

    def _fit(self, devices: list[str]) -> bool:
        key = tuple(sorted({without_pool(device) for device in devices}))
        if key not in self.fitting:
            self.fitting[key] = fit((self.setting.options[device].draw for device in key), self.setting.supply)
        return self.fitting[key]

    # ------------------------------------------------------------------------------------------ what can happen

    def alike(self, state: State) -> State:
        """Claims that want the same can stand for each other."""
        claims = state.claims
        if claims not in self.in_order:
            order = sorted(range(len(claims)), key=lambda index: (self.setting.claims[index], _rank(claims[index])))
            self.in_order[claims] = tuple(claims[index] for index in order)
        return state if self.in_order[claims] == claims else state._replace(claims=self.in_order[claims])

    def steps(self, state: State) -> Iterator[Step]:
        for index, wants in enumerate(self.setting.claims):
            for event, following in (*self._scheduler(state, index), *self._pod(state, index)):
                yield f"{wants} {event}", following
        if state.pending:
            yield "the scheduler sees a slice", state._replace(seen=state.pending[0], pending=state.pending[1:])
        yield from self._writes(state)
        for disk in self._rounds(state):
            if disk != state.disk:
                yield f"agent: {_told(disk)}", state._replace(disk=disk)
        if state.policy + 1 < len(self.setting.menus):
            yield "the policy changes", state._replace(policy=state.policy + 1)
        if state.losses:
            if state.disk is not None:
                yield "the agent loses its disk", state._replace(disk=None, losses=state.losses - 1)
            if state.api and len(state.pending) < self.setting.late:
                wiped = state._replace(api=(), pending=(*state.pending, ()), losses=state.losses - 1)
                yield "the kubelet wipes the slices", wiped

    def _scheduler(self, state: State, index: int) -> Iterator[Step]:
        claim = state.claims[index]
        if claim.phase == NEW and claim.alive and state.seen:
            for device in self.setting.devices(index):
                if self._can_allocate(state, device, admin=self.setting.is_admin(index)):
                    new = claim._replace(phase=ON_ITS_WAY, device=device)
                    yield f"gets {device}", _with(state, index, new)
        if claim.phase == ON_ITS_WAY:
            yield "is written", _with(state, index, claim._replace(phase=ALLOCATED))
            failed = claim._replace(phase=NEW if claim.alive else GONE, device=None)
            yield "cannot be written", _with(state, index, failed)

    def _can_allocate(self, state: State, device: str, *, admin: bool) -> bool:
        """As kube-scheduler 1.37 does, on the slice that it has seen and the allocations that there are."""
        shown = dict(dict(state.seen).get(pool_of(device), ()))
        if shown.get(without_pool(device), True):
            return False
        # Of other pools it knows, but they draw on counters of their own.
        held = [other for other in self._held(state.claims) if pool_of(other) == pool_of(device)]
        if admin:
            return True
        if held.count(device) >= (self.setting.shares if self.setting.is_shared(device) else 1):
            return False
        if device in held or self._fit(list(shown)):
            # A shared device in use is not counted again; and where everything fits there are no counters.
            return True
        return self._fit([*(other for other in held if without_pool(other) in shown), device])

    def _pod(self, state: State, index: int) -> Iterator[Step]:
        claim = state.claims[index]
        if claim.phase == ALLOCATED and claim.alive and claim.prepared is None and self._may_prepare(state, index):
            yield "is prepared", _with(state, index, claim._replace(prepared=claim.device))
        if claim.phase == ALLOCATED and claim.alive and claim.prepared is not None:
            yield "ends", _with(state, index, claim._replace(alive=False, prepared=None))
        if claim.phase == ALLOCATED and claim.alive and self.setting.force:
            yield "is deleted by force", _with(state, index, claim._replace(alive=False))
        if claim.phase == ALLOCATED and not claim.alive:
            gone = claim._replace(phase=GONE, device=None)
            yield "is deallocated", _with(state, index, gone)
            if self.setting.reused:
                again = claim._replace(phase=NEW, device=None, alive=True)
                yield "is deallocated and used by another pod", _with(state, index, again)
        # Also while the claim lives on with another pod: the kubelet works through what ended late.
        if claim.prepared is not None and (
            not claim.alive or claim.prepared != claim.device or claim.phase != ALLOCATED
        ):
            yield "is unprepared", _with(state, index, claim._replace(prepared=None))

    def _may_prepare(self, state: State, index: int) -> bool:
        """Prepare refuses what does not go with what is prepared, and what is in another pool by now."""
        device = state.claims[index].device
        prepared = [
            claim.prepared
            for other, claim in enumerate(state.claims)
            if claim.prepared and not self.setting.is_admin(other)
        ]
        if device is None or (state.disk is not None and pool_of(device) != state.disk.pool):
            return False
        if self.setting.is_admin(index):
            return True
        if device in prepared and not self.setting.is_shared(device):
            return False
        return self._fit([*prepared, device])

    # ---------------------------------------------------------------------------------------------- the agent

    def _writes(self, state: State) -> Iterator[Step]:
        """One slice after the other, in any order; when all are there, the agent may or may not hear of it."""
        disk = state.disk
        if disk is None:
            return
        # What waits for the operator's word has a taint as well.
        wanted = {disk.pool: tuple((entry.device, entry.closing or disk.withheld) for entry in disk.entries)}
        answered = disk._replace(
            entries=tuple(entry._replace(in_api=entry.closing) for entry in disk.entries),
            vacated=disk.vacated or not disk.entries,
        )
        there = dict(state.api)
        if wanted == there:
            if answered != disk:
                yield "the agent sees its slice in the API", state._replace(disk=answered)
            return
        if len(state.pending) >= self.setting.late:
            return
        for pool in sorted(wanted.keys() | there.keys()):
            if wanted.get(pool) == there.get(pool):
                continue
            now_there = {
                name: content for name, content in {**there, pool: wanted.get(pool)}.items() if content is not None
            }
            api = tuple(sorted(now_there.items()))
            stored = state._replace(api=api, pending=(*state.pending, api))
            if now_there == wanted:
                yield f"slice of {pool} written", stored._replace(disk=answered)
            yield f"slice of {pool} written, answer lost", stored

    def _rounds(self, state: State) -> tuple[Disk | None, ...]:
        """What the agent may make of it, depending on whose turn it is to have the menu and what it is time for."""
        prepared = tuple(
            (index, claim.prepared, claim.phase == ALLOCATED and claim.device == claim.prepared)
            for index, claim in enumerate(state.claims)
            if claim.prepared
        )
        known = tuple(_devices(state.api)) if state.disk is None else ()
        noted = state.disk.entries if state.disk else ()
        closing = frozenset(f"{state.disk.pool}/{entry.device}" for entry in noted if state.disk and entry.in_api)
        unseen = closing & self._unseen(state)
        on_its_way = closing & self._in_phase(state, ON_ITS_WAY)
        held = frozenset(map(without_pool, self._in_phase(state, ALLOCATED)))
        key = (state.policy, state.disk, prepared, known, unseen, on_its_way, held)
        if key not in self.rounds:
            clocks = [
                Clock(patient=True, waited={}),
                Clock(patient=False, waited={}),
                Clock(patient=False, waited=dict.fromkeys(closing - unseen, TIMING.taken)),
                # What was on its way to a device when it began to close has arrived by then.
                Clock(patient=False, waited=dict.fromkeys(closing - unseen - on_its_way, TIMING.idle)),
            ]
            truths = {
                Holder(str(index), without_pool(device), admin=self.setting.is_admin(index)): truth
                for index, device, truth in prepared
            }
            view = GpuView(
                gpu=self.setting.gpu,
                group="g",
                menu=self.setting.menus[state.policy] if state.policy >= 0 else self.setting.as_found,
                policy=POLICY,
                pool=self.setting.pools[state.policy] if state.policy >= 0 else NODE,
                configured=state.policy >= 0,
                published=None,
                found=frozenset(map(without_pool, known)),
                found_in=next((pool_of(device) for device in (*known, *(one for _, one, _ in prepared))), None),
                prepared=tuple(truths),
                close_approved=frozenset(self.setting.options) - held,
            )
            found = {
                self._round(replace(view, published=_publication(state.disk, clock)), truths, clock, menus)
                for menus in (0, 1)
                for clock in clocks
            }
            self.rounds[key] = tuple(found)
        return self.rounds[key]

    def _in_phase(self, state: State, phase: int) -> frozenset[str]:
        return frozenset(
            claim.device
            for index, claim in enumerate(state.claims)
            if claim.device and claim.phase == phase and not self.setting.is_admin(index)
        )

    def _unseen(self, state: State) -> frozenset[str]:
        """Devices whose closing the scheduler has not seen yet: the wait cannot be over."""
        return frozenset(
            f"{pool}/{device}"
            for slices in (state.seen, *state.pending)
            for pool, devices in slices
            for device, closing in devices
            if not closing
        )

    def _round(self, view: GpuView, truths: Mapping[Holder, bool], clock: Clock, menus: int) -> Disk:
        answers: dict[Holder, bool] = {}
        timing = replace(TIMING, patience=math.inf if clock.patient else 0)
        plan = self.agent(view, menus, timing, answers)
        while plan.confirm:
            answers |= {holder: truths[holder] for holder in plan.confirm}
            plan = self.agent(view, menus, timing, answers)
        publication = plan.publication
        return Disk(
            publication.pool,
            tuple(_noted(entry) for entry in publication.entries),
            vacated=publication.vacated,
            complete=publication.complete,
            withheld=publication.withheld,
        )


def _devices(slices: Slices) -> list[str]:
    return [f"{pool}/{device}" for pool, devices in slices for device, _ in devices]


def _rank(claim: Claim) -> tuple[int, str, bool, str]:
    return claim.phase, claim.device or "", claim.alive, claim.prepared or ""


def _with(state: State, index: int, claim: Claim) -> State:
    return state._replace(claims=(*state.claims[:index], claim, *state.claims[index + 1 :]))


def _publication(disk: Disk | None, clock: Clock) -> Publication | None:
    if disk is None:
        return None
    entries = tuple(_entry(noted, disk.pool, clock) for noted in disk.entries)
    return Publication(
        pool=disk.pool, complete=disk.complete, entries=entries, vacated=disk.vacated, withheld=disk.withheld
    )


def _entry(noted: Noted, pool: str, clock: Clock) -> Entry:
    return Entry(
        device=noted.device,
        policy=POLICY,
        standing=Standing.CLOSING if noted.closing else Standing.OPEN,
        closing_since=NOW - clock.waited.get(f"{pool}/{noted.device}", 0.0) if noted.in_api else None,
    )


def _noted(entry: Entry) -> Noted:
    return Noted(
        device=entry.device,
        closing=entry.standing is not Standing.OPEN,
        in_api=entry.closing_since is not None,
    )


def _told(disk: Disk | None) -> str:
    if disk is None:
        return ""
    entries = ", ".join(f"{entry.device} closing" if entry.closing else entry.device for entry in disk.entries)
    return f"in {disk.pool} {entries or 'nothing'}{', which the API has' if disk.vacated else ''}"
