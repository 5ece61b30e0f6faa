"""Ends processes that outlive those that started them."""

import os
import signal
import time
from collections.abc import Callable, Collection
from contextlib import suppress


def end_all(find: Callable[[], Collection[int]]) -> None:
    """Kills what is found, and what it has started meanwhile, until nothing is found any more."""
    while pids := find():
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
