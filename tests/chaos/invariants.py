"""What must be true at every moment of a run, judged by what is: the containers' processes as the kernel has them, the
GPUs as their driver has them, and what the agent has written down. Nobody is asked."""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from gpusharing.api import names
from gpusharing.api.names import Sharing
from gpusharing.sim import ComputeMode, Gpu, SimNode
from gpusharing.sim.cuda import PROGRAM

MAX_CLIENTS: Final = 4
"""Of every policy of a run."""
_GPU_NODE: Final = re.compile("nvidia([0-9]+)")
_HEARTBEAT: Final = "--heartbeat="
_SHARING: Final = "_SHARING"


class Invariant(StrEnum):
    OWN_GPU = "a running pod keeps its GPU, and sees no other"
    ONE_MODE = "a GPU is in one mode, and no device has two owners; nothing is left over when claims have gone"
    COMES_BACK = "everything works again by itself, in a bounded time"
    DENIED = "nothing denied is prepared"
    REPORTED = "what is wrong is reported where people look"
    QUIET = "without work there are no writes and little CPU"


class Violation(Exception):  # noqa: N818 (what a run looks for, not an error of the run)
    def __init__(self, invariant: Invariant, fact: str) -> None:
        super().__init__(f"{invariant}: {fact}")
        self.invariant = invariant


@dataclass(frozen=True, order=True)
class Program:
    """One that computes, in a container. Where a GPU is what it was given, and what it sees, is read from inside."""

    witness: str
    pid: int
    started: int
    device: str
    """The UUID that its environment names: of a GPU or of a MIG instance."""
    sharing: Sharing
    minors: frozenset[int]
    """Of the device nodes in its container."""

    @property
    def life(self) -> tuple[int, int]:
        """A process number may be used again."""
        return self.pid, self.started


@dataclass(frozen=True)
class Device:
    """What a claim has, by the agent's record."""

    claim: str
    uuid: str
    sharing: Sharing


@dataclass(frozen=True)
class Look:
    """All at one moment: programs and records were there before the GPUs were read, and after."""

    gpus: tuple[Gpu, ...]
    programs: frozenset[Program]
    records: frozenset[Device]

    def program_of(self, witness: str) -> Program | None:
        return next((program for program in self.programs if program.witness == witness), None)

    def gpu_of(self, program: Program) -> Gpu | None:
        """None: it is not on the node now."""
        return next((gpu for gpu in self.gpus if program.device in {gpu.uuid, *_instances(gpu)}), None)


def look_at(node: SimNode, state_directory: Path) -> Look:
    programs, records = _programs(node), _records(state_directory)
    gpus = tuple(node.gpus())
    return Look(gpus, programs & _programs(node), records & _records(state_directory))


def violations(look: Look, *, strangers: str, settings_hold: bool = True) -> Iterator[Violation]:
    """`strangers` is the namespace to which everything is denied. While settings do not hold, somebody other than the
    agent has changed them."""
    for program in look.programs:
        yield from _sees_its_own(look, program)
        if program.witness.startswith(f"{strangers}/"):
            yield Violation(Invariant.DENIED, f"{program.witness} runs on {program.device}")
    for device in look.records:
        if device.claim.startswith(f"{strangers}/"):
            yield Violation(Invariant.DENIED, f"claim {device.claim} is prepared on {device.uuid}")
    for gpu in look.gpus:
        yield from _has_one_mode(look, gpu)
        yield from _has_owners(look, gpu)
        if settings_hold:
            yield from _is_set(look, gpu)


def _sees_its_own(look: Look, program: Program) -> Iterator[Violation]:
    gpu = look.gpu_of(program)
    own = {gpu.minor} if gpu else set()
    foreign = {f"/dev/nvidia{other.minor}": other.uuid for other in look.gpus if other.minor in program.minors - own}
    if foreign:
        yield Violation(Invariant.OWN_GPU, f"{program.witness} has {program.device}, and sees {foreign}")
    if gpu and gpu.minor not in program.minors:
        yield Violation(Invariant.OWN_GPU, f"{program.witness} does not see {gpu.uuid}, /dev/nvidia{gpu.minor}")


