"""When the operator takes the guards of tenants to hold: API servers are played."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from building.guards import bound, installed
from gpusharing.controller import dry_runs, seen_tenants
from gpusharing.controller.seen_tenants import SeenTenants
from gpusharing.controller.watching.store import Store
from gpusharing.core.cluster.guards import literals
from gpusharing.core.cluster.guards.upkeep import REQUIRED
from gpusharing.core.state.seen_entries import Entry, SeenEntries
from gpusharing.kube.kinds import ADMISSION_BINDINGS, ADMISSION_POLICIES
from harness.eventually import eventually

SEARCH = {"search": '[["In", "team=search"]]'}
OTHER = {"other": '[["In", "team=other"]]'}


class DryRuns:
    """In the place of those that ask."""

    def __init__(self) -> None:
        self.revision = 0
        """By which all servers go."""
        self.looks = 0

    async def all_refuse(self, _guard: str, revision: int, **_: object) -> bool:
        async def check() -> None:
            assert self.revision >= revision

        self.looks += 1
        await eventually(check)
        return True

    async def one_admits(self, _guard: str, revision: int) -> bool:
        self.looks += 1
        return self.revision < revision


class Bed:
    def __init__(self) -> None:
        self.servers = DryRuns()
        self.seen: SeenEntries = {}
        self.told = 0
        self.store = Store((ADMISSION_POLICIES, ADMISSION_BINDINGS), on_change=lambda *_, **__: None)
        self.tenants = SeenTenants(self.store, self.servers, on_seen=self._tell)  # type: ignore[arg-type]
        self._version = 10
        for name in REQUIRED:
            self.bind(name)

    def _tell(self, seen: SeenEntries) -> None:
        self.seen = seen
        self.told += 1

    def bind(self, name: str) -> None:
        self._version += 1
        binding = bound()[name]
        metadata = dataclasses.replace(binding.metadata, resource_version=str(self._version))
        self.store.apply_named(ADMISSION_BINDINGS, name, dataclasses.replace(binding, metadata=metadata))
        self.tenants.look()

    def unbind(self, name: str) -> None:
        self.store.apply_named(ADMISSION_BINDINGS, name, None)
        self.tenants.look()

    def write(self, revision: int, tenants: dict[str, str]) -> None:
        """All guards."""
        self._version += 1
        for name in REQUIRED:
            guard = installed()[name]
            texts = {"tenants": literals.render(tenants), "revision": f"'{revision}'"}
            variables = [
                {**one, "expression": texts.get(one["name"], one["expression"])} for one in guard.spec["variables"]
            ]
            metadata = dataclasses.replace(guard.metadata, resource_version=str(self._version))
            spec = guard.spec | {"variables": variables}
            self.store.apply_named(ADMISSION_POLICIES, name, dataclasses.replace(guard, metadata=metadata, spec=spec))
        self.tenants.look()

    async def sees(self, tenants: dict[str, str], *guards: str) -> None:
        entries = {Entry("tenants", name, literal) for name, literal in tenants.items()}

        async def check() -> None:
            assert {name: self.seen.get(name, frozenset()) for name in guards or REQUIRED} == dict.fromkeys(
                guards or REQUIRED, entries
            )

        await eventually(check)


@asynccontextmanager
async def looking() -> AsyncIterator[Bed]:
    bed = Bed()
    task = asyncio.create_task(bed.tenants.run())
    try:
        yield bed
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen_tenants, "_BETWEEN", 0.01)


async def test_what_was_written_counts_when_all_servers_go_by_it() -> None:
    async with looking() as bed:
        bed.write(3, SEARCH)
        await asyncio.sleep(0.1)
        assert bed.told == 0
        bed.servers.revision = 3
        await bed.sees(SEARCH)
        bed.write(5, SEARCH | OTHER)
        # What was seen stays seen while somebody else comes.
        await asyncio.sleep(0.1)
        await bed.sees(SEARCH)
        bed.servers.revision = 5
        await bed.sees(SEARCH | OTHER)


async def test_what_is_not_there_any_more_is_forgotten_at_once() -> None:
    async with looking() as bed:
        bed.servers.revision = 3
        bed.write(3, SEARCH)
        await bed.sees(SEARCH)
        bed.write(5, {"search": "[]"})
        assert set(bed.seen.values()) == {frozenset()}
        bed.servers.revision = 9
        await bed.sees({"search": "[]"})


async def test_a_guard_that_nothing_binds_has_to_be_seen_again() -> None:
    name = REQUIRED[0]
    async with looking() as bed:
        bed.servers.revision = 3
        bed.write(3, SEARCH)
        await bed.sees(SEARCH)
        bed.unbind(name)
        assert bed.seen[name] == frozenset()
        bed.servers.revision = 0
        bed.bind(name)
        await asyncio.sleep(0.1)
        assert bed.seen[name] == frozenset()
        await bed.sees(SEARCH, *REQUIRED[1:])
        bed.servers.revision = 3
        await bed.sees(SEARCH)


async def test_it_is_looked_at_again_and_a_server_that_fell_behind_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen_tenants, "_AGAIN", 0.2)
    async with looking() as bed:
        bed.servers.revision = 3
        bed.write(3, SEARCH)
        await bed.sees(SEARCH)
        told, looks = bed.told, bed.servers.looks
        await asyncio.sleep(1)
        # Each guard five times, and nothing to decide on.
        assert 3 <= bed.servers.looks - looks <= 15
        assert bed.told == told
        bed.servers.revision = 2
        await bed.sees({})
        bed.servers.revision = 3
        await bed.sees(SEARCH)


async def test_after_an_api_server_was_away_it_is_looked_at_again() -> None:
    async with looking() as bed:
        bed.servers.revision = 3
        bed.write(3, SEARCH)
        await bed.sees(SEARCH)
        bed.servers.revision = 0
        await asyncio.sleep(0.1)
        await bed.sees(SEARCH)
        bed.tenants.ask_again()
        await bed.sees({})


async def test_where_nobody_has_tenants_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen_tenants, "_AGAIN", 0.02)
    async with looking() as bed:
        bed.write(3, {})
        await asyncio.sleep(0.2)
        assert bed.servers.looks == 0


async def test_at_the_start_it_is_seen_before_anything_is_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    bed = Bed()
    bed.servers.revision = 3
    bed.write(3, SEARCH)
    await bed.tenants.look_at_first()
    await bed.sees(SEARCH)
    # Nobody waits for long.
    monkeypatch.setattr(seen_tenants, "_AT_FIRST", 0.1)
    late = Bed()
    late.write(3, SEARCH)
    await late.tenants.look_at_first()
    await late.sees({})
    assert dry_runs.TAKEN_OVER_WITHIN < 10
