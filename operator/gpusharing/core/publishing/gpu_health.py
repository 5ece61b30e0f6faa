"""What is wrong with a GPU, what is done about it, and what ends it.

Some problems show at each inspection, and have ended when they do not show any more. Errors are reported once, and the
driver never reports that they have ended: those that only a reset ends are remembered until there was one, and a reset
is known by what it leaves.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated, Final

from pydantic.dataclasses import dataclass as record

from gpusharing.api import names
from gpusharing.api.meta import FROZEN_CONFIG, EmptyTuple
from gpusharing.api.names import MigPlace
from gpusharing.api.sharing.gpu_status import Reason
from gpusharing.core.devices.gpu import MigSupport

NEWS_FOR: Final = 600.0
"""For so many seconds an error is reported that needs no action."""


class Ailment(StrEnum):
    """A problem of a GPU that answers, which the driver reports each time it is asked."""

    ROW_REMAP_PENDING = "RowRemapPending"
    """Memory is broken and will be replaced at the next reset."""
    ROW_REMAP_FAILED = "RowRemapFailed"
    """Memory is broken and there are no spare rows left: the board has to be replaced."""
    RESET_NEEDED = "ResetNeeded"
    DRAIN_NEEDED = "DrainNeeded"
    """And then a reset, or a reset of its links to other GPUs."""
    REBOOT_NEEDED = "RebootNeeded"
    IMEX_RECOVERY_NEEDED = "ImexRecoveryNeeded"
    """Not of the GPU: of the domain in which GPUs of several nodes share memory."""


class Presence(StrEnum):
    ANSWERS = "Answers"
    NOT_RESPONDING = "NotResponding"
    """The driver counts it, but its properties cannot be read."""
    LOST = "Lost"
    """It has fallen off the bus, or the driver does not count it any more."""
    DRIVER_DOWN = "DriverDown"
    """Nothing can be asked of any GPU."""


class Effect(StrEnum):
    NONE = "None"
    """It is reported."""
    NO_SCHEDULE = "NoSchedule"
    """No new claim gets the GPU. Claims that have it keep it."""


_RANKS: Final = {reason: rank for rank, reason in enumerate(Reason)}
_REMEMBERED: Final = frozenset({Reason.FATAL_XID, Reason.MEMORY_ERROR, Reason.UNAVAILABLE})

# For drivers that do not say themselves what an error needs. After these, only the program has to be restarted.
_PROGRAM_XIDS: Final = frozenset({8, 11, 13, 31, 41, 43, 45, 68, 69, 109})
# After these, nothing is needed at once: memory was replaced, often corrected, or taken from the one program that used
# it. If the GPU needs a reset, an inspection shows it.
_MINOR_XIDS: Final = frozenset({63, 92, 94, 154})
_XIDS: Final = {
    8: "a program's work did not end in time",
    11: "a program sent broken commands",
    13: "a program's kernel failed",
    31: "a program used memory that is not its own",
    41: "a program's copy failed",
    43: "a program's work was stopped",
    45: "a program's work was cleared away",
    48: "memory could not be corrected",
    63: "broken memory was replaced",
    64: "broken memory could not be replaced",
    68: "a video engine failed",
    69: "a program sent a command that the GPU does not know",
    74: "an NVLink failed",
    79: "it has fallen off the bus",
    92: "memory is often corrected",
    94: "memory could not be corrected, and only the programs that used it have ended",
    95: "memory could not be corrected, and anything on the GPU may be wrong",
    109: "a program did not yield to the next one",
    119: "its own processor (GSP) did not answer",
    120: "its own processor (GSP) failed",
    154: "the driver changed what would recover the GPU",
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
    """The number of the MIG instance in which it happened."""
    place: MigPlace | None = None
    """Where that instance is. None: the fault is about the whole GPU."""
    driver_load: int | None = None
    """When the driver was loaded: a number for each time. None: nobody can tell."""
    reported_at: str | None = None
    """The time of the first report. With it, people name the fault."""

    @property
    def is_remembered(self) -> bool:
        return self.reason in _REMEMBERED


def fault_of_xid(
    xid: int,
    *,
    needs_recovery: bool | None = None,
    ignored: Collection[int] = (),
    gpu_instance: int | None = None,
    place: MigPlace | None = None,
    driver_load: int | None = None,
) -> Fault:
    """The only place that decides how bad an XID is: first the administrator (`ignored`), then the driver
    (`needs_recovery`; None: it does not say), then the tables."""
    is_programs = xid in _PROGRAM_XIDS
    if xid not in ignored and (
        needs_recovery or (needs_recovery is None and not is_programs and xid not in _MINOR_XIDS)
    ):
        reason = Reason.FATAL_XID
    else:
        reason = Reason.PROGRAM_XID if is_programs else Reason.MINOR_XID
    return Fault(reason=reason, xid=xid, gpu_instance=gpu_instance, place=place, driver_load=driver_load)


@record(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class History:
    """What an agent that has just started must know of a GPU's past. A reboot ends it."""

    faults: Annotated[tuple[Fault, ...], EmptyTuple] = ()
    lost: bool = False
    """At the last inspection."""
    recovery_wanted: bool = False
    """What the driver last said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What an inspection of one GPU shows."""

    presence: Presence = Presence.ANSWERS
    problem: str = ""
    """Why it does not answer."""
    ailments: tuple[Ailment, ...] = ()
    complete: bool = True
    """Otherwise what is not among the ailments may be all the same."""
    driver_load: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Why a GPU does not have the settings of its claims."""

    reason: Reason
    message: str
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    reason: Reason
    message: str
    """What is wrong and what to do."""
    parts: tuple[str, ...] = field(default=())
    """The MIG devices whose claims it is about; none: all claims."""
    place: MigPlace | None = None
    """The MIG instance that it is about; None: all of the GPU."""

    @property
    def effect(self) -> Effect:
        return Effect.NONE if self.reason.is_true else Effect.NO_SCHEDULE

    def concerns(self, device: str, mig: MigSupport | None) -> bool:
        """Whether it is about this device: a MIG instance has failed for each device that has memory in common with
        it, and not for its neighbours. `mig` is None where nobody knows what the GPU can be divided into."""
        name = names.read_device(device)
        if self.place is None or name is None or name.place is None or mig is None:
            return True
        return mig.overlap(self.place, name.place)


def remember(history: History, fault: Fault, *, needs_recovery: bool = False) -> History:
    """`needs_recovery`: the driver says so already, and when it stops, the fault has ended."""
    if not fault.is_remembered or any(_is_same(fault, known) for known in history.faults):
        return history
    wanted = history.recovery_wanted or needs_recovery
    return replace(history, faults=(*history.faults, fault), recovery_wanted=wanted)


def forget(history: History, faults: Collection[Fault]) -> History:
    """Without faults that people say are none."""
    return replace(history, faults=tuple(fault for fault in history.faults if fault not in faults))


def _is_same(one: Fault, other: Fault) -> bool:
    return replace(one, reported_at=None) == replace(other, reported_at=None)


def after_inspection(history: History, look: Look) -> History:
    """What is still to be remembered."""
    if look.presence is Presence.DRIVER_DOWN:
        return history
    # With the driver, all GPUs begin anew.
    since_load = tuple(fault for fault in history.faults if fault.driver_load == look.driver_load)
    if look.presence is Presence.LOST:
        return replace(history, faults=since_load, lost=True)
    if look.presence is Presence.NOT_RESPONDING or not look.complete:
        return replace(history, faults=since_load)
    wanted = any(ailment in _RECOVERIES for ailment in look.ailments)
    # Nothing else brings a lost one back, or makes the driver content.
    was_reset = history.lost or (history.recovery_wanted and not wanted)
    return History(faults=() if was_reset else since_load, recovery_wanted=wanted)


def reason_to_withhold(found: Iterable[Finding], device: str, mig: MigSupport | None) -> Reason | None:
    """The heaviest reason why no new claim may get the device."""
    withholding = (finding for finding in found if finding.effect is Effect.NO_SCHEDULE)
    return next((finding.reason for finding in withholding if finding.concerns(device, mig)), None)


def findings(
    history: History, look: Look, *, news: Iterable[Fault] = (), trouble: Trouble | None = None
) -> tuple[Finding, ...]:
    """All that is wrong now, the heaviest first. `news` are errors that were reported in the last minutes."""
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
                message=f"the GPU is lost{why}: see the kernel's log, and reboot the node",
            )
        case Presence.NOT_RESPONDING:
            yield Finding(reason=Reason.NOT_RESPONDING, message=f"the GPU does not answer: {look.problem}")
        case Presence.DRIVER_DOWN:
            yield Finding(reason=Reason.DRIVER_DOWN, message=look.problem)
        case Presence.ANSWERS:
            pass


def _ailments(look: Look) -> Iterable[Finding]:
    for ailment in look.ailments:
        match ailment:
            case Ailment.ROW_REMAP_PENDING:
                message = f"broken memory is replaced at the next reset: when it suits you, {_RESET}"
                yield Finding(reason=Reason.ROW_REMAP_PENDING, message=message)
            case Ailment.ROW_REMAP_FAILED:
                message = "the GPU has no spare memory rows left: replace the board"
                yield Finding(reason=Reason.ROW_REMAP_FAILED, message=message)
            case Ailment.IMEX_RECOVERY_NEEDED:
                message = "the driver says that the GPU's IMEX domain has to be recovered: see NVIDIA's IMEX service"
                yield Finding(reason=Reason.IMEX_RECOVERY_NEEDED, message=message)
            case _:
                yield Finding(reason=Reason.RECOVERY_NEEDED, message=_RECOVERIES[ailment])


def _fault(fault: Fault) -> Finding:
    when = "" if fault.reported_at is None else f" at {fault.reported_at}"
    where = "" if fault.gpu_instance is None else f" in GPU instance {fault.gpu_instance}"
    what = f": {_XIDS[fault.xid]}" if fault.xid in _XIDS else ""
    match fault.reason:
        case Reason.FATAL_XID:
            message = f"XID {fault.xid}{when}{where}{what}; {_RESET}"
        case Reason.PROGRAM_XID:
            message = f"XID {fault.xid}{when}{where}{what}; the GPU works: check the programs that use it"
        case Reason.MINOR_XID:
            message = f"XID {fault.xid}{when}{where}{what}; the GPU works"
        case Reason.MEMORY_ERROR:
            message = f"memory could not be corrected{when}{where}; {_RESET}"
        case Reason.UNMONITORED:
            message = "the driver does not report errors of this GPU"
        case _:
            message = f"the driver says{when} that the GPU cannot be used; {_RESET}"
    return Finding(reason=fault.reason, message=message, place=fault.place)
