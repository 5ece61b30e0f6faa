"""Commands that run and end."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path


class CommandError(Exception):
    """Says what the command said."""


async def run(argv: Sequence[str | Path], *, stdin: str = "", env: Mapping[str, str] | None = None) -> str:
    """What the command prints. `env` is added to the environment."""
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **(env or {})},
    )
    try:
        output, errors = await process.communicate(stdin.encode())
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise
    if process.returncode:
        raise CommandError(f"{' '.join(map(str, argv))}:\n{errors.decode().strip()}")
    return output.decode()
