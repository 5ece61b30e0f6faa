"""What containers of prepared claims find, while others remove it."""

import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from agent.walls.preparing import REF, TWO_GPUS, Agent, Claims, ground, offers
from controller.api_server import serving
from gpusharing import sim
from nvidia.nodes import with_walls


@pytest_asyncio.fixture
async def agent(tmp_path: Path) -> AsyncIterator[Agent]:
    """With a claim that has two GPUs with memory walls."""
    node = with_walls(sim.create(tmp_path / "node", "H100-80GB:2", driver="615"))
    packaged = tmp_path / "packaged"
    packaged.write_text("#!/bin/true")
    async with serving(Claims(*TWO_GPUS).server()) as api, ground(node, api, packaged) as site:
        made = await site.agent(tmp_path / "agent", offers())
        made.preparer.is_recovered.set()
        await made.preparer.prepare(REF)
        yield made


def files(agent: Agent) -> dict[Path, tuple[bytes, int]]:
    below = agent.state.parent
    places = (below / "cdi", agent.state / "metadata", agent.state / "walls", agent.state / "bin")
    found = [path for place in places for path in sorted(place.rglob("*")) if path.is_file()]
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in found}


def contents(agent: Agent) -> dict[Path, bytes]:
    return {path: content for path, (content, _) in files(agent).items()}


def be_a_directory(path: Path) -> None:
    path.unlink()
    (path / "below").mkdir(parents=True)


LOSSES: Final[dict[str, Callable[[Path], None]]] = {
    "CDI spec": lambda below: next((below / "cdi").glob("gpusharing.dev-claim_*")).unlink(),
    "CDI directory": lambda below: shutil.rmtree(below / "cdi"),
    "one metadata file": lambda below: next((below / "state/metadata").glob("*/*.json")).unlink(),
    "metadata that is a directory": lambda below: be_a_directory(next((below / "state/metadata").glob("*/*.json"))),
    "metadata of the claim": lambda below: shutil.rmtree(next((below / "state/metadata").iterdir())),
    "all metadata": lambda below: shutil.rmtree(below / "state/metadata"),
    "a wall": lambda below: next((below / "state/walls").glob("*/*/wall")).unlink(),
    "all walls": lambda below: shutil.rmtree(below / "state/walls"),
    "the hook's program": lambda below: shutil.rmtree(below / "state/bin"),
}


@pytest.mark.parametrize("lose", LOSSES.values(), ids=LOSSES)
async def test_what_is_lost_is_made_again(agent: Agent, lose: Callable[[Path], None]) -> None:
    before = contents(agent)
    for _ in range(2):
        lose(agent.state.parent)
        assert await agent.recovery.restore() == [f"claim {REF.display_name}"]
        assert contents(agent) == before


async def test_nothing_is_written_while_nothing_is_missing(agent: Agent) -> None:
    before = files(agent)
    for _ in range(3):
        assert await agent.recovery.restore() == []
    assert files(agent) == before


async def test_nothing_is_made_for_a_claim_that_has_gone(agent: Agent) -> None:
    await agent.preparer.unprepare(REF)
    assert await agent.recovery.restore() == []
    agent.assert_nothing_is_left()
