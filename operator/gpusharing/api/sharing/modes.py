"""What a policy says about one mode, wherever it says something about each."""

from typing import Any, Final

from gpusharing.api.names import Sharing
from gpusharing.api.sharing.classes import ExtendedResources
from gpusharing.api.sharing.offers import Offers
from gpusharing.api.sharing.tenants import Quota

FIELDS: Final = {
    Sharing.EXCLUSIVE: "exclusive",
    Sharing.TIME_SLICING: "timeSlicing",
    Sharing.MPS: "mps",
    Sharing.MIG: "mig",
}
"""As people write them."""
_ATTRIBUTES: Final = FIELDS | {Sharing.TIME_SLICING: "time_slicing"}


def for_mode(given: Offers | Quota | ExtendedResources, sharing: Sharing) -> Any:
    return getattr(given, _ATTRIBUTES[sharing])
