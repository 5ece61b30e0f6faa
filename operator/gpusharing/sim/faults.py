"""What can be wrong with a simulated node, each by its name. `SimNode.inject` begins it and `SimNode.clear` ends it.

A full disk is none of these: it is where the program under test keeps its files. Give it a small tmpfs
(`mount -t tmpfs -o size=64k`), or a file system quota.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from gpusharing.sim import layout, mps, rules
from gpusharing.sim.errors import SimError
from gpusharing.sim.gpus import find_gpu
from gpusharing.sim.state import NONE, FaultEffect, FaultState, GpuState, MpsFault, NodeState
from gpusharing.sim.store import Access

_XID_EVENT = 0x8
_FALLEN_OFF_THE_BUS = 79
_RECOVERY_ACTION_EVENT = 0x8000
_RESET = 1
# Of which NVIDIA's catalogue says that the GPU has to be reset.
_XIDS_THAT_NEED_A_RESET = frozenset({46, 48, 62, 64, 74, 79, 95, 119, 120, 140})


@dataclass(frozen=True)
class Fault(ABC):
    """`begin` and `end` are called while the state is locked."""

    name: ClassVar[str]

    @abstractmethod
    def begin(self, access: Access) -> None: ...

    @abstractmethod
    def end(self, access: Access) -> None:
        """Also when it has not begun, or what it did cannot be taken back."""


@dataclass(frozen=True)
class _CallFault(Fault):
    """Of calls of `function`: a name of NVML, which includes its later versions (`nvmlDeviceGetMemoryInfo`), or of
    our nvidia-smi's private calls (`gpusharingSimSetTimeslice`), or `*` for all.

    Without `gpu`, calls on any GPU and on none are hit. `after` so many matching calls, and only so many `times`.
    """

    effect: ClassVar[FaultEffect]

    function: str
    gpu: str | None = field(default=None, kw_only=True)
    times: int | None = field(default=None, kw_only=True)
    after: int = field(default=0, kw_only=True)

    def begin(self, access: Access) -> None:
        state = access.state
        index = next((i for i, slot in enumerate(state.faults) if not slot.id), None)
        if index is None:
            raise SimError(f"a node cannot have more than {len(state.faults)} faults of calls at once")
        slot = self._slot(state)
        state.faults_made += 1
        state.faults[index] = slot
        # Last: from here on calls meet it.
        state.faults[index].id = state.faults_made
        state.fault_slots = max(state.fault_slots, index + 1)

    def end(self, access: Access) -> None:
        wanted = _identity(self._slot(access.state))
        for slot in access.state.faults:
            if slot.id and _identity(slot) == wanted:
                slot.id = 0

    def _slot(self, state: NodeState) -> FaultState:
        return FaultState(
            effect=self.effect,
            gpu=NONE if self.gpu is None else find_gpu(state, self.gpu),
            skip=self.after,
            times=NONE if self.times is None else self.times,
            function=self.function.encode(),
        )


def _identity(slot: FaultState) -> tuple[object, ...]:
    """Not how often it is still to come."""
    return slot.effect, slot.gpu, slot.code, slot.milliseconds, slot.function


@dataclass(frozen=True)
class CallFails(_CallFault):
    """Calls answer `code`."""

    name: ClassVar[str] = "call-fails"
    effect: ClassVar[FaultEffect] = FaultEffect.FAILS

    code: int

    def _slot(self, state: NodeState) -> FaultState:
        slot = super()._slot(state)
        slot.code = self.code
        return slot


@dataclass(frozen=True)
class CallHangs(_CallFault):
    """Calls do not return before the fault is cleared or `seconds` are over; then they do their work."""

    name: ClassVar[str] = "call-hangs"
    effect: ClassVar[FaultEffect] = FaultEffect.HANGS

    seconds: float = 30

    def _slot(self, state: NodeState) -> FaultState:
        slot = super()._slot(state)
        slot.milliseconds = round(self.seconds * 1000)
        return slot


@dataclass(frozen=True)
class CallLies(_CallFault):
    """Calls return what they would on a healthy GPU, and nothing has happened."""

    name: ClassVar[str] = "call-lies"
    effect: ClassVar[FaultEffect] = FaultEffect.LIES


@dataclass(frozen=True)
class _GpuFault(Fault):
    """A condition of a GPU."""

    condition: ClassVar[str]
    """The field of the GPU's state."""

    gpu: str

    def begin(self, access: Access) -> None:
        setattr(self._gpu(access), self.condition, True)

    def end(self, access: Access) -> None:
        setattr(self._gpu(access), self.condition, False)

    def _gpu(self, access: Access) -> GpuState:
        return access.state.gpus[find_gpu(access.state, self.gpu)]


@dataclass(frozen=True)
class GpuLost(_GpuFault):
    """It has fallen off the bus: XID 79, and every call on it answers GPU_IS_LOST until the node is rebooted."""

    name: ClassVar[str] = "gpu-lost"
    condition: ClassVar[str] = "lost"

    def begin(self, access: Access) -> None:
        super().begin(access)
        rules.post_event(access.state, find_gpu(access.state, self.gpu), _XID_EVENT, _FALLEN_OFF_THE_BUS)


