"""An agent that is killed at the n-th step at which it makes a difference."""

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, Final

from gpusharing.agent.state.models import GpuJournal, PreparedClaim
from gpusharing.agent.state.records import Records
from gpusharing.nvidia.hardware import Hardware

_CHANGES: Final = (
    "set_compute_mode", "set_time_slice", "set_mig_mode", "create_mig_instance", "destroy_mig_instance", "start_mps",
    "quit_mps",
)  # fmt: skip


class KilledError(BaseException):
    """Nobody handles that."""


class Fuse:
    def __init__(self) -> None:
        self.left: int | None = None
        self.error: type[BaseException] = KilledError

    def point(self, step: str) -> None:
        if self.left is None:
            return
        if self.left == 0:
            self.left = None
            raise self.error(step)
        self.left -= 1


class MortalHardware(Hardware):
    """Its steps are the changes of GPUs, before and after each."""

    def __init__(self, *arguments: Any, fuse: Fuse, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        for name in _CHANGES:
            setattr(self, name, _mortal(getattr(self, name), fuse))

    async def reopen(self) -> None:
        """As the process after a reboot would."""
        await self._threads.do(self._session.close)
        await self.open()


class MortalRecords(Records):
    """Its steps are the writes."""

    def __init__(self, *arguments: Any, fuse: Fuse, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._fuse = fuse

    def put_journal(self, uuid: str, journal: GpuJournal) -> None:
        self._fuse.point("journal")
        super().put_journal(uuid, journal)
        self._fuse.point("journalled")

    def put_claim(self, claim: PreparedClaim) -> None:
        self._fuse.point("claim")
        super().put_claim(claim)
        self._fuse.point("claimed")

    def drop_claim(self, uid: str) -> None:
        self._fuse.point("drop")
        super().drop_claim(uid)
        self._fuse.point("dropped")


def _mortal(change: Callable[..., Awaitable[Any]], fuse: Fuse) -> Callable[..., Awaitable[Any]]:
    @wraps(change)
    async def mortal(*arguments: Any, **keywords: Any) -> Any:
        fuse.point(f"{change.__name__}: begin")
        result = await change(*arguments, **keywords)
        fuse.point(f"{change.__name__}: end")
        return result

    return mortal
