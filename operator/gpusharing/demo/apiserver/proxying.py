"""What a pod serves, by the path of its proxy: `pods/NAME:PORT/proxy/metrics`."""

from collections.abc import Mapping
from typing import Any, Final

import aiohttp
from aiohttp import web

from gpusharing.demo.apiserver.errors import StatusError, bad_request

PROXY: Final = "proxy"
_PATIENCE: Final = aiohttp.ClientTimeout(total=10)


def pod_and_port(name: str) -> tuple[str, int]:
    pod, _, port = name.partition(":")
    if not port.isdecimal():
        raise bad_request(f"{name}: write NAME:PORT, with the number of the port")
    return pod, int(port)


async def answer_of(pod: Mapping[str, Any], port: int, path: str) -> web.Response:
    """To a GET without headers and query."""
    address = pod["status"].get("podIP")
    if not address:
        raise _unavailable(f"pod {pod['metadata']['name']} has no address")
    try:
        async with (
            aiohttp.ClientSession(timeout=_PATIENCE) as session,
            session.get(f"http://{address}:{port}/{path}", allow_redirects=False) as answer,
        ):
            body = await answer.read()
            return web.Response(body=body, status=answer.status, content_type=answer.content_type)
    except (aiohttp.ClientError, TimeoutError) as error:
        raise _unavailable(f"pod {pod['metadata']['name']}: {error or 'no answer'}") from error


def _unavailable(message: str) -> StatusError:
    return StatusError(503, message, reason="ServiceUnavailable")
