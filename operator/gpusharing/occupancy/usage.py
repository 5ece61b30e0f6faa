"""What was measured, by Prometheus or by the agents."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from gpusharing.findings.finding import Finding


class Measured(NamedTuple):
    memory: int | None = None
    """Used, in MiB."""
    utilization: float | None = None
    """From 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    gpus: Mapping[str, Measured] = field(default_factory=dict)
    """By uuid. Of others it is what their claims use together."""
    claims: Mapping[tuple[str, str], Measured] = field(default_factory=dict)
    """By the uid of the claim, and the name of its device."""
    missing: Finding | None = None
    """Why it is not known, and what to do."""
