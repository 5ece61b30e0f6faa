"""Looks again and again at what the agent has put on the node, and has what others removed made again.

The code that makes a part is the code that looks at it. A look costs some calls of stat; inotify would lose its watches
with the directories that are removed.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from gpusharing.agent.claims.recovery import ClaimRecovery
from gpusharing.agent.inspection.mounts import MountedDirectories
from gpusharing.agent.kubelet.server import PluginServer
from gpusharing.agent.problems import Problem
from gpusharing.agent.settling.drift import Drift, Drifted
from gpusharing.agent.state.records import Records
from gpusharing.agent.steps import Steps
from gpusharing.kube.clock import seconds_since_boot

# Seconds. A look costs little.
OFTEN: Final = 5.0
_NAMED: Final = 3


class Part(NamedTuple):
    what: Drifted
    title: str
    """What people know it as."""
    every: float
    renew: Callable[[], Awaitable[Sequence[object]]]
    """Makes what is missing, and says what others had removed."""


def parts_of(*, server: PluginServer, claims: ClaimRecovery, records: Records) -> tuple[Part, ...]:
    """GPUs, their settings and MPS daemons are inspected and settled each minute elsewhere."""
    return (
        Part(Drifted.SOCKET, "the kubelet's sockets", OFTEN, server.renew),
        Part(Drifted.CLAIM_FILES, "files of prepared claims", OFTEN, claims.restore),
        Part(Drifted.STATE_FILE, "state files", OFTEN, records.restore),
    )


class Inspection:
    def __init__(
        self,
        parts: Sequence[Part],
        *,
        mounts: MountedDirectories,
        steps: Steps,
        drift: Drift,
        problems: Callable[[], Sequence[Problem]],
        on_restored: Callable[[str], None],
        on_change: Callable[[], None],
    ) -> None:
        """`problems` are all of the agent's, which change without an event, too; `on_restored` gets a sentence for
        people."""
        self._parts = parts
        self._mounts = mounts
        self._steps = steps
        self._drift = drift
        self._problems = problems
        self._known_problems: Sequence[Problem] = ()
        self._on_restored = on_restored
        self._on_change = on_change
        self._looked = {part.what: -math.inf for part in parts}

    async def begin(self) -> None:
        """Makes what is to be there from the start."""
        await self.look()

    async def run(self) -> None:
        while True:
            await asyncio.sleep(OFTEN)
            await self.look()

    async def look(self) -> None:
        """At the parts whose time has come, and at those that could not be made last time."""
        # In a directory that the node has no more, nothing is to be made.
        await asyncio.to_thread(self._mounts.check)
        for part in self._parts:
            await self._look_at(part)
        problems = self._problems()
        if problems != self._known_problems:
            self._known_problems = problems
            self._on_change()

    async def _look_at(self, part: Part) -> None:
        name = f"renew {part.title}"
        # The clock of what is done often has no more than that precision.
        if seconds_since_boot() < self._looked[part.what] + part.every - OFTEN / 2 and not self._steps.has_failed(name):
            return
        made = await self._steps.run(name, part.renew)
        if made is None:
            return
        self._looked[part.what] = seconds_since_boot()
        if made:
            which = [str(one) for one in made]
            self._drift.were_made_again(part.what, which)
            named = ", ".join(which[:_NAMED]) + (f" and {len(which) - _NAMED} more" if len(which) > _NAMED else "")
            self._on_restored(f"others have removed {part.title}, which are there again ({named}): find out who did it")
            self._on_change()
