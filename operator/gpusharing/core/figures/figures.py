"""What the operator knows of policies, of claims that wait and of quotas, in numbers: for metrics."""

from collections.abc import Mapping
from dataclasses import dataclass

from gpusharing.core.figures.policies import PolicyFigures
from gpusharing.core.figures.quota_use import QuotaUse
from gpusharing.core.figures.rows import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    policies: Mapping[str, PolicyFigures]
    """By name."""
    pending_claims: Mapping[Row, int]
    quota_use: QuotaUse
