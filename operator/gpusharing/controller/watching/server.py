"""An API server may be exchanged for another version while the operator runs: then it begins anew."""

import asyncio
from functools import partial
from typing import Final

from gpusharing.controller import api_server
from gpusharing.controller.api_server import ApiServer
from gpusharing.kube.retry import patiently
from gpusharing.kube.transport import Api

# Three small answers: nobody waits for what a new version can do.
_PERIOD: Final = 60.0


class ServerChangedError(Exception):
    """What the operator found at its start does not hold any more."""


async def end_when_changed(api: Api, before: ApiServer) -> None:
    """Until ServerChangedError, or UnsupportedVersionError."""
    while True:
        await asyncio.sleep(_PERIOD)
        now = await patiently(partial(api_server.ask, api))
        if now.minor != before.minor:
            raise ServerChangedError(f"the API server was Kubernetes 1.{before.minor} and is 1.{now.minor} now")
        if now.taint_rules != before.taint_rules:
            raise ServerChangedError("the API server serves other DeviceTaintRules than at the start")
