"""Amounts and policies. What Kubernetes makes of them, random clusters compare; these are the cases that tell most."""

from typing import Any

import pytest

from gpusharing.core.allocate.room import RequestError, Room
from gpusharing.core.quantities import billionths, from_billionths

STEPS = {"default": "1Gi", "validRange": {"min": "1Gi", "max": "7Gi", "step": "1Gi"}}
FRACTIONS = {"default": "500m", "validRange": {"min": "500m", "step": "250m"}}
VALUES = {"default": "2Gi", "validValues": ["1Gi", "2Gi", "4Gi"]}


def room(policy: dict[str, Any] | None = None, *, value: str = "8Gi") -> Room:
    return Room({"memory": {"value": value} | ({"requestPolicy": policy} if policy else {})})


def taken(room: Room, asked: str | None, *, minor: int = 37) -> str | None:
    """None: the device never gives so much."""
    demand = room.demand({} if asked is None else {"memory": billionths(asked)}, minor)
    return from_billionths(demand.amounts["memory"]) if demand.can_ever_fit else None


@pytest.mark.parametrize(
    ("policy", "asked", "gets"),
    [
        pytest.param(None, None, "8Gi", id="all of it, without a policy"),
        pytest.param(None, "3Gi", "3Gi", id="as much as was asked for"),
        pytest.param(None, "9Gi", None, id="more than there is"),
        pytest.param(STEPS, None, "1Gi", id="the default"),
        pytest.param(STEPS, "1", "1Gi", id="the least"),
        pytest.param(STEPS, "1025Mi", "2Gi", id="the next step"),
        pytest.param(STEPS, "7169Mi", None, id="beyond the most"),
        pytest.param(VALUES, "1500Mi", "2Gi", id="the next value"),
        pytest.param(VALUES, "5Gi", None, id="beyond the last value"),
    ],
)
def test_what_a_request_takes(policy: dict[str, Any] | None, asked: str | None, gets: str | None) -> None:
    assert taken(room(policy), asked) == (None if gets is None else from_billionths(billionths(gets)))


@pytest.mark.parametrize(
    ("minor", "asked", "gets"),
    [(38, "600m", "750m"), (38, "1", "1"), (37, "600m", "1"), (36, "1001m", "2"), (36, "1", "1"), (37, "100m", "500m")],
)
def test_before_1_38_steps_are_whole_numbers(minor: int, asked: str, gets: str) -> None:
    assert taken(room(FRACTIONS, value="4"), asked, minor=minor) == gets


@pytest.mark.parametrize("asked", ["0.5005", "9223372036854775807"])
def test_what_cannot_be_counted_in_steps_stops_the_pod(asked: str) -> None:
    with pytest.raises(RequestError):
        taken(room(FRACTIONS, value="4"), asked, minor=38)
    assert taken(room(FRACTIONS, value="4"), asked, minor=37) in {"1", None}


def test_a_negative_amount_stops_the_pod() -> None:
    with pytest.raises(RequestError):
        taken(room(), "-1")
    assert taken(room(), "-1", minor=36) == "-1"


def test_a_capacity_that_is_not_there() -> None:
    assert room().demand({"example.com/memory": 1}, 37).unknown == "example.com/memory"