@dataclass(frozen=True)
class RowRemapPending(_GpuFault):
    """Rows of memory wait for a reset to be replaced; `failed`: there is no replacement left, the board is to go."""

    name: ClassVar[str] = "row-remap-pending"
    condition: ClassVar[str] = "row_remap_pending"

    failed: bool = False

    def begin(self, access: Access) -> None:
        super().begin(access)
        self._gpu(access).row_remap_failed = self.failed

    def end(self, access: Access) -> None:
        super().end(access)
        self._gpu(access).row_remap_failed = False


@dataclass(frozen=True)
class ResetNeeded(_GpuFault):
    """The driver says that the GPU needs a reset, or another `action` to recover, if it is new enough to tell."""

    name: ClassVar[str] = "reset-needed"
    condition: ClassVar[str] = "recovery_action"

    action: int = _RESET

    def begin(self, access: Access) -> None:
        self._gpu(access).recovery_action = self.action
        rules.post_event(access.state, find_gpu(access.state, self.gpu), _RECOVERY_ACTION_EVENT, self.action)


@dataclass(frozen=True)
class HeldOpen(_GpuFault):
    """Someone who is no process of the GPU holds it (nvidia-persistenced, DCGM, a display): no reset, so on Ampere no
    change of the MIG mode."""

    name: ClassVar[str] = "held-open"
    condition: ClassVar[str] = "held_open"


@dataclass(frozen=True)
class CannotReset(_GpuFault):
    """As in a virtual machine: the GPU cannot be reset, so on Ampere the MIG mode answers RESET_REQUIRED."""

    name: ClassVar[str] = "cannot-reset"
    condition: ClassVar[str] = "cannot_reset"


@dataclass(frozen=True)
class MigModeStuck(_GpuFault):
    """A change of the MIG mode is said to have succeeded and to be active, and stays pending."""

    name: ClassVar[str] = "mig-mode-stuck"
    condition: ClassVar[str] = "mig_mode_stuck"


@dataclass(frozen=True)
class MinorsSwap(_GpuFault):
    """The next change of this GPU's MIG mode exchanges its minor number with that of the next GPU."""

    name: ClassVar[str] = "minors-swap"
    condition: ClassVar[str] = "swaps_minor"


@dataclass(frozen=True)
class Xid(Fault):
    """The driver reports an XID, for the whole GPU or for an instance of it.

    One after which NVIDIA has GPUs reset leaves a `ResetNeeded` behind; `recovery` is another number to leave, or 0.
    """

    name: ClassVar[str] = "xid"

    gpu: str
    xid: int
    gpu_instance: int | None = None
    compute_instance: int | None = None
    recovery: int | None = None

    def begin(self, access: Access) -> None:
        # The driver knows what is to be done before anybody reads the event.
        if action := self._action():
            access.state.gpus[find_gpu(access.state, self.gpu)].recovery_action = action
        rules.post_event(
            access.state,
            find_gpu(access.state, self.gpu),
            _XID_EVENT,
            self.xid,
            gpu_instance=NONE if self.gpu_instance is None else self.gpu_instance,
            compute_instance=NONE if self.compute_instance is None else self.compute_instance,
        )
        if action:
            rules.post_event(access.state, find_gpu(access.state, self.gpu), _RECOVERY_ACTION_EVENT, action)

    def _action(self) -> int:
        if self.recovery is not None:
            return self.recovery
        return _RESET if self.xid in _XIDS_THAT_NEED_A_RESET else 0

    def end(self, access: Access) -> None:
        pass


@dataclass(frozen=True)
class LoneGpuInstance(Fault):
    """A GPU instance without a compute instance, as somebody leaves it who dies between the two.

    To let the second step itself fail: `CallFails("nvmlGpuInstanceCreateComputeInstance", ...)`.
    """

    name: ClassVar[str] = "lone-gpu-instance"

    gpu: str
    profile: str
    start: int

    def begin(self, access: Access) -> None:
        index = find_gpu(access.state, self.gpu)
        profiles = access.state.gpus[index].gpu_profiles
        profile = next((p for p in profiles if p.exists and p.name == self.profile.encode()), None)
        if profile is None:
            raise SimError(f"{self.gpu} has no MIG profile {self.profile!r}")
        if not access.state.gpus[index].mig_mode_current:
            raise SimError(f"{self.gpu} is not in MIG mode")
        if code := rules.create_gpu_instance(access.state, index, profile.id, self.start):
            raise SimError(f"{self.gpu} cannot have a {self.profile} at {self.start}: NVML error {code}")

    def end(self, access: Access) -> None:
        pass


class _MpsCondition(Fault):
    condition: ClassVar[MpsFault]

    def begin(self, access: Access) -> None:
        access.state.mps_fault = self.condition

    def end(self, access: Access) -> None:
        if access.state.mps_fault == self.condition:
            access.state.mps_fault = MpsFault.NONE


