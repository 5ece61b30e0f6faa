"""A decision for the cluster as a whole, or on a part of it: guards, classes, quotas or templates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpusharing.core.intents import Intent
from gpusharing.core.reasons import Complaint


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDecision:
    intents: Sequence[Intent] = ()
    complaints: Mapping[str, Sequence[Complaint]] = field(default_factory=dict)
    """By policy."""
    guards_pending: frozenset[str] = frozenset()
    """Policies for whose current tenants the guards were not seen to hold yet."""

    def differs_for(self, other: "ClusterDecision") -> set[str]:
        """The policies of which it says something else."""
        named = self.complaints.keys() | other.complaints.keys()
        return {name for name in named if self.complaints.get(name) != other.complaints.get(name)} | (
            self.guards_pending ^ other.guards_pending
        )
