"""What the closing guard is told, and when that ends."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from building.guards import bound, installed, variables
from gpusharing.core.cluster.guards.closing import CLOSED, CLOSING
from gpusharing.core.cluster.guards.closing_upkeep import FenceDecision, holds, read, update_fence
from gpusharing.core.cluster.guards.form import probe, seen_revision
from gpusharing.core.cluster.guards.upkeep import MOST_TOGETHER, Guards
from gpusharing.core.state.fence import Closed, Closing, PoolReport, is_closed
from gpusharing.core.timestamps import moment, seconds

NOW = "2026-11-18T12:00:00Z"
WAIT = 3600.0
NOTHING = FenceDecision()


def after(wait: float) -> str:
    return moment(seconds(NOW) + wait)


def closing(**pools: str) -> Closing:
    """Items to close, which are published; `+` before devices that are published and offered; `!` if they are held."""
    reports = {}
    for pool, items in pools.items():
        words = items.split()
        to_close = {word for word in words if word[0] not in "+!"}
        devices = {word[1:] for word in words if word[0] in "+!"}
        there = {word if word.startswith("gpu-") else f"gpu-{word}" for word in to_close}
        held = {word[1:] for word in words if word[0] == "!"}
        reports[pool] = PoolReport(frozenset(to_close), frozenset(there | devices), frozenset(held))
    return reports


class Guard:
    """As it is kept by the API server."""

    def __init__(self) -> None:
        self.guards = dict(installed())
        self.version = 3

    def decide(self, at: str, last: FenceDecision = NOTHING, /, **pools: str) -> FenceDecision:
        return update_fence(closing(**pools), self.guards, bound(), last, idle_wait=WAIT, now=at)

    def empty(self) -> None:
        emptied = installed()[CLOSING]
        metadata = replace(emptied.metadata, resource_version="emptied")
        self.guards[CLOSING] = replace(emptied, metadata=metadata)

    def update(self, at: str, **pools: str) -> FenceDecision:
        decision = self.decide(at, **pools)
        for intent in decision.intents:
            guard = self.guards[CLOSING]
            self.version += 1
            metadata = replace(guard.metadata, resource_version=str(self.version))
            self.guards[CLOSING] = replace(guard, spec=guard.spec | intent.body["spec"], metadata=metadata)
        assert not self.decide(at, **pools).intents
        return decision

    @property
    def fence(self) -> dict[str, list[Closed]]:
        return {pool: list(records) for pool, records in read(self.guards[CLOSING]).fence.items()}


def test_a_device_is_closed_while_it_is_published_and_for_an_hour_after() -> None:
    guard = Guard()
    assert guard.update(NOW, n1="0", n2="gpu-3").until is None
    assert guard.fence == {"n1": [Closed(NOW, ("0",))], "n2": [Closed(NOW, ("gpu-3",))]}
    withdrawn = after(10)
    assert guard.update(withdrawn, n2="gpu-3").until == seconds(withdrawn) + WAIT
    over = Closed(NOW, ("0",), withdrawn)
    assert guard.fence == {"n1": [over], "n2": [Closed(NOW, ("gpu-3",))]}
    guard.update(after(10 + WAIT - 1), n2="gpu-3")
    assert guard.fence["n1"] == [over]
    guard.update(after(10 + WAIT), n2="gpu-3")
    assert guard.fence == {"n2": [Closed(NOW, ("gpu-3",))]}


def test_what_ended_in_the_future_ended_now() -> None:
    """Somebody has written it, or another operator's clock was ahead."""
    future = FenceDecision(fence={"n1": (Closed(NOW, ("0",), "9999-12-31T23:59:59Z"),)})
    decision = Guard().decide(NOW, future)
    assert decision.until == seconds(NOW) + WAIT


def test_a_device_that_comes_back_while_it_is_published_stays_closed_unless_somebody_holds_it() -> None:
    """An approval of its withdrawal may be on its way to the agent. What is held was never approved."""
    guard = Guard()
    guard.update(NOW, n1="gpu-0 gpu-1")
    guard.update(after(5), n1="+gpu-0 !gpu-1")
    assert guard.fence == {"n1": [Closed(NOW, ("gpu-0",))]}
    guard.update(after(6), n1="+gpu-0r1 !gpu-1")
    assert guard.fence == {"n1": [Closed(NOW, ("gpu-0",), after(6))]}


def test_the_hour_begins_anew_when_a_device_was_published_again() -> None:
    """By an agent that did not know yet that it needs another name."""
    guard = Guard()
    guard.update(NOW, n1="gpu-0")
    guard.update(after(5), n1="")
    guard.update(after(6), n1="+gpu-0")
    assert guard.fence == {"n1": [Closed(NOW, ("gpu-0",))]}
    guard.update(after(WAIT + 5), n1="+gpu-0")
    assert guard.fence == {"n1": [Closed(NOW, ("gpu-0",))]}
    assert guard.update(after(WAIT + 6), n1="").until == seconds(after(WAIT + 6)) + WAIT


def test_a_device_that_closes_again_has_another_record() -> None:
    """What was seen of the first does not count for the second."""
    guard = Guard()
    guard.update(NOW, n1="gpu-0")
    guard.update(after(5), n1="!gpu-0")
    guard.update(after(6), n1="gpu-0")
    assert guard.fence["n1"] == [Closed(after(6), ("gpu-0",))]


