"""What others have changed or removed of what is ours, and we have put right."""

from collections import Counter
from collections.abc import Sequence
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
    SOCKET = "socket"
    """One of those on which the kubelet calls."""
    CLAIM_FILES = "claim_files"
    """What containers of a claim are started with: CDI spec, metadata, memory walls."""
    STATE_FILE = "state_file"


class Drift:
    def __init__(self) -> None:
        self.repaired: Final = Counter({what.value: 0 for what in Drifted})

    def was_repaired(self, what: Drifted, uuid: str) -> None:
        self.repaired[what] += 1
        log.warning("external change reverted", what=str(what), uuid=uuid)

    def were_made_again(self, what: Drifted, which: Sequence[str]) -> None:
        self.repaired[what] += len(which)
        log.warning("external change reverted", what=str(what), which=list(which))
