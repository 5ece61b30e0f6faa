"""Reasons of conditions, from which docs/reference/conditions.md is generated."""

import re
from itertools import chain
from pathlib import Path

import pytest

from gpusharing.agent import problems
from gpusharing.agent.health import conditions
from gpusharing.api.reasons import ConditionReason, ExplainedReason
from gpusharing.api.sharing import gpu_status
from gpusharing.api.sharing.node_spec import LossReason
from gpusharing.api.sharing.policy_status import LagReason
from gpusharing.core.reasons import REASONS

OF_CONDITIONS: list[type[ConditionReason]] = [
    *REASONS.values(),
    conditions.ReadyReason,
    problems.Reason,
    conditions.CleanupReason,
    conditions.TrustReason,
    conditions.HealthyReason,
    gpu_status.Reason,
    conditions.HeldReason,
    conditions.PreparedReason,
]
ALL: list[type[ExplainedReason]] = [*OF_CONDITIONS, LagReason, LossReason]


def test_all_are_here() -> None:
    """Those that the page does not know would not be on it."""
    assert set(ALL) == set(ExplainedReason.__subclasses__()) - {ConditionReason} | set(ConditionReason.__subclasses__())


@pytest.mark.parametrize("reason", list(chain.from_iterable(ALL)), ids=repr)
def test_it_is_explained_in_sentences(reason: ExplainedReason) -> None:
    assert reason.meaning.endswith(".")
    assert reason.remedy == "" or reason.remedy.endswith(".")


def test_the_heaviest_reason_of_a_gpu_decides_whether_it_is_healthy() -> None:
    """A condition has one reason, and its status from it."""
    of_gpu = [reason.is_true for reason in gpu_status.Reason]
    assert of_gpu == sorted(of_gpu)


def test_the_page_of_health_has_all_with_their_effect() -> None:
    page = (Path(__file__).parent.parent / "docs/health.md").read_text()
    rows = re.findall(r"^\| (`.+?) \| .+ \| (.*\bwithheld|reported)[^|]* \| [^|]+ \|$", page, re.MULTILINE)
    described = {reason: effect == "reported" for names, effect in rows for reason in re.findall(r"`(\w+)`", names)}
    assert described == {reason.value: reason.is_true for reason in gpu_status.Reason}
