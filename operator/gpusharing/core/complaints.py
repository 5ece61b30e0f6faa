"""What stands in the way of a policy beside its nodes, for its status."""

from typing import NamedTuple


class Complaint(NamedTuple):
    reason: str
    """In one word, from a closed list."""
    message: str
    """What to do, too."""
