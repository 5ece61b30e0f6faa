"""What a GPU publishes at the moment: which devices, and whether anybody new may have them."""

from enum import StrEnum
from typing import Final

from pydantic.dataclasses import dataclass

from gpusharing.api.meta import FROZEN_CONFIG

DEVICES_PER_SLICE: Final = 64
"""Limit of resource.k8s.io/v1. Without counters and taints a slice may have more, but taints come at any time."""


class Standing(StrEnum):
    OPEN = "Open"
    CLOSING = "Closing"
    """Nobody new gets it: it is to be withdrawn."""
    DRAINING = "Draining"
    """Likewise, and whoever still holds it is to leave: the policy does not offer it any more."""


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class Entry:
    """One device of a GPU in its slice. Kept on disk."""

    device: str
    policy: str | None = None
    """The policy that it is offered by, or was offered by when that ended."""
    standing: Standing = Standing.OPEN
    unwanted_since: float | None = None
    """Since when it should not be there; None while it should."""
    closing_since: float | None = None
    """Since when the API says that it is closing; None also while that is still to be written."""
