"""How often it is asked why pods wait."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pytest

from gpusharing.cli.exits import CommandError
from gpusharing.cli.reading import explained as module
from gpusharing.cli.reading.client import Client
from gpusharing.cli.reading.cluster import Found
from gpusharing.cli.reading.explained import Explained
from gpusharing.cli.reading.fleet import Lists
from gpusharing.findings import waiting
from gpusharing.findings.finding import Reference
from gpusharing.occupancy.fleet import Waiting

FINDING: Final = waiting.NO_POD.found(Reference("Pod", "a", "ml"), name="a")


def lists(*pods: str, changes: int = 1) -> Lists:
    found: list[Any] = [
        {"metadata": {"name": name, "namespace": "ml", "uid": name}, "spec": {"resourceClaims": [{"name": "gpu"}]}}
        for name in pods
    ]
    nothing = Found()
    return Lists(minor=37, node_sharings=nothing, claims=nothing, pods=Found(found), classes=nothing, changes=changes)


@dataclass
class Cluster:
    """Explains the pods that wait, in some seconds of a clock of its own."""

    now: float = 1000.0
    takes: float = 0.1
    answers: bool = True
    asked: int = 0

    def explain(self, _: Client, lists: Lists) -> Sequence[Waiting]:
        self.asked += 1
        self.now += self.takes
        if not self.answers:
            raise CommandError("away")
        pods = [one["metadata"]["name"] for one in lists.pods.objects]
        return [Waiting(namespace="ml", pod=name, finding=FINDING) for name in pods]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    found = Cluster()
    monkeypatch.setattr(module, "waiting_of", found.explain)
    monkeypatch.setattr("time.monotonic", lambda: found.now)
    return found


@pytest.fixture
def explained(cluster: Cluster) -> Explained:
    client: Any = None
    return Explained(client)


def why(explained: Explained, found: Lists) -> dict[str, bool]:
    """Whether it is known of each pod that waits."""
    return {one.pod: one.finding is not None for one in explained.waiting(found)}


@pytest.mark.parametrize(
    ("takes", "later", "changes", "asks"),
    [
        (0.1, 1, 2, False),
        (0.1, 5.1, 2, True),
        (0.1, 5.1, 1, False),
        (0.1, 59, 1, False),
        (0.1, 60.1, 1, True),
        # Whoever takes long rests long.
        (3, 29, 2, False),
        (3, 31, 2, True),
    ],
)
def test_it_is_asked_again_after_a_change_and_a_rest(
    cluster: Cluster, explained: Explained, *, takes: float, later: float, changes: int, asks: bool
) -> None:
    cluster.takes = takes
    assert explained.ask(lists("a"))
    cluster.now += later
    # And says the same.
    assert not explained.ask(lists("a", changes=changes))
    assert cluster.asked == 1 + asks


def test_a_pod_that_came_since_then_waits_without_a_reason(explained: Explained) -> None:
    explained.ask(lists("a"))
    assert why(explained, lists("a", "b", changes=2)) == {"a": True, "b": False}
    assert why(explained, lists("b", changes=3)) == {"b": False}


def test_while_the_api_server_is_away_the_last_reason_counts(cluster: Cluster, explained: Explained) -> None:
    explained.ask(lists("a"))
    cluster.answers = False
    cluster.now += 100
    assert not explained.ask(lists("a"))
    assert cluster.asked == 2
    assert why(explained, lists("a")) == {"a": True}
