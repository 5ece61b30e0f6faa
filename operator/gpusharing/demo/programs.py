"""Operator and agents, as processes, with the flags of manifests/base as far as they have a meaning here."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from gpusharing.sim.node import SimNode

_ANY_PORT: Final = "127.0.0.1:0"
_SECONDS_TO_END: Final = 3.0
_TAKEN_WAIT: Final = 1
"""Seconds that agents wait before they withdraw what a new claim excludes: the scheduler here does not lag."""


class Program:
    """Its output is in a log file."""

    def __init__(self, name: str, arguments: Sequence[str | Path], *, log: Path, module: str = "gpusharing") -> None:
        self.name = name
        self.log = log
        self._arguments = [sys.executable, "-m", module, *map(str, arguments)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                self._arguments,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=_environment(),
                # Ctrl-C is for the demo, which ends its programs in order.
                start_new_session=True,
            )

    @property
    def has_ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def last_words(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return lines[-1] if lines else "it said nothing"

    async def stop(self) -> None:
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
        try:
            await asyncio.to_thread(self._process.wait, _SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def operator(kubeconfig: Path, directory: Path) -> Program:
    arguments: list[str | Path] = ["operator", "--kubeconfig", kubeconfig, "--listen", _ANY_PORT]
    return Program("operator", arguments, log=directory / "operator.log")


def agent(name: str, node: SimNode, kubeconfig: Path, directory: Path, *, listen: str) -> Program:
    """`directory`: of its node."""
    flags: Mapping[str, str | int | Path] = {
        "node-name": name,
        "kubeconfig": kubeconfig,
        "driver-root": node.directory,
        "sysfs-root": node.sys,
        "proc-root": node.proc,
        "dev-root": node.dev,
        "kubelet-root": directory / "kubelet",
        "state-dir": directory / "state",
        "mps-dir": directory / "mps",
        "listen": listen,
        "full-menus": len(node.gpus()),
        "taken-wait": _TAKEN_WAIT,
    }
    given: list[str | Path] = [f"--{flag}={value}" for flag, value in flags.items()]
    directories = [f"--cdi-dir={one}" for one in cdi_directories(node, directory)]
    # Where the simulation could make no device nodes, the agent cannot, either.
    module = "gpusharing" if (node.dev / "nvidiactl").is_char_device() else "gpusharing.demo.device_files"
    return Program(f"agent of {name}", ["agent", *given, *directories], log=directory / "agent.log", module=module)


def cdi_directories(node: SimNode, directory: Path) -> Sequence[Path]:
    """The first is the agent's."""
    return directory / "cdi", node.cdi


def free_address() -> str:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{found.getsockname()[1]}"


def _environment() -> Mapping[str, str]:
    # Nobody here trusts the authorities of the public web, which take 4 MiB.
    return {**os.environ, "SSL_CERT_FILE": os.devnull}
