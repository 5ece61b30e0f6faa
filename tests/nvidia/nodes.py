"""Simulated GPU nodes for the agent's own code in this process."""

import ctypes
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any, Final, TypeVar

import pynvml

from gpusharing import sim
from gpusharing.nvidia.driver_thread import Patience
from gpusharing.nvidia.hardware import Hardware
from gpusharing.sim import cdi

H = TypeVar("H", bound=Hardware)

# For tests in which the driver hangs; a busy machine takes some of it.
SHORT: Final = Patience(question=0.4, change=0.6)


@contextmanager
def driver_of(node: sim.SimNode) -> Iterator[None]:
    """pynvml keeps the first library that it has loaded; for this time it is this node's."""
    before = pynvml.nvmlLib
    pynvml.nvmlLib = ctypes.CDLL(str(node.library), mode=ctypes.RTLD_GLOBAL)
    pynvml._nvmlGetFunctionPointer_cache.clear()
    try:
        yield
    finally:
        pynvml.nvmlLib = before
        pynvml._nvmlGetFunctionPointer_cache.clear()


def opened(node: sim.SimNode, **options: Any) -> AbstractAsyncContextManager[Hardware]:
    """The agent's hardware layer on this node."""
    return opened_as(Hardware, node, **options)


@asynccontextmanager
async def opened_as(kind: type[H], node: sim.SimNode, **options: Any) -> AsyncIterator[H]:
    with driver_of(node):
        roots = {"sysfs_root": node.sys, "proc_root": node.proc, "dev_root": node.dev}
        hardware = kind(node.directory, **{**roots, **options})
        await hardware.open()
        try:
            yield hardware
        finally:
            node.clear()
            await hardware.close()


@contextmanager
def calls_of(hardware: Hardware) -> Iterator[list[str]]:
    """The functions of the driver that it calls in this time, in their order."""
    functions: list[str] = []
    threads = hardware._threads
    ask, change = threads.ask, threads.change

    def noted(call: Callable[..., Any]) -> Callable[..., Any]:
        def note(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
            functions.append(function.__name__)
            return call(function, *arguments, **keywords)

        return note

    threads.ask, threads.change = noted(ask), noted(change)  # type: ignore[method-assign]
    try:
        yield functions
    finally:
        threads.ask, threads.change = ask, change  # type: ignore[method-assign]


def with_walls(node: sim.SimNode, *, hook: str = "/usr/bin/nvidia-cdi-hook") -> sim.SimNode:
    """With cgroup v2, and with a CDI spec as nvidia-container-toolkit 1.20.1 writes it."""
    cgroups = node.sys / "fs/cgroup"
    cgroups.mkdir(parents=True, exist_ok=True)
    (cgroups / "cgroup.controllers").touch()
    return with_hooks(node, hook=hook)


def with_hooks(node: sim.SimNode, *, hook: str = "/usr/bin/nvidia-cdi-hook") -> sim.SimNode:
    file = node.cdi / cdi.FILE_NAME
    spec = json.loads(file.read_text())
    for device in spec["devices"]:
        if device["name"].startswith("GPU-"):
            device["containerEdits"]["hooks"] = [_memory_limits(hook, device["name"])]
    file.write_text(json.dumps(spec))
    return node


def _memory_limits(hook: str, gpu: str) -> dict[str, Any]:
    words = ["nvidia-cdi-hook", "apply-cuda-memory-limits", "--gpu-id", gpu]
    return {"hookName": "createRuntime", "path": hook, "args": words}


def uuid(node: sim.SimNode, index: int = 0) -> str:
    return node.gpus()[index].uuid
