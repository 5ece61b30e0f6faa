"""What is wrong with a GPU, by what it has shown: what is done about it, and what ends it.

Some of it is seen at each look and over when it is not seen any more. Errors are told once, and nobody ever says that
they are over: those that a reset mends are remembered until there was one, and a reset is known by what it leaves.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated, Final

from pydantic.dataclasses import dataclass as record

from gpusharing.api.meta import FROZEN_CONFIG, EmptyTuple

HEALTHY: Final = "Healthy"
"""The condition of a GPU that says so."""

NEWS_FOR: Final = 600.0
"""So many seconds people are told of an error that needs nothing to be done about it."""


class Ailment(StrEnum):
    """What the driver says is wrong with a GPU that answers, each time it is asked."""

    ROW_REMAP_PENDING = "RowRemapPending"
    """Memory is broken and will be replaced at the next reset."""
    ROW_REMAP_FAILED = "RowRemapFailed"
    """Memory is broken and there is none left to replace it: the board has to be exchanged."""
    RESET_NEEDED = "ResetNeeded"
    DRAIN_NEEDED = "DrainNeeded"
    """Then a reset, or a reset of its links to others."""
    REBOOT_NEEDED = "RebootNeeded"


class Presence(StrEnum):
    ANSWERS = "Answers"
    SILENT = "Silent"
    """The driver counts it, and it does not say what it is."""
    LOST = "Lost"
    """It has fallen off the bus, or the driver does not count it any more."""
    DRIVER_DOWN = "DriverDown"
    """Nothing can be asked of any GPU."""


class Effect(StrEnum):
    NONE = "None"
    """People are told."""
    NO_SCHEDULE = "NoSchedule"
    """Nobody new gets the GPU. Whoever has it keeps it."""


class Reason(StrEnum):
    """The heaviest first: a condition has one reason."""

    LOST = "GpuLost"
    DRIVER_DOWN = "DriverDown"
    SILENT = "GpuDoesNotAnswer"
    RECOVERY_NEEDED = "RecoveryNeeded"
    FATAL_XID = "FatalXid"
    MEMORY_ERROR = "UncorrectedMemoryError"
    UNAVAILABLE = "GpuUnavailable"
    ROW_REMAP_FAILED = "RowRemapFailed"
    MPS_DOWN = "MpsDaemonDown"
    INSTANCE_GONE = "MigInstanceGone"
    DISOBEYS = "HardwareDisobeys"
    ROW_REMAP_PENDING = "RowRemapPending"
    MINOR_XID = "MinorXid"
    PROGRAM_XID = "ProgramXid"
    UNMONITORED = "Unmonitored"


_RANKS: Final = {reason: rank for rank, reason in enumerate(Reason)}
_ONLY_TOLD: Final = frozenset(
    {
        Reason.DISOBEYS,
        Reason.ROW_REMAP_PENDING,
        Reason.MINOR_XID,
        Reason.PROGRAM_XID,
        Reason.UNMONITORED,
    }
)
_REMEMBERED: Final = frozenset({Reason.FATAL_XID, Reason.MEMORY_ERROR, Reason.UNAVAILABLE})

# What a program did wrong on its own: the GPU works on. NVIDIA's device plugin and their DRA driver skip these, too.
XIDS_OF_PROGRAMS: Final = frozenset({13, 31, 43, 45, 68, 109})
# What needs nothing at once: memory that was repaired, often corrected, or taken from the one program that used it. If
# a reset is to follow, a look at the GPU shows it.
_MINOR_XIDS: Final = frozenset({63, 92, 94})
_XIDS: Final = {
    13: "a program's kernel failed",
    31: "a program used memory that is not its own",
    43: "a program's work was stopped",
    45: "a program's work was cleared away",
    48: "memory could not be corrected",
    63: "broken memory was replaced",
    64: "broken memory could not be replaced",
    68: "a video engine failed",
    74: "an NVLink failed",
    79: "it has fallen off the bus",
    92: "memory is often corrected",
    94: "memory could not be corrected, and only the programs that used it have ended",
    95: "memory could not be corrected, and anything on the GPU may be wrong",
    109: "a program did not give way to the next one",
    119: "its own processor (GSP) did not answer",
    120: "its own processor (GSP) failed",
}
_RESET: Final = "reset it while nothing uses it and the agent is stopped, or reboot the node"
_RECOVERIES: Final = {
    Ailment.REBOOT_NEEDED: "the driver says that it works again only after a reboot of the node",
    Ailment.DRAIN_NEEDED: "the driver says that nobody should use it until it is reset: delete its pods, and then "
    + _RESET,
    Ailment.RESET_NEEDED: f"the driver says that it has to be reset: {_RESET}",
}


@record(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class Fault:
    """An error that a GPU has reported."""

    reason: Reason
    xid: int | None = None
    gpu_instance: int | None = None
    """Of a GPU that is cut: in which part of it."""
    driver_load: int | None = None
    """When the driver was loaded: a number for each time. None: nobody can tell."""

    @property
    def is_remembered(self) -> bool:
        return self.reason in _REMEMBERED


def fault_of_xid(xid: int, *, gpu_instance: int | None = None, driver_load: int | None = None) -> Fault:
    reason = (
        Reason.PROGRAM_XID if xid in XIDS_OF_PROGRAMS else Reason.MINOR_XID if xid in _MINOR_XIDS else Reason.FATAL_XID
    )
    return Fault(reason=reason, xid=xid, gpu_instance=gpu_instance, driver_load=driver_load)


@record(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class History:
    """What has to be known of a GPU's past, also by an agent that has just started. A reboot ends it."""

    faults: Annotated[tuple[Fault, ...], EmptyTuple] = ()
    lost: bool = False
    """When it was last looked for."""
    recovery_wanted: bool = False
    """By the driver, when it last said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A look at one GPU."""

    presence: Presence = Presence.ANSWERS
    problem: str = ""
    """Why it does not answer."""
    ailments: tuple[Ailment, ...] = ()
    complete: bool = True
    """Otherwise what is not among the ailments may be all the same."""
    driver_load: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Why a GPU is not as its claims want it."""

    reason: Reason
    message: str
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    reason: Reason
    message: str
    """What is wrong and what to do."""
    parts: tuple[str, ...] = field(default=())
    """The MIG devices that it is about; none: all of the GPU."""

    @property
    def effect(self) -> Effect:
        return Effect.NONE if self.reason in _ONLY_TOLD else Effect.NO_SCHEDULE


def reported(history: History, fault: Fault) -> History:
    if not fault.is_remembered or fault in history.faults:
        return history
    return replace(history, faults=(*history.faults, fault))


def looked(history: History, look: Look) -> History:
    """What is still to be remembered after a look."""
    if look.presence is Presence.DRIVER_DOWN:
        return history
    # With the driver, all GPUs begin anew.
    since_load = tuple(fault for fault in history.faults if fault.driver_load == look.driver_load)
    if look.presence is Presence.LOST:
        return replace(history, faults=since_load, lost=True)
    if look.presence is Presence.SILENT or not look.complete:
        return replace(history, faults=since_load)
    wanted = any(ailment in _RECOVERIES for ailment in look.ailments)
    # Nothing else brings a lost one back, or makes the driver content.
    was_reset = history.lost or (history.recovery_wanted and not wanted)
    return History(faults=() if was_reset else since_load, recovery_wanted=wanted)


def findings(
    history: History, look: Look, *, news: Iterable[Fault] = (), trouble: Trouble | None = None
) -> tuple[Finding, ...]:
    """All that is wrong now, the heaviest first. `news` are errors that were reported lately."""
    found = [*_presence(look), *_ailments(look)]
    found += [_fault(fault) for fault in (*history.faults, *news)]
    if trouble:
        found.append(Finding(reason=trouble.reason, message=trouble.message, parts=trouble.parts))
    return tuple(sorted(dict.fromkeys(found), key=lambda finding: _RANKS[finding.reason]))


def _presence(look: Look) -> Iterable[Finding]:
    match look.presence:
        case Presence.LOST:
            why = f" ({look.problem})" if look.problem else ""
            yield Finding(
                reason=Reason.LOST,
                message=f"the GPU is lost{why}: see the kernel's log; mostly a reboot of the node brings it back",
            )
        case Presence.SILENT:
            yield Finding(reason=Reason.SILENT, message=f"the GPU does not answer: {look.problem}")
        case Presence.DRIVER_DOWN:
            yield Finding(reason=Reason.DRIVER_DOWN, message=look.problem)
        case Presence.ANSWERS:
            pass


def _ailments(look: Look) -> Iterable[Finding]:
    for ailment in look.ailments:
        match ailment:
            case Ailment.ROW_REMAP_PENDING:
                message = f"broken memory is replaced at the next reset: when it suits, {_RESET}"
                yield Finding(reason=Reason.ROW_REMAP_PENDING, message=message)
            case Ailment.ROW_REMAP_FAILED:
                message = "broken memory cannot be replaced any more: exchange the board"
                yield Finding(reason=Reason.ROW_REMAP_FAILED, message=message)
            case _:
                yield Finding(reason=Reason.RECOVERY_NEEDED, message=_RECOVERIES[ailment])


def _fault(fault: Fault) -> Finding:
    where = "" if fault.gpu_instance is None else f" in GPU instance {fault.gpu_instance}"
    what = f": {_XIDS[fault.xid]}" if fault.xid in _XIDS else ""
    match fault.reason:
        case Reason.FATAL_XID:
            message = f"XID {fault.xid}{where}{what}; {_RESET}"
        case Reason.PROGRAM_XID:
            message = f"XID {fault.xid}{where}{what}; the GPU works on: see the programs that use it"
        case Reason.MINOR_XID:
            message = f"XID {fault.xid}{where}{what}; the GPU works on"
        case Reason.MEMORY_ERROR:
            message = f"memory could not be corrected{where}; {_RESET}"
        case Reason.UNMONITORED:
            message = "errors of this GPU are not reported: its driver does not let it be watched"
        case _:
            message = f"the driver says that the GPU cannot be used; {_RESET}"
    return Finding(reason=fault.reason, message=message)
