"""No order of events puts two ways or two pools on one GPU; and where the rules are broken, the same model says so."""

from typing import Any

import pytest

from core.narrowing import agents, operators
from core.narrowing.agents import Agent
from core.narrowing.cases import FENCED, SETTINGS
from core.narrowing.model import Weather, explore, without_pool
from gpusharing.api import names


@pytest.mark.parametrize("name", SETTINGS)
def test_no_order_of_events_puts_two_ways_or_pools_on_one_gpu(name: str) -> None:
    finding = explore(SETTINGS[name], agents.real, at_most=200_000)
    assert finding.way is None
    # A model in which little can happen would not say much, nor would an agent that never narrows.
    assert finding.states > 1_500
    assert min(len(devices) for devices in finding.published) < len(SETTINGS[name].options)


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        (agents.drops_in_one_step, "shares and whole"),
        (agents.drops_in_one_step, "parts that overlap"),
        (agents.drops_in_one_step, "shares and halves"),
        (agents.whole_only_after_shares, "shares and whole"),
        (agents.admin_takes, "an admin looks"),
        (agents.believes_what_is_prepared, "shares and whole"),
        (agents.believes_what_is_prepared, "parts that overlap"),
        (agents.believes_what_is_allocated, "claims outlive their pods"),
        (agents.needs_no_approval, "halves and whole"),
        (agents.forgets, "shares and whole"),
        (agents.moves_at_once, "shares for tenants"),
        (agents.does_not_look_back, "shares for tenants"),
        (agents.forgets_where_it_was, "shares for tenants"),
        (agents.takes_all_for_new, "shares for tenants"),
        (agents.needs_no_approval, "for tenants, and back"),
        (agents.drops_in_one_step, "parts for tenants"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_a_naive_agent_is_found_out(agent: Agent, name: str) -> None:
    """These are the ways A to D of the reference, and two more."""
    finding = explore(SETTINGS[name], agent, at_most=200_000)
    print(f"{finding.states} states: {' > '.join(finding.way or ())}")
    assert finding.way is not None


def test_an_impatient_agent_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that does not wait until the scheduler must have seen what is closing."""
    monkeypatch.setattr("core.narrowing.model._World._unseen", lambda *_: frozenset())
    assert explore(SETTINGS["shares and whole"], agents.real, at_most=200_000).way is not None


# The others have up to 300,000 states.
_SMALL = {"shares for tenants", "shares instead of whole", "somebody deletes the guard"}


@pytest.mark.parametrize(
    "name", [name if name in _SMALL else pytest.param(name, marks=pytest.mark.slow) for name in FENCED]
)
def test_no_order_of_events_gets_past_the_closing_guard(name: str) -> None:
    """API servers go by an older guard, an operator is lost, allocations are stored without an answer."""
    finding = explore(FENCED[name], agents.real, at_most=300_000)
    assert finding.way is None
    assert finding.states > 10_000
    # Each setting gets to where it leads, before any long wait is over.
    menu = {f"{FENCED[name].pools[-1]}/{option.device}" for option in FENCED[name].menus[-1]}
    assert menu in finding.published
    # What comes back can be had, under another name.
    assert any(names.revision_of_device(without_pool(device)) for device in finding.returned) == bool(
        FENCED[name].returns
    )


def test_an_agent_that_uses_a_name_again_offers_nothing() -> None:
    """The guard refuses it to everybody."""
    finding = explore(FENCED["for tenants, and back"], agents.keeps_its_names, at_most=300_000)
    assert finding.way is None
    assert not finding.returned


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("shares for tenants", {"operator": operators.OpensWhatWasWithdrawn}),
        ("for tenants, and back", {"operator": operators.OpensWhatIsOfferedAgain}),
        ("whole instead of shares, and back", {"operator": operators.TakesPublishedForHeld}),
        ("somebody deletes the guard", {"operator": operators.BelievesAGuardThatIsGone}),
        ("shares instead of whole", {"weather": Weather(asks_one_server=True)}),
        ("shares instead of whole", {"weather": Weather(reads_claims_first=True)}),
        pytest.param("for tenants, back and again", {"weather": Weather(approvals_last=True)}, marks=pytest.mark.slow),
    ],
    ids=[
        "opens at once",
        "opens what comes back",
        "opens what is there",
        "believes what is gone",
        "asks one server",
        "reads claims first",
        "approves for good",
    ],
)
def test_a_naive_operator_is_found_out(name: str, wrong: dict[str, Any]) -> None:
    finding = explore(FENCED[name], agents.real, at_most=300_000, **wrong)
    print(f"{finding.states} states: {' > '.join(finding.way or ())}")
    assert finding.way is not None
