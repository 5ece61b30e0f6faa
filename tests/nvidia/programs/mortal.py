"""Agents that are killed (SIGKILL) at a chosen call of the driver. Each line of stdin is the life of one.

They are forked from one process, because Python takes longer to start than an agent to cut a GPU.
"""

import asyncio
import gc
import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from gpusharing import sim
from gpusharing.nvidia.driver_threads import DriverThreads
from gpusharing.nvidia.errors import HardwareError
from gpusharing.nvidia.facts import MigPlace
from gpusharing.nvidia.hardware import Hardware

T = TypeVar("T")


class MortalThreads(DriverThreads):
    """So many calls that change something are survived; the next one is not, or not the moment after it."""

    def __init__(self, survived: int, *, dies_before: bool) -> None:
        super().__init__()
        self._left = survived
        self._dies_before = dies_before

    def change(self, function: Callable[..., T], *arguments: Any, **keywords: Any) -> T:
        if self._left == 0 and self._dies_before:
            die()
        result = super().change(function, *arguments, **keywords)
        if self._left == 0:
            die()
        self._left -= 1
        return result


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def live(node: sim.SimNode, gpu: str, life: dict[str, Any]) -> None:
    hardware = Hardware(node.directory, sysfs_root=node.sys)
    threads = MortalThreads(life["survived"], dies_before=life["dies_before"])
    hardware._threads = hardware._session._threads = threads
    await hardware.open()
    operation = hardware.create_mig_instance if life["creating"] else hardware.destroy_mig_instance
    with suppress(HardwareError):
        await operation(gpu, MigPlace(*life["place"]))


def main() -> None:
    node = sim.SimNode.open(Path(sys.argv[1]))
    gpu = node.gpus()[0].uuid
    # What is here already is nothing for the collectors of all that are forked.
    gc.freeze()
    for line in sys.stdin:
        if (pid := os.fork()) == 0:
            asyncio.run(live(node, gpu, json.loads(line)))
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


main()
