"""An API server may be exchanged for another version while the operator runs: then it begins anew."""

import asyncio
from functools import partial
from typing import Any, Final

from gpusharing.controller import server_version, taint_rules
from gpusharing.controller.server_version import ServerVersion
from gpusharing.kube.kinds import Kind
from gpusharing.kube.retry import patiently
from gpusharing.kube.transport import Api

# Three small answers: nobody waits for what a new version can do.
_PERIOD: Final = 60.0


class ServerChangedError(Exception):
    """What the operator found at its start does not hold any more."""


async def end_when_changed(api: Api, version: ServerVersion, rules: Kind[Any] | None) -> None:
    """Until ServerChangedError, or UnsupportedVersionError."""
    while True:
        await asyncio.sleep(_PERIOD)
        now = await patiently(partial(server_version.require_supported, api))
        if now.minor != version.minor:
            raise ServerChangedError(f"the API server was Kubernetes 1.{version.minor} and is 1.{now.minor} now")
        if await patiently(partial(taint_rules.served, api)) != rules:
            raise ServerChangedError("the API server serves other DeviceTaintRules than at the start")
