"""What is made once for all runs of the tests."""

import contextlib
import fcntl
import sys
from collections.abc import Iterator
from pathlib import Path

CACHE = Path.home() / ".cache" / "gpusharing"


@contextlib.contextmanager
def one_at_a_time() -> Iterator[None]:
    """Runs side by side wait for each other; the kernel releases the lock of one that was killed."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("Waiting for another run that is building or installing", file=sys.stderr, flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
