"""Why a node is not ready, apart from its GPUs: what people are told when the agent cannot do its work."""

import errno
from collections.abc import Iterable
from enum import StrEnum
from typing import Final, NamedTuple

_REMEDIES: Final = {
    errno.ENOSPC: "make room on its file system",
    errno.EDQUOT: "raise the quota of its file system",
    errno.EROFS: "mount its file system writable",
}


class Reason(StrEnum):
    """Why a node is not ready, apart from its GPUs. The heaviest first."""

    INTERNAL_ERROR = "InternalError"
    """A bug of ours."""
    DRIVER_DOWN = "DriverDown"
    """It has not told of any GPU since the agent started."""
    STATE_NOT_WRITABLE = "StateNotWritable"
    """A file or a directory of ours on the node."""
    SOCKET_TAKEN = "SocketTaken"
    """Another program serves where the kubelet looks for this driver."""
    OTHER_DRIVER_FOUND = "OtherDriverFound"
    """It gives away the same GPUs."""
    NOT_REGISTERED = "NotRegistered"
    """The kubelet does not know the driver."""
    WRITE_REFUSED = "WriteRefused"
    """By the API server."""
    WATCH_BROKEN = "WatchBroken"
    """The agent cannot read a kind that it needs."""


_RANKS: Final = {reason: rank for rank, reason in enumerate(Reason)}


class SocketTakenError(OSError):
    """Another program serves where the kubelet looks for this driver."""


class DirectoryGoneError(Exception):
    """A directory that is mounted into this container is not the node's any more."""


class Problem(NamedTuple):
    reason: Reason
    message: str


def not_writable(error: OSError) -> Problem:
    what = f"{error.filename} cannot be written: {error.strerror}" if error.filename else str(error)
    remedy = _REMEDIES.get(error.errno or 0, "repair it")
    return Problem(Reason.STATE_NOT_WRITABLE, f"{what}: {remedy}; until then no new pod gets a GPU of this node")


def not_registered() -> Problem:
    return Problem(
        Reason.NOT_REGISTERED,
        "the kubelet has not registered the driver, so pods with GPUs of this node neither start nor end: if this "
        "lasts, restart the kubelet",
    )


def put_together(problems: Iterable[Problem]) -> list[Problem]:
    """The heaviest first, each once."""
    return sorted(dict.fromkeys(problems), key=lambda problem: _RANKS[problem.reason])
