"""Asks the scheduler's own allocator: `oracle/`, as a child process."""

import json
import subprocess
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final, Self

from allocating.worlds import Json, World
from harness.processes import DIES_WITH_PARENT
from harness.toolchain import build_allocator_oracles

NEWEST: Final = 37
SECONDS_PER_NODE: Final = 0.5
"""Nearly all take less than a thousandth of it, and the others would take for ever."""


class AllocatorOracle:
    """kube-scheduler of Kubernetes 1.<minor>, as far as it allocates devices. Of the next version it is the newest one
    with the features that will be on."""

    def __init__(self, minor: int) -> None:
        self.minor = minor
        program = build_allocator_oracles() / f"allocator-oracle-v{min(minor, NEWEST)}"
        more = ["-next"] if minor > NEWEST else []
        self._child = subprocess.Popen(
            [*DIES_WITH_PARENT, str(program), "-limit", f"{SECONDS_PER_NODE}s", *more],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._child.kill()
        self._child.communicate()

    def set_world(self, world: World) -> None:
        self._ask({"cluster": {"slices": world.slices, "classes": world.classes, "nodes": world.nodes}})

    def allocate(self, claims: Sequence[Json], allocated: Sequence[Json]) -> list[Json]:
        """For each node of the world: `allocations`, or `error`, `nodeError`, `timeout`, or nothing."""
        answer: list[Json] = self._ask({"claims": claims, "allocated": allocated})["nodes"]
        return answer

    def _ask(self, question: Json) -> Any:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(json.dumps(question) + "\n")
        self._child.stdin.flush()
        line = self._child.stdout.readline()
        assert line, "the oracle has ended"
        return json.loads(line)
