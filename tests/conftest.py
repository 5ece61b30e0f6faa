"""How all tests are collected, and in which order they run."""

import gc
import signal
import time
from collections.abc import Generator, Iterator
from itertools import chain, zip_longest
from typing import Any

import pytest

from building.properties import load_profile
from harness.orphans import mark_processes, mark_programs_below, orphans

pytest_plugins = ["harness.fixtures", "agent.simulated_node"]

load_profile()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """What is collected stays to the end, so that nobody need look through it for garbage again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take long come first, so that at the end no worker is left with one of them alone; those that compute
    come in turns with those that mostly wait. Of these, those that need images come last, which are built meanwhile."""
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.location[0], []).append(item)
    kinds: dict[str, list[list[pytest.Item]]] = {"node": [], "slow": [], "image": [], "cluster": [], "": []}
    for file in files.values():
        marks = {mark.name for item in file for mark in item.iter_markers()}
        kinds[next(kind for kind in kinds if not kind or kind in marks)].append(file)
    computing = sorted(kinds["slow"] + kinds["image"], key=_needs_images)
    waiting = sorted(kinds["node"] + kinds["cluster"], key=_needs_images)
    in_turns = chain.from_iterable(zip_longest(computing, waiting, fillvalue=[]))
    items[:] = chain.from_iterable([*in_turns, *kinds[""]])


def _needs_images(file: list[pytest.Item]) -> bool:
    return any({"images", "build_images"} & set(getattr(item, "fixturenames", ())) for item in file)


def pytest_configure() -> None:
    mark_processes()
    # A shell's background jobs, and all that they start, begin life deaf to Ctrl-C: also programs that tests end by it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def programs_of_simulated_nodes(tmp_path_factory: pytest.TempPathFactory) -> None:
    mark_programs_below(tmp_path_factory.getbasetemp())


@pytest.fixture(autouse=True, scope="module")
def no_orphans() -> Iterator[None]:
    """What the tests of a file have started ends with them; a process that was killed takes a moment."""
    yield
    # What they left open is reported here, and not in whichever test comes next when it is collected.
    gc.collect()
    deadline = time.monotonic() + 10
    while left := orphans():
        assert time.monotonic() < deadline, left
        time.sleep(0.01)
