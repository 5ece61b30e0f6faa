"""docs/policies.md has every field, condition and effect of a policy, and no others."""

import re
from pathlib import Path

from gpusharing.api.base import ApiModel
from gpusharing.api.sharing.node_spec import RefusalReason
from gpusharing.api.sharing.plan import Effect
from gpusharing.api.sharing.policy_spec import SharingPolicySpec
from gpusharing.core.reasons import REASONS, DegradedReason

DOCUMENT = (Path(__file__).parent.parent / "docs/policies.md").read_text()


def rows(heading: str) -> list[list[str]]:
    """Of the table with this heading, without it."""
    table = DOCUMENT.partition(f"\n| {heading} |")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]


def named(cell: str) -> list[str]:
    return re.findall(r"`([\w.]+)`", cell)


def test_every_condition() -> None:
    assert [named(cells[0])[0] for cells in rows("condition")] == list(REASONS)


def test_every_effect() -> None:
    assert [named(cells[0])[0] for cells in rows("effect")] == list(Effect)


def test_whatever_is_refused_has_a_reason_in_the_status() -> None:
    assert set(RefusalReason) <= set(DegradedReason)


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
