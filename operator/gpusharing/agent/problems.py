"""Why a node is not ready, apart from its GPUs: what people are told when the agent cannot do its work."""

import errno
from collections.abc import Iterable
from typing import Final, NamedTuple

from gpusharing.api.reasons import ConditionReason

_REMEDIES: Final = {
    errno.ENOSPC: "make room on its file system",
    errno.EDQUOT: "raise the quota of its file system",
    errno.EROFS: "mount its file system writable",
}


class Reason(ConditionReason):
    """Why a node is not ready, apart from its GPUs. The heaviest first."""

    INTERNAL_ERROR = (
        "InternalError",
        False,
        "A step of the agent fails because of a bug. Other steps go on.",
        "Report it with the agent's log.",
    )
    DRIVER_DOWN = (
        "DriverDown",
        False,
        "NVIDIA's driver has listed no GPU since the agent started.",
        "Repair the driver of the node.",
    )
    STATE_NOT_WRITABLE = (
        "StateNotWritable",
        False,
        "A file or a directory of the agent on the node cannot be written. No new pod gets a GPU of the node.",
        "Do what the message says: make room, or mount the file system writable.",
    )
    SOCKET_TAKEN = (
        "SocketTaken",
        False,
        "Another program serves where the kubelet looks for this driver.",
        "End the program that the message names.",
    )
    OTHER_DRIVER_FOUND = (
        "OtherDriverFound",
        False,
        "Another driver on the node allocates the same GPUs.",
        "Remove the other driver from the nodes of the agent.",
        "install.md",
    )
    NOT_REGISTERED = (
        "NotRegistered",
        False,
        "The kubelet has not registered the driver, so pods with GPUs neither start nor end.",
        "If this lasts, restart the kubelet.",
    )
    WRITE_REFUSED = (
        "WriteRefused",
        False,
        "The API server refuses a write of the agent.",
        "The message has the API server's answer; compare the agent's rights with `manifests/base`.",
    )
    WATCH_BROKEN = (
        "WatchBroken",
        False,
        "The agent cannot read a kind that it needs, so changes do not reach the node.",
        "The message has the API server's answer; compare the agent's rights with `manifests/base`.",
    )


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
