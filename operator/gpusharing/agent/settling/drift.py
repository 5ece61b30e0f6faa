"""What others have changed of what we had set, and we have put right."""

from collections import Counter
from enum import StrEnum
from typing import Final

import structlog

log = structlog.get_logger(__name__)


class Drifted(StrEnum):
    SETTINGS = "settings"
    """Time slice or compute mode."""
    MPS_DAEMON = "mps_daemon"
    """It was gone, or had other limits."""
    MIG_INSTANCE = "mig_instance"


class Drift:
    def __init__(self) -> None:
        self.repaired: Final = Counter({what.value: 0 for what in Drifted})

    def was_repaired(self, what: Drifted, uuid: str) -> None:
        self.repaired[what] += 1
        log.warning("changed by others, put right", what=str(what), uuid=uuid)
