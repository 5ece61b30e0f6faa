"""A leader that cannot read a kind makes way for another replica, which perhaps can."""

import asyncio
from typing import Final

from gpusharing.controller.kopf_session import KopfSession
from gpusharing.kube.watches import DeafError, Watches

GIVES_UP_AFTER: Final = 120.0
"""Seconds. An API server that is away altogether ends the lease long before that; a replica that leads anew needs half
a minute, and is not to come and go with every trouble that passes."""

_LOOK_EVERY: Final = 1.0


async def end_when_deaf(watches: Watches, session: KopfSession) -> None:
    """Until DeafError."""
    while True:
        worst = watches.worst
        if worst is not None and worst.broken_for > GIVES_UP_AFTER:
            raise DeafError(str(worst))
        if session.age > GIVES_UP_AFTER:
            raise DeafError(f"Kopf's handlers have not heard an event that came {session.age:.0f} s ago")
        await asyncio.sleep(_LOOK_EVERY)
