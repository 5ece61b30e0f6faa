"""Waiting for what a pipe or a terminal has to say."""

import select
from typing import IO


def is_readable(file: IO[str] | int, *, within: float) -> bool:
    """Also when so many files are open that `select` refuses."""
    poll = select.poll()
    poll.register(file, select.POLLIN)
    return bool(poll.poll(within * 1000))
