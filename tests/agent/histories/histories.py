"""Random histories: made from a seed, lived through, and made shorter when something in them must not be.

python -m agent.histories.histories --count 2000 --seed 7
"""

import argparse
import asyncio
import inspect
import random
import re
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final
from unittest import mock

import structlog.testing

from agent.histories import rules
from agent.histories.others import Others
from agent.histories.simulated import SimulatedNode
from gpusharing.agent.claims import containers
from nvidia.nodes import driver_of

LENGTH: Final = (6, 34)
_NUMBERS: Final = 60
_SHRINKING: Final = 60.0
# Of so many histories one has programs that really are clients of MPS, which take their time.
_REAL_CLIENTS: Final = 16
_NAMES: Final = re.compile(r"\S*[0-9]\S*")

# How often each kind of step comes. Of those in the second group, each history has only some.
_USUAL: Final = {
    "comes": 3, "comes_and_starts": 12, "prepares": 8, "unprepares": 4, "ends": 8, "agent_looks": 3, "time_passes": 4,
    "operator_speaks": 2,
}  # fmt: skip
_SOMETIMES: Final = {
    "is_deleted_by_force": 3, "is_allocated_anew": 3, "stranger_is_unprepared": 1, "agent_rescans": 4,
    "agent_is_killed": 3, "kubelet_wipes_slices": 1, "next_is_killed": 8, "next_fails": 6, "next_is_a_lie": 4,
    "operator_restricts": 6,
    "driver_fails": 6, "disk_is_full": 2, "mps_does_not_start": 2, "gpu_is_lost": 1, "all_heals": 3,
    "node_reboots": 2, "file_is_damaged": 2,
    "gpus_are_renumbered": 2, "power_is_cut": 2, "state_is_lost": 2,
    "others_set_time_slice": 2, "others_set_compute_mode": 2,
    "others_switch_mig": 1, "others_cut": 2, "others_destroy": 1, "others_kill_mps": 2,
}  # fmt: skip


@dataclass(frozen=True)
class Step:
    name: str
    numbers: tuple[int, ...]

    def __str__(self) -> str:
        return f'Step("{self.name}", {self.numbers})'


History = Sequence[Step]


@dataclass(frozen=True)
class Outcome:
    error: BaseException | None
    noted: list[str]


def random_history(seed: str) -> list[Step]:
    dice = random.Random(seed)  # noqa: S311
    chosen = {name: weight for name, weight in _SOMETIMES.items() if dice.random() < 0.3}
    weights = {**_USUAL, **chosen}
    names = dice.choices(list(weights), list(weights.values()), k=dice.randint(*LENGTH))
    start = [Step("agent_looks", ()), Step("operator_speaks", (0,))] if dice.random() < 0.9 else []
    return [*start, *(Step(name, _numbers(name, dice)) for name in names)]


def _numbers(name: str, dice: random.Random) -> tuple[int, ...]:
    return tuple(dice.randrange(_NUMBERS) for _ in range(len(inspect.signature(getattr(Others, name)).parameters) - 1))


class Lives:
    """One node for all histories."""

    def __init__(self, runner: asyncio.Runner, bed: SimulatedNode) -> None:
        self._runner = runner
        self._bed = bed

    def live(self, history: History, *, real_clients: bool = False) -> Outcome:
        world = Others(self._bed, real_clients=real_clients)
        with (
            world.clock.in_force(),
            world.trouble.present(self._bed.run),
            mock.patch.object(containers, "run_with", world.runs),
            structlog.testing.capture_logs(),
        ):
            error = self._runner.run(self._live(world, history))
        return Outcome(error, world.noted)

    async def _live(self, world: Others, history: History) -> BaseException | None:
        try:
            # Before anything can go wrong, so that each GPU has the slot that it is expected to have.
            await world.up()
            assert world.agent
            await world.agent.learn()
            for step in history:
                world.note(str(step))
                await getattr(world, step.name)(*step.numbers)
                rules.check(world)
            world.note("the end")
            await rules.finish(world)
        except Exception as error:  # noqa: BLE001 (whatever it is, the history is to be shortened)
            return error
        finally:
            for claim in world.claims.values():
                claim.end_container()
            await world.bury()
        return None


@contextmanager
def lives() -> Iterator[Lives]:
    with ExitStack() as stack:
        bed = SimulatedNode()
        stack.callback(bed.remove)
        stack.enter_context(driver_of(bed.sim))
        yield Lives(stack.enter_context(asyncio.Runner()), bed)


def shortened(
    lives: Lives, history: list[Step], outcome: Outcome, *, real_clients: bool = False
) -> tuple[list[Step], Outcome]:
    """A history without the steps that it does not take, and with small numbers."""
    deadline = time.monotonic() + _SHRINKING
    assert outcome.error
    kind, best = kind_of(outcome.error), history

    def try_(candidate: list[Step]) -> bool:
        nonlocal best, outcome
        if time.monotonic() > deadline:
            return False
        tried = lives.live(candidate, real_clients=real_clients)
        if tried.error is None or kind_of(tried.error) != kind:
            return False
        best, outcome = candidate, tried
        return True

    size = len(best) // 2
    while size:
        position = 0
        while position < len(best):
            if not try_(best[:position] + best[position + size :]):
                position += size
        size //= 2
    for position in range(len(best)):
        for index in range(len(best[position].numbers)):
            for smaller in range(min(best[position].numbers[index], 24)):
                numbers = list(best[position].numbers)
                numbers[index] = smaller
                changed = Step(best[position].name, tuple(numbers))
                if try_([*best[:position], changed, *best[position + 1 :]]):
                    break
    return best, outcome


def kind_of(error: BaseException) -> str:
    """What two errors of one cause have in common: the words without the names."""
    return f"{type(error).__name__}: {_NAMES.sub('', str(error).partition(':')[0])}"


def report(seed: int, number: int, history: History, outcome: Outcome) -> str:
    steps = ",\n    ".join(str(step) for step in history)
    happened = "\n".join(outcome.noted)
    trace = "".join(traceback.format_exception(outcome.error)[-12:]) if outcome.error else ""
    return f"history {number} of seed {seed}:\n[\n    {steps}\n]\n\n{happened}\n\n{trace}"


def search(count: int, seed: int, *, first: int = 0, shorten: bool = True) -> str | None:
    """Of so many histories, from this number on, the first in which something is that must not be."""
    with lives() as alive:
        for number in range(first, first + count):
            history = random_history(f"{seed}/{number}")
            real_clients = number % _REAL_CLIENTS == 0
            outcome = alive.live(history, real_clients=real_clients)
            if outcome.error:
                if shorten:
                    history, outcome = shortened(alive, history, outcome, real_clients=real_clients)
                return report(seed, number, history, outcome)
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    arguments = parser.parse_args()
    began = time.monotonic()
    found = search(arguments.count, arguments.seed)
    rate = arguments.count / (time.monotonic() - began)
    print(
        found or f"{arguments.count} histories of seed {arguments.seed}: nothing that must not be; {rate:.1f} a second"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
