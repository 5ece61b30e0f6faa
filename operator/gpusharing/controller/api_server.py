"""What the API server is, and what of it is not served everywhere. An upgrade changes both: ask again after one."""

import asyncio
import re
from functools import partial
from typing import Any, Final, NamedTuple

import structlog

from gpusharing import cel
from gpusharing.api.dra import DeviceTaintRule
from gpusharing.controller.metrics import Metrics
from gpusharing.kube.kinds import DEVICE_TAINT_RULES, DEVICE_TAINT_RULES_BETA, Kind
from gpusharing.kube.retry import patiently
from gpusharing.kube.transport import Api, ApiError

log = structlog.get_logger(__name__)

FLOOR: Final = (1, 36)
"""Older ones lack parts of the API on which no promise of ours would hold."""

TAINT_RULES: Final = (DEVICE_TAINT_RULES, DEVICE_TAINT_RULES_BETA)
"""v1 from 1.37 on, in 1.36 v1beta2 where it is switched on."""

# Three small answers: nobody waits for what a new version can do.
_ASK_EVERY: Final = 60.0


class UnsupportedVersionError(Exception):
    pass


class ServerChangedError(Exception):
    """What the operator found at its start does not hold any more."""


class ApiServer(NamedTuple):
    program: str
    minor: int
    """Of the Kubernetes that it behaves as."""
    taint_rules: Kind[DeviceTaintRule] | None
    """In the best version that is served."""

    def report_missing_taint_rules(self) -> None:
        if self.taint_rules is None:
            log.warning(
                "DeviceTaintRules not served: pods of conflicting claims are not evicted; Events say which to delete",
                remedy="use Kubernetes 1.37; in 1.36 serve resource.k8s.io/v1beta2 with gate DRADeviceTaintRules",
            )

    def report_unknown_cel(self, metrics: Metrics) -> None:
        """The scheduler of a newer Kubernetes may read a selector in another way than we do."""
        is_unknown = self.minor > cel.NEWEST_MINOR
        metrics.set_cel_is_older(is_unknown)
        if is_unknown:
            log.warning(
                "Kubernetes newer than known CEL",
                kubernetes=self.program,
                newest_known=_dotted((1, cel.NEWEST_MINOR)),
                remedy="upgrade the operator; until then it evaluates selectors as the newest known Kubernetes does",
            )


async def ask(api: Api) -> ApiServer:
    """UnsupportedVersionError if it is too old."""
    answer = await api.get_json("/version")
    program: str = answer["gitVersion"]
    # During an upgrade a new server may behave as its predecessor.
    behaves_as = (
        _number(answer.get("emulationMajor", answer["major"])),
        _number(answer.get("emulationMinor", answer["minor"])),
    )
    if behaves_as < FLOOR:
        raise UnsupportedVersionError(
            f"the API server is Kubernetes {_dotted(behaves_as)} ({program}), but the oldest that is supported is "
            f"{_dotted(FLOOR)}: upgrade the cluster"
        )
    return ApiServer(program, behaves_as[1], await _taint_rules(api))


async def end_when_changed(api: Api, before: ApiServer) -> None:
    """Until ServerChangedError or UnsupportedVersionError: the operator begins anew with another API server."""
    while True:
        await asyncio.sleep(_ASK_EVERY)
        now = await patiently(partial(ask, api))
        if now.minor != before.minor:
            raise ServerChangedError(f"the API server was Kubernetes 1.{before.minor} and is 1.{now.minor} now")
        if now.taint_rules != before.taint_rules:
            raise ServerChangedError("the API server serves other DeviceTaintRules than at the start")


async def _is_served(api: Api, kind: Kind[Any]) -> bool:
    try:
        discovery = await api.get_json(kind.path().rpartition("/")[0])
    except ApiError as error:
        if error.status == 404:
            return False
        raise
    return kind.plural in {resource["name"] for resource in discovery["resources"]}


async def _taint_rules(api: Api) -> Kind[DeviceTaintRule] | None:
    for kind in TAINT_RULES:
        if await _is_served(api, kind):
            return kind
    return None


def _number(text: str) -> int:
    # Some vendors write "36+".
    return int(re.sub(r"[^0-9].*", "", text) or 0)


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
