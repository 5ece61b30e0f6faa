"""The GPU node of the histories: simulated, in memory, and used by everything that is not the agent."""

import ctypes
import json
import shutil
import socket
import struct
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from gpusharing import sim
from gpusharing.nvidia import programs
from gpusharing.nvidia.mps import processes
from gpusharing.nvidia.programs import Result
from gpusharing.sim import cdi, mps, procfs, rules, store
from harness.mounts import daemons_in, unmount_below

GPUS: Final = "H100-80GB:2,A100-80GB:1"
SLICES: Final = {"Default": 0, "Short": 1, "Medium": 2, "Long": 3}

_COMMAND: Final = struct.Struct("I")
_GOODBYE: Final = 2
_PATIENCE: Final = 5.0
run_program = programs.run


class SimulatedNode:
    """Made once and set back for each history, which is much faster than to make it anew."""

    def __init__(self) -> None:
        # A short path, because sockets have no room for more.
        self.home = Path(tempfile.mkdtemp(prefix="h", dir="/dev/shm"))
        self.sim = sim.create(self.home / "n", GPUS, seed="histories")
        self.state, self.cdi = self.home / "s", self.home / "c"
        self.uuids = [gpu.uuid for gpu in self.sim.gpus()]
        self._at_first = self.sim.state.read_bytes()
        self._boots = 0
        self._first = 0
        """Which GPU the kernel finds first at a boot."""

    def begin_again(self) -> None:
        self._end_mps()
        self._first = 0
        with store.locked(self.sim.state) as state:
            ctypes.memmove(ctypes.addressof(state), self._at_first, len(self._at_first))
            state.files_stale = (1 << len(self.uuids)) - 1
        for directory in (self.state, self.cdi):
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir()
        cdi.write_cdi_spec(self.cdi, self.sim.gpus())

    def remove(self) -> None:
        self._end_mps()
        shutil.rmtree(self.home)

    @property
    def mps_home(self) -> Path:
        return self.state / "mps"

    def gpus(self) -> dict[str, sim.Gpu]:
        return {gpu.uuid: gpu for gpu in self.sim.gpus()}

    def reboot(self) -> None:
        """As the simulation's own, without writing anew what is the same in each boot."""
        self._end_mps()
        self._boots += 1
        with store.locked(self.sim.state) as state:
            state.boot += 1
            state.boot_id = f"boot-{self._boots}".encode()
            for gpu in state.gpus[: state.gpu_count]:
                gpu.lost = False
            rules.reload_driver(state)
            # The driver has numbered them anew.
            for index in range(state.gpu_count):
                state.gpus[index].minor = (index - self._first) % state.gpu_count
            state.files_stale = (1 << len(self.uuids)) - 1
        procfs.write_kernel_files(self.sim.proc, f"boot-{self._boots}")

    def renumber(self, first: int) -> None:
        """From the next boot on, the kernel finds the GPUs in another order. NVIDIA's CDI file stays as it was."""
        self._first = first

    def renew_cdi(self) -> None:
        """As at a boot, when no GPU is in MIG mode: one that is has no device in NVIDIA's spec."""
        cdi.write_cdi_spec(self.cdi, [replace(gpu, mig_mode=None, gpu_instances=()) for gpu in self.sim.gpus()])

    def nvidia_nodes(self, uuid: str) -> set[str]:
        """The device nodes of GPUs that NVIDIA's spec leads to."""
        spec = json.loads((self.cdi / cdi.FILE_NAME).read_bytes())
        edits = [device["containerEdits"] for device in spec["devices"] if device["name"] == uuid]
        return {node["path"] for edit in edits for node in edit.get("deviceNodes", ())}

    def smi(self, *arguments: str) -> bool:
        """Somebody at the console; whether it did what it was told."""
        command = [str(self.sim.nvidia_smi), *arguments]
        return subprocess.run(command, env=self.sim.environment(), capture_output=True, check=False).returncode == 0

    def daemons(self) -> dict[str, int]:
        """Process numbers of the MPS daemons that run, by the names of their directories."""
        found = {}
        for name in daemons_in(self.mps_home):
            with suppress(sim.SimError):
                found[name] = mps.daemon_pid(self.mps_home / name / "pipe")
        return found

    def kill_daemon(self, name: str) -> None:
        mps.kill_daemon(self.mps_home / name / "pipe")

    def kill_daemons(self) -> None:
        for name in daemons_in(self.mps_home):
            with suppress(sim.SimError):
                mps.kill_daemon(self.mps_home / name / "pipe")

    def _end_mps(self) -> None:
        """What is in memory is gone after a reboot."""
        self.kill_daemons()
        unmount_below(self.mps_home)
        shutil.rmtree(self.mps_home, ignore_errors=True)

    def programs(self) -> list[int]:
        """Whatever runs a program of this node."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                with suppress(OSError):
                    if (entry / "exe").readlink().parent == self.sim.programs:
                        found.append(int(entry.name))
        return found

    def ask_daemon(self, name: str, command: str) -> str:
        code, answer = _say(self.mps_home / name / "pipe", command)
        assert code == 0, f"MPS daemon {name}: {command}: {answer}"
        return answer

    async def run(
        self,
        program: Path,
        *arguments: str,
        environment: Mapping[str, str],
        timeout: float,  # noqa: ASYNC109 (as the one that it stands for)
        stdin: str = "",
        files: Sequence[int] = (),
    ) -> Result:
        """In place of starting the driver's programs: a process takes longer than all the rest of a step."""
        command = " ".join((program.name, *arguments, stdin)).strip()
        if program.name == "nvidia-smi":
            return Result(command, *self._compute_policy(arguments))
        if stdin:
            _, _, directory = environment[processes.MARK_VARIABLE].partition(" ")
            code, answer = _say(Path(directory) / "pipe", stdin.strip())
            return Result(command, code, answer.strip())
        return await run_program(program, *arguments, environment=environment, timeout=timeout, files=files)

    def _compute_policy(self, arguments: tuple[str, ...]) -> tuple[int, str]:
        _, _, uuid, option, *values = arguments
        with store.locked(self.sim.state) as state:
            gpu = state.gpus[self.uuids.index(uuid)]
            if gpu.lost:
                return 15, "Unable to determine the device handle: GPU is lost."
            if option == "--set-timeslice":
                gpu.timeslice = int(values[0])
                return 0, "Set timeslice policy."
            return 0, f"GPU\n    Timeslice: {sim.Timeslice(gpu.timeslice).name.capitalize()}"


def _say(pipe: Path, command: str) -> tuple[int, str]:
    """What nvidia-cuda-mps-control does with a line."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(_PATIENCE)
        try:
            connection.connect(str(pipe / "control_privileged"))
            connection.send(_COMMAND.pack(0) + command.encode() + b"\0")
            answer = connection.recv(20_000)
        except OSError:
            answer = b""
    if len(answer) < _COMMAND.size:
        return 1, "Cannot find MPS control daemon process"
    (kind,) = _COMMAND.unpack_from(answer)
    return 0, "" if kind == _GOODBYE else answer[_COMMAND.size :].rstrip(b"\0").decode()
