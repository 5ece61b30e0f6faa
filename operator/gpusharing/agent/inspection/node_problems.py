"""All that keeps the agent from its work, from whoever knows of it."""

from collections.abc import Iterator, Sequence
from typing import Final

from gpusharing.agent.kubelet.server import PluginServer
from gpusharing.agent.problems import Problem, Reason, not_registered, not_writable, put_together
from gpusharing.agent.publishing.other_drivers import OtherDrivers
from gpusharing.agent.start import Start
from gpusharing.agent.state.records import Records
from gpusharing.agent.steps import Steps
from gpusharing.kube.watches import Watches

# Seconds. A kubelet that starts has more to do; after as many, it deletes the slices of drivers that it does not know.
_PATIENCE: Final = 30.0


class NodeProblems:
    def __init__(
        self,
        *,
        steps: Sequence[Steps],
        records: Records,
        server: PluginServer,
        watches: Watches,
        start: Start,
        others: OtherDrivers,
    ) -> None:
        self._steps = steps
        self._records = records
        self._server = server
        self._watches = watches
        self._start = start
        self._others = others

    def find(self) -> list[Problem]:
        """The heaviest first."""
        return put_together(self._find())

    def _find(self) -> Iterator[Problem]:
        for steps in self._steps:
            yield from steps.problems
        if error := self._records.unwritable:
            yield not_writable(error)
        if self._server.unregistered_for > _PATIENCE:
            yield not_registered()
        if deaf := self._watches.deaf:
            yield Problem(Reason.WATCH_BROKEN, f"{deaf}: what changes there does not reach this node")
        if failure := self._start.problem:
            yield Problem(Reason.DRIVER_DOWN, str(failure))
        if self._others.problem:
            yield self._others.problem
