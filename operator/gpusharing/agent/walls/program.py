"""Brings our hook to the host: the container runtime starts it there, also while there is no agent."""

import os
from pathlib import Path
from typing import Final

from gpusharing.agent.state.files import remove_leftovers, write_atomically

NAME: Final = "gpusharing-wall"
# Where the build of the image has put it; see `build`.
PACKAGED: Final = Path(__file__).with_name(NAME)


class NoProgramError(Exception):
    """Without our hook there are no walls on this node."""


def install(directory: Path, packaged: Path = PACKAGED) -> Path:
    """Its path, which is the same on the host. One that runs is not disturbed."""
    if not packaged.is_file():
        raise NoProgramError(
            f"{packaged} is missing: build it as the image does, with "
            f"`python -m gpusharing.agent.walls.build {packaged}`"
        )
    directory.mkdir(parents=True, exist_ok=True)
    if os.statvfs(directory).f_flag & os.ST_NOEXEC:
        raise NoProgramError(
            f"{directory} is on a file system from which the host runs no programs (noexec): choose another --state-dir"
        )
    remove_leftovers(directory, NAME)
    path, content = directory / NAME, packaged.read_bytes()
    if not path.is_file() or path.read_bytes() != content or not os.access(path, os.X_OK):
        write_atomically(path, content, durable=True, mode=0o755)
    return path
