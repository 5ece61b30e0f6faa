"""What the closing guard is told, and when that ends."""

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from building.guards import bound, installed, variables
from gpusharing.core.cluster.guards.closing import CLOSED, CLOSING
from gpusharing.core.cluster.guards.closing_upkeep import LATEST_SLICES, FenceDecision, holds, read, update_fence
from gpusharing.core.cluster.guards.form import probe, seen_revision
from gpusharing.core.cluster.guards.upkeep import MOST_TOGETHER, Guards
from gpusharing.core.state.fence import TO_ALL, Closed, Closing, PoolReport, is_closed_to_all
from gpusharing.core.timestamps import moment, seconds

NOW = "2026-11-18T12:00:00Z"
WAIT = 3600.0


def after(wait: float) -> str:
    return moment(seconds(NOW) + wait)


def closing(**pools: str) -> Closing:
    """Items by pool; `+` before what is open."""
    reports = {}
    for pool, items in pools.items():
        words = items.split()
        closed = frozenset(word for word in words if not word.startswith("+"))
        reports[pool] = PoolReport(closed, closed, frozenset(word[1:] for word in words if word.startswith("+")))
    return reports


class Guard:
    """As it is kept by the API server."""

    def __init__(self) -> None:
        self.guards = dict(installed())
        self.version = 3

    def update(self, at: str, **pools: str) -> FenceDecision:
        decision = update_fence(closing(**pools), self.guards, bound(), idle_wait=WAIT, now=at)
        for intent in decision.intents:
            guard = self.guards[CLOSING]
            self.version += 1
            metadata = replace(guard.metadata, resource_version=str(self.version))
            self.guards[CLOSING] = replace(guard, spec=guard.spec | intent.body["spec"], metadata=metadata)
        assert not update_fence(closing(**pools), self.guards, bound(), idle_wait=WAIT, now=at).intents
        return decision

    @property
    def fence(self) -> dict[str, list[Closed]]:
        return {pool: list(records) for pool, records in read(self.guards[CLOSING]).fence.items()}


def test_a_device_is_closed_to_all_while_it_is_closing_and_to_older_claims_for_an_hour_after() -> None:
    guard = Guard()
    assert guard.update(NOW, n1="0", n2="gpu-3").until is None
    assert guard.fence == {"n1": [Closed(NOW, TO_ALL, ("0",))], "n2": [Closed(NOW, TO_ALL, ("gpu-3",))]}
    withdrawn = after(10)
    assert guard.update(withdrawn, n2="gpu-3").until == seconds(withdrawn) + WAIT
    over = Closed(withdrawn, moment(seconds(withdrawn) + LATEST_SLICES), ("0",))
    assert guard.fence == {"n1": [over], "n2": [Closed(NOW, TO_ALL, ("gpu-3",))]}
    guard.update(after(10 + WAIT - 1), n2="gpu-3")
    assert guard.fence["n1"] == [over]
    guard.update(after(10 + WAIT), n2="gpu-3")
    assert guard.fence == {"n2": [Closed(NOW, TO_ALL, ("gpu-3",))]}


def test_a_device_that_closes_again_has_another_record() -> None:
    """What was approved of the first does not count for the second."""
    guard = Guard()
    guard.update(NOW, n1="gpu-0")
    guard.update(after(5), n1="+gpu-0")
    guard.update(after(6), n1="gpu-0")
    assert [one.since for one in guard.fence["n1"] if one.is_to_all] == [after(6)]
    # In between nobody could take it: no claim was created later than that.
    assert guard.fence["n1"][0] == Closed(after(5), after(5 + LATEST_SLICES), ("gpu-0",))


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
    assert seen_revision(f"{prefix}denied request: {said}42") == "42"
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
    """Whatever was closed to all refuses claims of before for the whole wait after that ended."""
    guard = Guard()
    at = 0
    ended: dict[tuple[str, str], int] = {}
    for wait, reports in history:
        at += wait
        pools = {f"node-with-a-long-name-{number}": items for number, items in enumerate(reports)}
        before = guard.fence
        guard.update(after(at), **pools)
        assert len(variables(guard.guards[CLOSING])[CLOSED]) <= MOST_TOGETHER
        fence = guard.fence
        for pool, records in before.items():
            for device in ("gpu-0", "gpu-1", "gpu-1-mig-1g10gb-19-6"):
                if is_closed_to_all({pool: records}, pool, device) and not is_closed_to_all(fence, pool, device):
                    ended[pool, device] = at
        for (pool, device), end in ended.items():
            refuses = any(
                re.fullmatch(r"[0-9TZ:-]+", one.before) and one.before >= after(end) and _covers(one, device)
                for one in fence.get(pool, ())
            )
            assert refuses or at >= end + WAIT


def _covers(closed: Closed, device: str) -> bool:
    return is_closed_to_all({"": [replace(closed, before=TO_ALL)]}, "", device)


def test_what_somebody_has_taken_out_is_put_in_again() -> None:
    """`kubectl apply` of the manifests empties the variables."""
    guard = Guard()
    guard.update(NOW, n1="0", n2="0")
    last = guard.update(after(1), n2="0").fence
    emptied = installed()
    again = update_fence(closing(n2="0"), emptied, bound(), last, idle_wait=WAIT, now=after(2))
    assert again.fence["n1"] == last["n1"]
    # This one has to be seen to hold anew.
    assert again.fence["n2"] == [Closed(after(2), TO_ALL, ("0",))]
    late = update_fence(closing(), emptied, bound(), again.fence, idle_wait=WAIT, now=after(WAIT + 1))
    assert "n1" not in late.fence


def test_one_pool_does_not_use_up_the_room_of_others() -> None:
    guard = Guard()
    many = " ".join(f"gpu-0-mig-of-a-long-name-{number}-0" for number in range(400))
    guard.update(NOW, n1=many, n2="0")
    assert set(guard.fence) == {"n2"}