@dataclass(frozen=True)
class MpsDoesNotStart(_MpsCondition):
    """nvidia-cuda-mps-control fails when it is to become a daemon."""

    name: ClassVar[str] = "mps-does-not-start"
    condition: ClassVar[MpsFault] = MpsFault.DOES_NOT_START


@dataclass(frozen=True)
class MpsHangs(_MpsCondition):
    """The MPS control daemon takes commands and does not answer."""

    name: ClassVar[str] = "mps-hangs"
    condition: ClassVar[MpsFault] = MpsFault.HANGS


@dataclass(frozen=True)
class MpsServerDoesNotStart(_MpsCondition):
    """The MPS control daemon runs, but its servers end at once."""

    name: ClassVar[str] = "mps-server-does-not-start"
    condition: ClassVar[MpsFault] = MpsFault.SERVER_DOES_NOT_START


@dataclass(frozen=True)
class MpsLimitsNotApplied(_MpsCondition):
    """The MPS control daemon takes limits and tells them, but they bind no client."""

    name: ClassVar[str] = "mps-limits-not-applied"
    condition: ClassVar[MpsFault] = MpsFault.LIMITS_NOT_APPLIED


@dataclass(frozen=True)
class MpsKilled(Fault):
    """The MPS control daemon with this pipe directory is killed, and its servers and their clients are left behind."""

    name: ClassVar[str] = "mps-killed"

    pipe: Path

    def begin(self, access: Access) -> None:
        own = {daemon.pid for daemon in mps.running_daemons(layout.programs(access.directory))}
        if mps.find_daemon(self.pipe) not in own:
            raise SimError(f"this node has no MPS control daemon with the pipe directory {self.pipe}")
        mps.kill_daemon(self.pipe)

    def end(self, access: Access) -> None:
        pass


@dataclass(frozen=True)
class SmiMissing(Fault):
    """There is no nvidia-smi."""

    name: ClassVar[str] = "smi-missing"

    def begin(self, access: Access) -> None:
        tool, aside = self._paths(access.directory)
        if tool.exists():
            tool.rename(aside)

    def end(self, access: Access) -> None:
        tool, aside = self._paths(access.directory)
        if aside.exists():
            aside.rename(tool)

    def is_present(self, access: Access) -> bool:
        return not self._paths(access.directory)[0].exists()

    def _paths(self, directory: Path) -> tuple[Path, Path]:
        programs = layout.programs(directory)
        return programs / "nvidia-smi", programs / ".nvidia-smi"


_CONDITIONS = (GpuLost, RowRemapPending, ResetNeeded, HeldOpen, CannotReset, MigModeStuck, MinorsSwap)
_MPS_CONDITIONS = {
    fault.condition: fault for fault in (MpsDoesNotStart, MpsHangs, MpsServerDoesNotStart, MpsLimitsNotApplied)
}

FAULTS: dict[str, type[Fault]] = {
    fault.name: fault
    for fault in (
        CallFails,
        CallHangs,
        CallLies,
        *_CONDITIONS,
        Xid,
        LoneGpuInstance,
        *_MPS_CONDITIONS.values(),
        MpsKilled,
        SmiMissing,
    )
}


def present(access: Access) -> list[Fault]:
    """What is wrong now, as it could be injected again. What happens once and is over, like an XID, is not."""
    state = access.state
    found = [_fault_of_slot(state, slot) for slot in state.faults if slot.id and slot.times]
    for gpu in state.gpus[: state.gpu_count]:
        found += [_condition(fault, gpu) for fault in _CONDITIONS if getattr(gpu, fault.condition)]
    if state.mps_fault:
        found.append(_MPS_CONDITIONS[MpsFault(state.mps_fault)]())
    if SmiMissing().is_present(access):
        found.append(SmiMissing())
    return found


def _fault_of_slot(state: NodeState, slot: FaultState) -> Fault:
    function = slot.function.decode()
    gpu = None if slot.gpu == NONE else state.gpus[slot.gpu].uuid.decode()
    times = None if slot.times == NONE else slot.times
    match FaultEffect(slot.effect):
        case FaultEffect.FAILS:
            return CallFails(function, slot.code, gpu=gpu, times=times, after=slot.skip)
        case FaultEffect.HANGS:
            return CallHangs(function, slot.milliseconds / 1000, gpu=gpu, times=times, after=slot.skip)
        case FaultEffect.LIES:
            return CallLies(function, gpu=gpu, times=times, after=slot.skip)


def _condition(fault: type[_GpuFault], gpu: GpuState) -> Fault:
    uuid = gpu.uuid.decode()
    if fault is RowRemapPending:
        return RowRemapPending(uuid, failed=bool(gpu.row_remap_failed))
    if fault is ResetNeeded:
        return ResetNeeded(uuid, action=gpu.recovery_action)
    return fault(uuid)


def end_all(access: Access) -> None:
    for slot in access.state.faults:
        slot.id = 0
    access.state.mps_fault = MpsFault.NONE
    SmiMissing().end(access)
    for gpu in access.state.gpus[: access.state.gpu_count]:
        for condition in _CONDITIONS:
            condition(gpu.uuid.decode()).end(access)