def test_each_write_has_a_higher_revision() -> None:
    guard = Guard()
    revisions = []
    for index in range(3):
        guard.update(after(index), **{f"n{one}": "0" for one in range(index + 1)})
        revisions.append(read(guard.guards[CLOSING]).revision)
    assert revisions == [3, 4, 5]
    assert variables(guard.guards[CLOSING])["revision"] == "'5'"


def test_what_a_refusal_of_a_probe_says_is_read_again() -> None:
    guard = installed()[CLOSING]
    first = guard.spec["validations"][0]
    said = str(first["messageExpression"]).partition("' + variables.")[0].strip("'")
    prefix = f"leases.coordination.k8s.io \"{probe(CLOSING)}\" is forbidden: ValidatingAdmissionPolicy '{CLOSING}' "
    assert seen_revision(f"{prefix}denied request: {said}42") == 42
    assert seen_revision(f"{prefix}denied request: {said.rstrip()}") == 0
    assert seen_revision('User "x" cannot create resource "leases"') is None


@pytest.mark.parametrize("missing", ["guard", "binding", "condition", "rules"])
def test_without_the_guard_nothing_is_written(missing: str) -> None:
    guards: Guards = installed()
    bindings = bound()
    if missing == "guard":
        guards = {name: guard for name, guard in guards.items() if name != CLOSING}
    elif missing == "binding":
        bindings = {name: binding for name, binding in bindings.items() if name != CLOSING}
    else:
        edits: dict[str, dict[str, Any]] = {"condition": {"matchConditions": []}, "rules": {"matchConstraints": {}}}
        guards = {**guards, CLOSING: replace(guards[CLOSING], spec=guards[CLOSING].spec | edits[missing])}
    assert not holds(guards, bindings)
    assert update_fence(closing(n1="0"), guards, bindings, idle_wait=WAIT, now=NOW) == FenceDecision()


def test_600_nodes_have_room_at_a_time_and_what_has_none_waits() -> None:
    guard = Guard()
    guard.update(NOW, **{f"node{number}": "0 1" for number in range(2000)})
    assert 600 < len(guard.fence) < 2000
    assert len(variables(guard.guards[CLOSING])[CLOSED]) <= MOST_TOGETHER


_ITEMS = st.sampled_from(["", "0", "0 1", "gpu-0", "gpu-0 gpu-1-mig", "+gpu-0 1", "+gpu-0 +gpu-1", "gpu-0 +gpu-1"])
_HISTORIES = st.lists(st.tuples(st.integers(0, 2000), st.lists(_ITEMS, min_size=60, max_size=60)), max_size=6)


@given(_HISTORIES)
def test_nothing_opens_early_and_the_guard_stays_small(history: list[tuple[int, list[str]]]) -> None:
    """Whatever is closed is refused until it was withdrawn for the whole wait."""
    guard = Guard()
    at = 0
    withdrawn: dict[tuple[str, str], int] = {}
    for wait, reports in history:
        at += wait
        pools = {f"node-with-a-long-name-{number}": items for number, items in enumerate(reports)}
        before = guard.fence
        guard.update(after(at), **pools)
        assert len(variables(guard.guards[CLOSING])[CLOSED]) <= MOST_TOGETHER
        reported, fence = closing(**pools), guard.fence
        for pool, report in reported.items():
            for device in ("gpu-0", "gpu-1", "gpu-1-mig"):
                if not is_closed(before, pool, device):
                    withdrawn.pop((pool, device), None)
                elif device in report.published:
                    withdrawn.pop((pool, device), None)
                    assert is_closed(fence, pool, device)
                else:
                    # What another device of its GPU keeps closed is closed for longer.
                    end = withdrawn.setdefault((pool, device), at)
                    assert is_closed(fence, pool, device) or at >= end + WAIT


def test_what_somebody_has_taken_out_is_put_in_again() -> None:
    """`kubectl apply` of the manifests empties the variables."""
    guard = Guard()
    guard.update(NOW, n1="0", n2="0")
    last = guard.update(after(1), n2="0")
    guard.empty()
    again = guard.decide(after(2), last, n2="0")
    # It has to be seen to hold anew.
    assert again.fence == {"n1": [Closed(after(2), ("0",), after(1))], "n2": [Closed(after(2), ("0",))]}
    late = guard.decide(after(WAIT + 1), again)
    assert "n1" not in late.fence


def test_what_is_decided_and_not_written_yet_is_decided_once() -> None:
    """Otherwise it had to be seen to hold anew each time."""
    guard = Guard()
    guard.update(NOW, n1="0")
    over = guard.decide(after(1), n2="0")
    again = guard.decide(after(2), over, n2="0", n3="0")
    assert again.fence == {
        "n1": [Closed(NOW, ("0",), after(1))],
        "n2": [Closed(after(1), ("0",))],
        "n3": [Closed(after(2), ("0",))],
    }


def test_one_pool_does_not_use_up_the_room_of_others() -> None:
    guard = Guard()
    many = " ".join(f"gpu-0-mig-of-a-long-name-{number}-0" for number in range(400))
    guard.update(NOW, n1=many, n2="0")
    assert set(guard.fence) == {"n2"}
