"""A claim that is unprepared before the recovery of a lost state has ended for good, also for the next agent.

The last report and the API still name it.
"""

import errno
import itertools
import shutil
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from agent.claims.conftest import Claims
from agent.claims.test_half_recovered import has_failed
from agent.claims.test_lost_changes import OFFERS, lose_all, prepared, restarted
from agent.settling.mortal import Fuse, KilledError
from agent.walls.preparing import Agent, Ground
from gpusharing import sim
from gpusharing.agent.claims.reading import PrepareError
from gpusharing.agent.state import files
from gpusharing.api.sharing.node_sharing import NodeSharing

DEVICE: Final = "gpu-0-timeslicing"


def _but_cdi(home: Path) -> None:
    lose_all(home / "state")


def _with_cdi(home: Path) -> None:
    lose_all(home / "state")
    shutil.rmtree(home / "cdi")


def _gpus(home: Path) -> None:
    shutil.rmtree(home / "state/gpus")


LOSSES: Final[dict[str, Callable[[Path], None]]] = {"state": _but_cdi, "state and CDI": _with_cdi, "GPUs": _gpus}


@pytest.fixture(params=LOSSES)
def lose(request: pytest.FixtureRequest) -> Callable[[Path], None]:
    return LOSSES[request.param]


@pytest.fixture
def mortal_files(site: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each change of a state file is a step, too."""
    for of, name in ((files, "write_atomically"), (files, "remove"), (files.Envelopes, "delete")):
        monkeypatch.setattr(of, name, _mortal(getattr(of, name), site.fuse))


def _mortal(change: Callable[..., Any], fuse: Fuse) -> Callable[..., Any]:
    def mortal(*arguments: Any, **keywords: Any) -> Any:
        fuse.point(f"before {change.__name__}")
        result = change(*arguments, **keywords)
        fuse.point(f"after {change.__name__}")
        return result

    return mortal


def marks(home: Path) -> list[str]:
    return [path.name for path in (home / "state/ended").glob("*")]


async def killed_at(fuse: Fuse, steps: int, work: Awaitable[None]) -> bool:
    """Whether it comes to so many steps."""
    fuse.left = steps
    with suppress(KilledError):
        await work
    was_killed = has_failed(fuse)
    fuse.left = None
    return was_killed


async def learn(agent: Agent, sharing: NodeSharing) -> None:
    await agent.recovery.learn(sharing, (), take_survey=agent.survey.take)


async def assert_ended(agent: Agent, sharing: NodeSharing, before: list[sim.Gpu]) -> None:
    await agent.decide(OFFERS)
    await agent.recovery.reconcile(sharing)
    await agent.settler.settle_due(set(agent.gpus.uuids), within=60)
    assert agent.records.lost_claims == frozenset()
    agent.assert_nothing_is_left()
    assert agent.ground.node.gpus() == before
    assert marks(agent.state.parent) == []


@pytest.mark.slow
@pytest.mark.usefixtures("mortal_files")
@pytest.mark.parametrize("is_repeated", [True, False])
async def test_killed_while_it_ends(
    site: Ground, home: Path, claims: Claims, lose: Callable[[Path], None], *, is_repeated: bool
) -> None:
    """The kubelet asks again: the next agent at once, or when that has read the API."""
    before = site.node.gpus()
    for steps in itertools.count():
        place = home / str(steps)
        ref, sharing = await prepared(site, place, claims, DEVICE)
        lose(place)
        agent = await restarted(site, place)
        was_killed = await killed_at(site.fuse, steps, agent.preparer.unprepare(ref))
        agent = await restarted(site, place)
        if was_killed and is_repeated:
            await agent.preparer.unprepare(ref)
        await learn(agent, sharing)
        if was_killed and not is_repeated:
            await agent.preparer.unprepare(ref)
        await assert_ended(agent, sharing, before)
        if not was_killed:
            assert steps > 1
            break


@pytest.mark.slow
@pytest.mark.usefixtures("mortal_files")
async def test_killed_while_the_state_is_recovered(
    site: Ground, home: Path, claims: Claims, lose: Callable[[Path], None]
) -> None:
    before = site.node.gpus()
    for steps in itertools.count():
        place = home / str(steps)
        ref, sharing = await prepared(site, place, claims, DEVICE)
        lose(place)
        agent = await restarted(site, place)
        await agent.preparer.unprepare(ref)
        was_killed = await killed_at(site.fuse, steps, learn(agent, sharing))
        agent = await restarted(site, place)
        await learn(agent, sharing)
        await assert_ended(agent, sharing, before)
        if not was_killed:
            assert steps > 1
            break


async def test_the_disk_is_full(
    site: Ground, home: Path, claims: Claims, lose: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next agent could not know: the kubelet tries again until there is room."""
    before = site.node.gpus()
    ref, sharing = await prepared(site, home, claims, DEVICE)
    lose(home)
    agent = await restarted(site, home)
    with monkeypatch.context() as disk:
        disk.setattr(files, "write_atomically", _full)
        with pytest.raises(PrepareError, match="No space left"):
            await agent.preparer.unprepare(ref)
    assert marks(home) == []
    await agent.preparer.unprepare(ref)
    assert marks(home) == [ref.uid]
    agent = await restarted(site, home)
    await learn(agent, sharing)
    await assert_ended(agent, sharing, before)


def _full(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


async def test_prepared_again_it_is_recovered_again(
    site: Ground, home: Path, claims: Claims, lose: Callable[[Path], None]
) -> None:
    ref, sharing = await prepared(site, home, claims, DEVICE)
    lose(home)
    agent = await restarted(site, home)
    await agent.preparer.unprepare(ref)
    await learn(agent, sharing)
    await agent.decide(OFFERS)
    await agent.preparer.prepare(ref)
    assert marks(home) == []
    lose(home)
    agent = await restarted(site, home)
    await learn(agent, sharing)
    await agent.decide(OFFERS)
    await agent.recovery.reconcile(sharing)
    assert set(agent.records.claims) == {ref.uid}


async def test_a_reboot_makes_marks_void(site: Ground, home: Path, claims: Claims) -> None:
    ref, sharing = await prepared(site, home, claims, DEVICE)
    _but_cdi(home)
    agent = await restarted(site, home)
    await agent.preparer.unprepare(ref)
    site.node.reboot()
    await site.hardware.reopen()
    agent = await restarted(site, home)
    await learn(agent, sharing)
    assert (agent.records.lost_claims, marks(home)) == (frozenset(), [])


async def test_nothing_is_marked_where_nothing_is_lost(site: Ground, home: Path, claims: Claims) -> None:
    """Whoever ends needs no disk."""
    ref, sharing = await prepared(site, home, claims, DEVICE)
    agent = await restarted(site, home)
    await agent.preparer.unprepare(ref)
    assert marks(home) == []
    agent = await restarted(site, home)
    await learn(agent, sharing)
    assert agent.records.lost_claims == frozenset()
