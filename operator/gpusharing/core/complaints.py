"""What stands in the way of a policy beside its nodes, for its status."""

from typing import NamedTuple

from gpusharing.core.reasons import DegradedReason


class Complaint(NamedTuple):
    reason: DegradedReason
    message: str
    """What to do, too."""