def _has_one_mode(look: Look, gpu: Gpu) -> Iterator[Violation]:
    modes: dict[Sharing, set[str]] = defaultdict(set)
    for program in look.programs:
        if look.gpu_of(program) is gpu:
            modes[program.sharing].add(f"pod {program.witness}")
    for device in look.records:
        if device.uuid == gpu.uuid:
            modes[device.sharing].add(f"claim {device.claim}")
    if len(modes) > 1:
        told = {str(mode): sorted(users) for mode, users in modes.items()}
        yield Violation(Invariant.ONE_MODE, f"GPU {gpu.uuid} is in the modes {told}")


def _has_owners(look: Look, gpu: Gpu) -> Iterator[Violation]:
    """By the programs: those of a whole GPU or of an instance are alone on it."""
    users: dict[str, list[Program]] = defaultdict(list)
    for program in look.programs:
        if look.gpu_of(program) is gpu:
            users[program.device].append(program)
    for device, programs in users.items():
        is_shared = programs[0].sharing in {Sharing.TIME_SLICING, Sharing.MPS}
        if len(programs) > (MAX_CLIENTS if is_shared else 1):
            pods = sorted(program.witness for program in programs)
            yield Violation(Invariant.ONE_MODE, f"{device} ({programs[0].sharing}) has {len(pods)} users: {pods}")


def _is_set(look: Look, gpu: Gpu) -> Iterator[Violation]:
    for program in look.programs:
        if look.gpu_of(program) is not gpu:
            continue
        is_mig = bool(gpu.mig_mode and gpu.mig_mode.current)
        if is_mig != (program.sharing is Sharing.MIG):
            yield Violation(
                Invariant.ONE_MODE,
                f"{program.witness} has GPU {gpu.uuid} as {program.sharing}, and MIG is {'on' if is_mig else 'off'}",
            )
        wanted = ComputeMode.EXCLUSIVE_PROCESS if program.sharing is Sharing.MPS else ComputeMode.DEFAULT
        if not is_mig and gpu.compute_mode is not wanted:
            yield Violation(
                Invariant.ONE_MODE,
                f"{program.witness} has GPU {gpu.uuid} as {program.sharing}, in compute mode {gpu.compute_mode.name}",
            )


def _instances(gpu: Gpu) -> list[str]:
    return [device.uuid for instance in gpu.gpu_instances for device in instance.compute_instances]


# ------------------------------------------------------------------------------------------------- what there is


def _programs(node: SimNode) -> frozenset[Program]:
    found = set()
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            try:
                program = _program(process, node.programs / PROGRAM)
            except (OSError, ValueError, LookupError, StopIteration):
                # It ends just now, or has not become what it will be.
                continue
            if program:
                found.add(program)
    return frozenset(found)


def _program(process: Path, executable: Path) -> Program | None:
    if (process / "exe").readlink() != executable:
        return None
    arguments = (process / "cmdline").read_text().split("\0")
    heartbeat = next(word for word in arguments if word.startswith(_HEARTBEAT)).removeprefix(_HEARTBEAT)
    environment = dict(line.split("=", 1) for line in (process / "environ").read_text().split("\0") if "=" in line)
    variable = next(name for name in environment if name.startswith("GPUSHARING_") and name.endswith(_SHARING))
    nodes = (_GPU_NODE.fullmatch(path.name) for path in (process / "root" / "dev").iterdir())
    return Program(
        witness=Path(heartbeat).name.replace(".", "/", 1),
        pid=int(process.name),
        started=int((process / "stat").read_text().rpartition(")")[2].split()[19]),
        device=environment[variable.removesuffix(_SHARING)],
        sharing=Sharing(environment[variable]),
        minors=frozenset(int(node[1]) for node in nodes if node),
    )


def _records(state_directory: Path) -> frozenset[Device]:
    found: set[Device] = set()
    for path in (state_directory / "claims").glob("*.json"):
        try:
            claim: Mapping[str, object] = json.loads(path.read_bytes())["content"]
            found |= set(_devices(claim))
        except (OSError, ValueError, KeyError, TypeError):
            # Torn by a fault, or just gone.
            continue
    return frozenset(found)


def _devices(claim: Mapping[str, object]) -> Iterator[Device]:
    devices = claim["devices"]
    assert isinstance(devices, list)
    for device in devices:
        if sharing := names.sharing_of_device(device["device"]):
            yield Device(f"{claim['namespace']}/{claim['name']}", device["uuid"], sharing)
