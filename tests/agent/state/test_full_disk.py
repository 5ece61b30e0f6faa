"""An agent that starts while the disk is full: whoever ends is let go, and what is missing comes when there is room."""

import errno
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from agent.walls.preparing import REF, TWO_GPUS, Claims, Ground, ground, offers
from controller.api_server import serving
from gpusharing import sim
from gpusharing.agent.claims.reading import PrepareError
from gpusharing.agent.state import files
from nvidia.nodes import with_walls


@pytest_asyncio.fixture
async def site(tmp_path: Path) -> AsyncIterator[Ground]:
    node = with_walls(sim.create(tmp_path / "node", "H100-80GB:2", driver="615"))
    packaged = tmp_path / "packaged"
    packaged.write_text("#!/bin/true")
    async with serving(Claims(*TWO_GPUS).server()) as api, ground(node, api, packaged) as made:
        yield made


def full(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """`undo` makes room."""
    return monkeypatch


def fill(disk: pytest.MonkeyPatch) -> None:
    disk.setattr(files, "write_atomically", full)


async def test_it_serves_and_makes_up_for_it_later(site: Ground, tmp_path: Path, disk: pytest.MonkeyPatch) -> None:
    first = await site.agent(tmp_path / "agent", offers())
    await first.preparer.prepare(REF)
    spec = tmp_path / f"agent/cdi/gpusharing.dev-claim_{REF.uid}.json"
    metadata = tmp_path / f"agent/state/metadata/{REF.uid}"
    before = spec.read_bytes()
    spec.unlink()
    told, _ = metadata.iterdir()
    told.unlink()

    fill(disk)
    agent = await site.agent(tmp_path / "agent", None)
    with pytest.raises(PrepareError, match="No space left"):
        await agent.preparer.prepare(REF)
    assert not spec.exists()
    disk.undo()
    await agent.recovery.follow()
    assert (spec.read_bytes(), told.exists()) == (before, True)


async def test_who_ends_is_let_go(site: Ground, tmp_path: Path, disk: pytest.MonkeyPatch) -> None:
    first = await site.agent(tmp_path / "agent", offers())
    await first.preparer.prepare(REF)
    fill(disk)
    agent = await site.agent(tmp_path / "agent", None)
    await agent.preparer.unprepare(REF)
    disk.undo()
    agent.assert_nothing_is_left()
