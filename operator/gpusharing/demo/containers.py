"""Containers as a runtime starts them: with what the CDI specs of their devices say.

The only program that runs in them is the simulated CUDA process, whatever their image is.
"""

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from gpusharing.demo import container_root
from gpusharing.demo.guard import MARK
from gpusharing.sim import cuda
from gpusharing.sim.node import SimNode

_SECONDS_TO_END: Final = 5.0
_FIRST_LINE: Final = 30.0


class ContainerError(Exception):
    """A container that cannot be started. The message is its status."""


@dataclass(kw_only=True)
class Edits:
    """What CDI devices change in a container."""

    env: list[str] = field(default_factory=list)
    device_nodes: list[str] = field(default_factory=list)
    mounts: list[tuple[str, str]] = field(default_factory=list)
    """On the host, and in the container."""

    def add(self, edits: Mapping[str, Any]) -> None:
        self.env += edits.get("env") or ()
        self.device_nodes += [one["path"] for one in edits.get("deviceNodes") or ()]
        self.mounts += [(one["hostPath"], one["containerPath"]) for one in edits.get("mounts") or ()]


def edits_of(devices: Sequence[str], directories: Iterable[Path]) -> Edits:
    """`devices`: their qualified names, such as `nvidia.com/gpu=0`."""
    specs = [json.loads(file.read_text()) for one in directories for file in sorted(one.glob("*.json"))]
    edits = Edits()
    for kind in dict.fromkeys(device.partition("=")[0] for device in devices):
        for spec in specs:
            if spec["kind"] == kind:
                edits.add(spec.get("containerEdits") or {})
    for device in devices:
        kind, _, name = device.partition("=")
        found = [one for spec in specs if spec["kind"] == kind for one in spec["devices"] if one["name"] == name]
        if not found:
            raise ContainerError(f"unresolvable CDI devices {device}")
        edits.add(found[0]["containerEdits"])
    return edits


class Container:
    def __init__(self, node: SimNode, directory: Path, *, is_isolated: bool) -> None:
        """`directory` is the container's own. `is_isolated`: it may have mounts of its own."""
        self._node = node
        self._directory = directory
        self._is_isolated = is_isolated
        self._process: asyncio.subprocess.Process | None = None

    async def start(self, options: Sequence[str], edits: Edits) -> None:
        """Returns when it has what it wants of its GPU. Raises ContainerError."""
        dev = self._directory / "dev"
        dev.mkdir(parents=True)
        for node in edits.device_nodes:
            file = self._directory / node.lstrip("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
        program = str(self._node.programs / cuda.PROGRAM)
        if self._is_isolated:
            mounts = [f"{source}:{target}" for source, target in edits.mounts]
            command = [sys.executable, "-I", "-S", container_root.__file__, str(self._directory)]
            command += [str(self._node.directory), str(len(mounts)), *mounts, program, "--dev=/dev", *options]
        else:
            command = [program, f"--dev={dev}", *options]
        self._process = await asyncio.create_subprocess_exec(
            *command,
            env={**dict(one.split("=", 1) for one in edits.env), MARK: os.environ[MARK]},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        assert self._process.stdout  # noqa: S101 (for mypy)
        try:
            async with asyncio.timeout(_FIRST_LINE):
                has_begun = bool(await self._process.stdout.readline())
        except TimeoutError:
            raise ContainerError(f"the program said nothing for {_FIRST_LINE:g} s") from None
        if not has_begun:
            raise ContainerError(await self.ended())

    async def ended(self) -> str:
        """Waits for it. What it said of its end; empty: nothing."""
        process = self._process
        assert process is not None  # noqa: S101 (for mypy)
        assert process.stderr is not None  # noqa: S101 (likewise)
        said = await process.stderr.read()
        await process.wait()
        return said.decode(errors="replace").strip()

    @property
    def exit_code(self) -> int | None:
        return self._process.returncode if self._process else None

    async def stop(self) -> None:
        if self._process and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.terminate()
            try:
                await asyncio.wait_for(self._process.wait(), _SECONDS_TO_END)
            except TimeoutError:
                self._process.kill()
                await self._process.wait()
        shutil.rmtree(self._directory, ignore_errors=True)
