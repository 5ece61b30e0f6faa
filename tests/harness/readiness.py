"""Questions whether a server is ready, for `Process`."""

import asyncio
import ssl
from pathlib import Path

import aiohttp


async def answers(url: str, *, ca: Path | None = None) -> bool:
    """Whether a server says that it is well; `ca` signed the certificate of an https server."""
    trust = ssl.create_default_context(cafile=ca) if ca else True
    # Generous: Python 3.11 leaks the connection of a TLS handshake that is given up.
    timeout = aiohttp.ClientTimeout(total=30)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(url, ssl=trust) as response,
        ):
            await response.read()
            return response.status == 200
    except (aiohttp.ClientError, TimeoutError):
        return False


async def accepts(unix_socket: Path) -> bool:
    try:
        _, connection = await asyncio.open_unix_connection(unix_socket)
    except OSError:
        return False
    connection.close()
    return True
