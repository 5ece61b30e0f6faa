"""What fails while lost claims are recovered is done by the next look at the node, without another start or boot."""

import shutil
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from agent.claims.conftest import Claims
from agent.claims.test_lost_changes import DEVICES, OFFERS, lose_all, prepared, reported, restarted
from agent.settling.mortal import Fuse, KilledError
from agent.walls.preparing import Agent, Ground
from gpusharing.agent.claims.reading import ClaimRef
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.nvidia.errors import SettingNotAppliedError
from harness.mounts import unmount_below
from sim.mps_daemons import kill_programs_of

# Where a claim that was recovered fails: before and after its record is written, at least.
_STEPS: Final = 2


class Lost(NamedTuple):
    """A claim whose record nobody has any more, and what the API says of it."""

    ref: ClaimRef
    sharing: NodeSharing
    home: Path
    specs: dict[str, bytes]
    """That its containers found before."""


async def lost(site: Ground, home: Path, claims: Claims, device: str, *, reboots: bool) -> Lost:
    ref, sharing = await prepared(site, home, claims, device)
    if reboots:
        site.node.reboot()
        # They are below a directory that a reboot empties.
        kill_programs_of(site.node)
        unmount_below(home)
        shutil.rmtree(home / "state/mps", ignore_errors=True)
        await site.hardware.reopen()
        sharing = await reported(await restarted(site, home), sharing)
    lose_all(home / "state")
    return Lost(ref, sharing, home, specs(home))


async def started(site: Ground, what: Lost) -> Agent:
    agent = await restarted(site, what.home)
    await agent.recovery.learn(what.sharing, (), take_survey=agent.survey.take)
    await agent.decide(OFFERS)
    return agent


async def look(agent: Agent, sharing: NodeSharing) -> None:
    """As a round does."""
    await agent.recovery.reconcile(sharing)
    await agent.settler.settle_due(set(agent.gpus.uuids), within=60)
    await agent.recovery.finish()


def specs(home: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (home / "cdi").iterdir()}


def settings(site: Ground) -> list[tuple[object, ...]]:
    """Of each GPU. Instances that are made anew have new uuids."""
    return [
        (gpu.timeslice, gpu.compute_mode, [(one.profile, one.start) for one in gpu.gpu_instances])
        for gpu in site.node.gpus()
    ]


def has_failed(fuse: Fuse) -> bool:
    return fuse.left is None


async def with_each_failure(
    site: Ground, home: Path, claims: Claims, device: str, error: type[BaseException], *, reboots: bool
) -> AsyncIterator[tuple[Agent, Lost]]:
    """Once for each step of the first look that can fail, after that look."""
    steps = 0
    while True:
        what = await lost(site, home / str(steps), claims, device, reboots=reboots)
        agent = await started(site, what)
        site.fuse.left, site.fuse.error = steps, error
        with suppress(error):
            await look(agent, what.sharing)
        if not has_failed(site.fuse):
            break
        yield agent, what
        steps += 1
    site.fuse.left = None
    assert steps > _STEPS


@pytest.mark.slow
@pytest.mark.parametrize("error", [SettingNotAppliedError, OSError])
@pytest.mark.parametrize("device", DEVICES)
async def test_next_look_completes_a_claim_of_before_the_boot(
    site: Ground, home: Path, claims: Claims, device: str, error: type[Exception]
) -> None:
    """Its containers found nothing any more, and the kubelet may be long in asking again."""
    whole = await lost(site, home / "whole", claims, device, reboots=True)
    agent = await started(site, whole)
    await look(agent, whole.sharing)
    expected = set(specs(whole.home)), settings(site)
    assert expected[0] == {f"gpusharing.dev-claim_{whole.ref.uid}.json"}
    await agent.preparer.unprepare(whole.ref)
    async for agent, what in with_each_failure(site, home, claims, device, error, reboots=True):
        await look(agent, what.sharing)
        assert set(agent.records.claims) == {what.ref.uid}
        assert (set(specs(what.home)), settings(site)) == expected
        # As the kubelet would have it.
        found = specs(what.home)
        await agent.preparer.prepare(what.ref)
        assert specs(what.home) == found
        await agent.preparer.unprepare(what.ref)


@pytest.mark.slow
@pytest.mark.parametrize("error", [SettingNotAppliedError, OSError, KilledError])
@pytest.mark.parametrize("device", DEVICES)
async def test_containers_that_run_find_what_they_found(
    site: Ground, home: Path, claims: Claims, device: str, error: type[BaseException]
) -> None:
    """Whatever fails, and also for the next agent: they may be started again at any time."""
    async for _, what in with_each_failure(site, home, claims, device, error, reboots=False):
        assert specs(what.home) == what.specs
        successor = await started(site, what)
        assert specs(what.home) == what.specs
        await look(successor, what.sharing)
        assert (specs(what.home), set(successor.records.claims)) == (what.specs, {what.ref.uid})
        await successor.preparer.unprepare(what.ref)
