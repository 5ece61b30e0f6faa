"""Commands that run and end."""

import asyncio
from collections.abc import Sequence
from pathlib import Path


class CommandError(Exception):
    """Says what the command said."""


async def run(argv: Sequence[str | Path], *, stdin: str = "") -> str:
    """What the command prints."""
    process = await asyncio.create_subprocess_exec(
        *argv, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
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
