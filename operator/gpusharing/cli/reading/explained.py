"""Why pods wait, kept for whoever looks for long: to explain it, all nodes and slices are read."""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from gpusharing.cli.reading.client import Client
from gpusharing.cli.reading.fleet import Lists, waiting_of
from gpusharing.explaining.scene import Scene
from gpusharing.findings.finding import Finding
from gpusharing.occupancy.fleet import Waiting
from gpusharing.occupancy.waiting import waiting, waiting_pods

_REST: Final = 5.0
"""Seconds at least between two explanations."""
_REST_AFTER: Final = 10
"""The same, by how long the last one took."""
_LONGEST: Final = 60.0
"""Seconds for which an explanation counts though nothing has changed: nodes and slices are not watched, since they are
several times as large as all that is."""


class Explained:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._findings: Mapping[tuple[str, str], Finding] = {}
        self._changes: int | None = None
        self._not_before = self._until = 0.0

    def ask(self, lists: Lists) -> bool:
        """Explains again if it is time to; whether something else is said now."""
        began = time.monotonic()
        if began < self._not_before or (lists.changes == self._changes and began < self._until):
            return False
        before = self._findings
        # The last one counts while the API server does not answer, or has an object that we do not understand.
        with suppress(Exception):
            found = waiting_of(self._client, lists)
            self._findings = {(one.namespace, one.pod): one.finding for one in found if one.finding}
        now = time.monotonic()
        self._changes = lists.changes
        self._not_before = now + max(_REST, _REST_AFTER * (now - began))
        self._until = now + _LONGEST
        return self._findings != before

    def waiting(self, lists: Lists) -> Sequence[Waiting]:
        """All that wait now. A pod that came since the last explanation has none yet."""
        pods = waiting_pods(lists.pods.objects, lists.classes.objects)
        shown = waiting(pods, (), Scene(world=lists.world()))
        return [replace(one, finding=self._findings.get((one.namespace, one.pod))) for one in shown]
