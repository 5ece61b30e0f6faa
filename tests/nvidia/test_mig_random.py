"""Agents that make and destroy MIG instances, are killed, meet others and reboots: what is there and what we say of it
stay one.

The model knows only places. Truth is what the simulated driver has, told by the simulation itself.
"""

import asyncio
import atexit
import ctypes
import functools
import json
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusharing import sim
from gpusharing.nvidia.errors import (
    HardwareError,
    InUseError,
    LeftoverError,
    MigDisabledError,
    NoRoomError,
)
from gpusharing.nvidia.facts import GpuInstance, MigMode, MigPlace, Span
from gpusharing.nvidia.hardware import Hardware
from gpusharing.sim import faults, store
from nvidia.nodes import driver_of, opened

T = TypeVar("T")

# One GPU of each family, and whether it keeps its MIG mode over a reboot.
FAMILIES: Final = {"A100-80GB": True, "H100-80GB": False, "RTX-PRO-6000": False}

CHANGES: Final = (
    "nvmlDeviceCreateGpuInstanceWithPlacement",
    "nvmlGpuInstanceCreateComputeInstance",
    "nvmlComputeInstanceDestroy",
    "nvmlGpuInstanceDestroy",
)

EVENTS: Final = ("created", "completed", "destroyed", "in use", "killed", "killed half way", "left over", "reboot")

_MORTAL: Final = Path(__file__).parent / "programs/mortal.py"


