"""docs/policies.md has every field of a policy and every reason, and no others."""

import re
from enum import StrEnum
from pathlib import Path

import pytest

from gpusharing.api.base import ApiModel
from gpusharing.api.sharing.node_spec import RefusalReason
from gpusharing.api.sharing.plan import Effect
from gpusharing.api.sharing.policy_spec import SharingPolicySpec
from gpusharing.api.sharing.policy_status import LagReason
from gpusharing.core.policies.policy import ObjectionReason
from gpusharing.core.reasons import (
    AcceptedReason,
    ConditionType,
    ConflictedReason,
    DegradedReason,
    ProgressingReason,
    ReadyReason,
)

DOCUMENT = (Path(__file__).parent.parent / "docs/policies.md").read_text()

REASONS: dict[ConditionType, type[StrEnum]] = {
    ConditionType.ACCEPTED: AcceptedReason,
    ConditionType.READY: ReadyReason,
    ConditionType.PROGRESSING: ProgressingReason,
    ConditionType.CONFLICTED: ConflictedReason,
    ConditionType.DEGRADED: DegradedReason,
}


def rows(heading: str) -> list[list[str]]:
    """Of the table with this heading, without it."""
    table = DOCUMENT.partition(f"\n| {heading} |")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]


def named(cell: str) -> list[str]:
    return re.findall(r"`([\w.]+)`", cell)


def test_every_condition_with_its_reasons() -> None:
    described = {named(cells[0])[0]: sorted(named(cells[1]) + named(cells[2])) for cells in rows("condition")}
    assert described == {type_.value: sorted(reasons) for type_, reasons in REASONS.items()}


def test_every_reason_is_explained_once() -> None:
    explained = [named(cells[0])[0] for cells in rows("reason")]
    assert sorted(explained) == sorted({reason.value for reasons in REASONS.values() for reason in reasons})


@pytest.mark.parametrize(("heading", "values"), [("effect", Effect), ("reason in `lagging`", LagReason)])
def test_what_else_is_closed(heading: str, values: type[StrEnum]) -> None:
    assert [named(cells[0])[0] for cells in rows(heading)] == list(values)


def test_whatever_is_refused_or_objected_to_has_a_reason_in_the_status() -> None:
    assert set(RefusalReason) <= set(DegradedReason)
    # Of what cannot be read, nothing is written.
    assert set(ObjectionReason) - {ObjectionReason.UNREADABLE} <= set(AcceptedReason)


def test_every_field() -> None:
    described = [named(cells[0])[0] for cells in rows("field")]
    assert {field.partition(".")[0] for field in described} == aliases(SharingPolicySpec)
    spec = SharingPolicySpec.model_fields
    for parent in ("gpus", "offers", "tenants", "rollout"):
        model = spec[parent].annotation
        assert isinstance(model, type)
        assert issubclass(model, ApiModel)
        parts = {field.split(".")[1] for field in described if field.startswith(f"{parent}.")}
        assert parts == aliases(model)


def aliases(model: type[ApiModel]) -> set[str]:
    return {field.alias or name for name, field in model.model_fields.items()}