class Family:
    """A node with one GPU, and agents that can be killed on it. There is one for all sequences of a model, because it
    takes longer to make than a sequence."""

    def __init__(self, model: str) -> None:
        # In memory: a reboot writes and removes some hundred files.
        self.node = sim.create(Path(tempfile.mkdtemp(dir="/dev/shm")) / "node", model)
        self.gpu = self.node.gpus()[0].uuid
        self.keeps_mode = FAMILIES[model]
        asyncio.run(self._begin())
        with store.locked(self.node.state) as state:
            # Behind the only GPU nothing is ever written, and that is most of the state.
            used = ctypes.sizeof(state) - ctypes.sizeof(state.gpus) + ctypes.sizeof(state.gpus[0])
            self._at_begin = ctypes.string_at(ctypes.addressof(state), used)
        self._mortals = subprocess.Popen(
            [sys.executable, _MORTAL, self.node.directory], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        atexit.register(self._end)

    async def _begin(self) -> None:
        """MIG mode is on, and nothing is there."""
        async with opened(self.node) as hardware:
            await hardware.set_mig_mode(self.gpu, enabled=True)
            mig = (await hardware.inventory()).boards[0].mig
        assert mig is not None
        self.profiles = {profile.id: profile for profile in mig.profiles}
        self.places = [MigPlace(profile.id, start) for profile in mig.profiles for start in profile.starts]

    def begin_again(self) -> None:
        with store.locked(self.node.state) as state:
            ctypes.memmove(ctypes.addressof(state), self._at_begin, len(self._at_begin))

    def live(self, **life: Any) -> int:
        """The life of another agent; returns its exit code."""
        assert self._mortals.stdin is not None
        assert self._mortals.stdout is not None
        self._mortals.stdin.write(json.dumps(life) + "\n")
        self._mortals.stdin.flush()
        return int(self._mortals.stdout.readline())

    def _end(self) -> None:
        self._mortals.communicate()
        shutil.rmtree(self.node.directory.parent)


@functools.cache
def family_of(model: str) -> Family:
    return Family(model)


class Agents:
    """One agent after the other on a node with one GPU."""

    def __init__(self, family: Family, runner: asyncio.Runner) -> None:
        family.begin_again()
        self.family = family
        self.runner = runner
        self.node, self.gpu, self.profiles, self.places = family.node, family.gpu, family.profiles, family.places
        self.start()
        self.mode = True
        # Whether it has its second half.
        self.there: dict[MigPlace, bool] = {}
        self.users: dict[MigPlace, int] = {}
        self.happened: Counter[str] = Counter()

    def end(self) -> None:
        self.do(self.hardware.close())

    def start(self) -> None:
        self.hardware = Hardware(self.node.directory, sysfs_root=self.node.sys)
        self.do(self.hardware.open())

    def restart(self) -> None:
        self.do(self.hardware.close())
        self.start()

    def do(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(coroutine)

    def failure(self, coroutine: Coroutine[Any, Any, Any]) -> HardwareError | None:
        try:
            self.do(coroutine)
        except HardwareError as error:
            return error
        return None

    def place(self, number: int) -> MigPlace:
        return self.places[number % len(self.places)]

    def truth(self) -> dict[MigPlace, bool]:
        ids = {profile.name: profile.id for profile in self.profiles.values()}
        return {
            MigPlace(ids[instance.profile], instance.start): bool(instance.compute_instances)
            for instance in self.node.gpus()[0].gpu_instances
        }

    def has_room(self, place: MigPlace) -> bool:
        wanted = self.profiles[place.profile_id]
        return not any(
            Span(place.start, wanted.size).overlaps(Span(other.start, self.profiles[other.profile_id].size))
            or media_exclude(wanted.name, self.profiles[other.profile_id].name)
            for other in self.there
        )

    @contextmanager
    def may_change_only(self, place: MigPlace) -> Iterator[None]:
        """Afterwards the model takes over what has really become of that place."""
        yield
        truth = self.truth()
        assert without(truth, place) == without(self.there, place)
        self.there = truth

    def switch(self, enabled: bool) -> None:
        if self.mode != enabled and (self.there or self.users):
            with pytest.raises(InUseError):
                self.do(self.hardware.set_mig_mode(self.gpu, enabled=enabled))
            return
        change = self.do(self.hardware.set_mig_mode(self.gpu, enabled=enabled))
        assert change.found == MigMode(self.mode, self.mode)
        assert change.now == MigMode(enabled, enabled)
        self.mode = enabled

    def create(self, number: int) -> None:
        place = self.place(number)
        if not self.mode:
            with pytest.raises(MigDisabledError):
                self.do(self.hardware.create_mig_instance(self.gpu, place))
        elif place not in self.there and not self.has_room(place):
            with pytest.raises(NoRoomError):
                self.do(self.hardware.create_mig_instance(self.gpu, place))
        else:
            change = self.do(self.hardware.create_mig_instance(self.gpu, place))
            assert (change.found is not None) is (place in self.there)
            assert change.changed is not self.there.get(place, False)
            assert change.now is not None
            assert change.now.uuid
            self.happened["created"] += place not in self.there
            self.happened["completed"] += self.there.get(place) is False
            self.there[place] = True

    def destroy(self, number: int) -> None:
        self.destroy_at(self.place(number))

    def destroy_one_that_is_there(self, number: int) -> None:
        if self.there:
            self.destroy_at(list(self.there)[number % len(self.there)])

    def destroy_at(self, place: MigPlace) -> None:
        if place in self.users:
            with pytest.raises(InUseError, match=str(self.users[place])):
                self.do(self.hardware.destroy_mig_instance(self.gpu, place))
            self.happened["in use"] += 1
            return
        change = self.do(self.hardware.destroy_mig_instance(self.gpu, place))
        assert change.changed is (place in self.there)
        assert change.now is None
        self.happened["destroyed"] += place in self.there
        self.there.pop(place, None)

    def be_killed(self, number: int, survived: int, dies_before: bool, creating: bool) -> None:
        """Another agent is, that begins where this one stands."""
        place = self.place_for(number, creating=creating)
        life = {"place": (place.profile_id, place.start), "creating": creating}
        with self.may_change_only(place):
            code = self.family.live(**life, survived=survived, dies_before=dies_before)
        assert code in {0, -signal.SIGKILL}
        self.happened["killed"] += code != 0
        self.happened["killed half way"] += self.there.get(place) is False

    def be_failed(self, number: int, creating: bool, call: str, code: int | None) -> None:
        """By a driver that refuses, or lies (None). What is left half made is named, and nothing else is."""
        if not self.mode:
            return
        place = self.place_for(number, creating=creating)
        self.node.inject(faults.CallLies(call) if code is None else faults.CallFails(call, code))
        operation = self.hardware.create_mig_instance if creating else self.hardware.destroy_mig_instance
        before = self.there.get(place)
        with self.may_change_only(place):
            failure = self.failure(operation(self.gpu, place))
            now = self.truth().get(place)
            self.node.clear()
            if failure is None:
                assert now is (True if creating else None)
            elif isinstance(failure, LeftoverError):
                assert failure.place == place
                assert failure.left is None or failure.left.is_remnant is (now is False)
                self.happened["left over"] += 1
            else:
                assert now == before

    def place_for(self, number: int, *, creating: bool) -> MigPlace:
        """What is to be destroyed is mostly there."""
        return self.place(number) if creating or not self.there else list(self.there)[number % len(self.there)]

    def somebody_else_begins(self, number: int) -> None:
        place = self.place(number)
        if self.mode and place not in self.there and self.has_room(place):
            self.node.inject(faults.LoneGpuInstance(self.gpu, self.profiles[place.profile_id].name, place.start))
            self.there[place] = False

    def program_comes_or_goes(self, number: int) -> None:
        whole = sorted((place for place, filled in self.there.items() if filled), key=str)
        if not whole:
            return
        place = whole[number % len(whole)]
        device = next(one.uuid for one in self.seen() if one.place == place)
        assert device is not None
        if place in self.users:
            self.node.stop_process(device, self.users.pop(place))
        else:
            self.users[place] = 1000 + number + 201 * self.places.index(place)
            self.node.start_process(device, self.users[place], 1)

    def reboot(self, goes_on: bool) -> None:
        self.node.reboot()
        self.there, self.users = {}, {}
        self.mode = self.mode and self.family.keeps_mode
        self.happened["reboot"] += 1
        self.restart()
        if goes_on:
            self.switch(enabled=True)

    def seen(self) -> tuple[GpuInstance, ...]:
        return self.do(self.hardware.inventory()).gpus[0].instances

    def truth_and_view_and_model_agree(self) -> None:
        (state,) = self.do(self.hardware.inventory()).gpus
        (real,) = self.node.gpus()
        assert (state.unknown, state.mig_mode) == ((), MigMode(self.mode, self.mode))
        assert {one.place: not one.is_remnant for one in state.instances} == self.there
        devices = {(one.id, *(part.uuid for part in one.compute_instances)) for one in state.instances}
        assert devices == {(one.id, *(part.uuid for part in one.compute_instances)) for one in real.gpu_instances}
        assert sorted(process.pid for process in state.processes) == sorted(self.users.values())


def without(places: dict[MigPlace, bool], place: MigPlace) -> dict[MigPlace, bool]:
    return {other: filled for other, filled in places.items() if other != place}


def media_exclude(one: str, other: str) -> bool:
    """There is one set of engines for media extensions on a GPU; whoever has all of them leaves none to others."""
    kinds = {media(one), media(other)}
    return kinds == {"+me"} or ("+me.all" in kinds and "-me" not in kinds)


def media(profile: str) -> str:
    return next((kind for kind in ("+me.all", "+me", "-me") if profile.endswith(kind)), "")


@dataclass(frozen=True)
class Step:
    name: str
    arguments: dict[str, Any]

    def take(self, agents: Agents) -> None:
        getattr(agents, self.name)(**self.arguments)


def step(method: Callable[..., None], **arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[Step]:
    return st.fixed_dictionaries(arguments).map(functools.partial(Step, method.__name__))


_NUMBERS: Final = st.integers(0, 200)
_CREATE: Final = step(Agents.create, number=_NUMBERS)
_DESTROY: Final = step(Agents.destroy_one_that_is_there, number=_NUMBERS)
_KILLED: Final = step(
    Agents.be_killed,
    number=_NUMBERS,
    survived=st.integers(0, 1),
    dies_before=st.booleans(),
    creating=st.booleans(),
)
_FAILED: Final = step(
    Agents.be_failed,
    number=_NUMBERS,
    creating=st.booleans(),
    call=st.sampled_from(CHANGES),
    code=st.sampled_from([None, 4, 19, 23, 999]),
)
# What is worth more comes more often.
_SEQUENCES: Final = st.lists(
    st.one_of(
        *[_CREATE] * 4,
        *[_DESTROY] * 2,
        *[_KILLED] * 2,
        *[_FAILED] * 2,
        step(Agents.destroy, number=_NUMBERS),
        step(Agents.somebody_else_begins, number=_NUMBERS),
        *[step(Agents.program_comes_or_goes, number=_NUMBERS)] * 2,
        step(Agents.reboot, goes_on=st.sampled_from([True, True, False])),
        step(Agents.switch, enabled=st.booleans()),
    ),
    min_size=1,
    max_size=14,
)


def check_sequences(model: str, examples: int) -> Counter[str]:
    """Says what happened in them."""
    family = family_of(model)
    happened: Counter[str] = Counter()

    @settings(max_examples=max(examples, settings().max_examples))
    @given(_SEQUENCES)
    def sequences_hold(steps: list[Step]) -> None:
        agents = Agents(family, runner)
        try:
            for one in steps:
                one.take(agents)
                agents.truth_and_view_and_model_agree()
        finally:
            agents.end()
        happened.update(agents.happened)
        happened["sequence"] += 1

    with driver_of(family.node), asyncio.Runner() as runner:
        sequences_hold()
    return happened


@pytest.mark.parametrize("model", FAMILIES)
def test_some_sequences(model: str) -> None:
    check_sequences(model, 50)


@pytest.mark.slow
@pytest.mark.parametrize("model", FAMILIES)
def test_a_thousand_sequences(model: str) -> None:
    happened = check_sequences(model, 1000)
    # A property of nothing would hold, too.
    assert happened["sequence"] >= 1000
    assert all(happened[what] for what in EVENTS), happened
