"""The Kubernetes that we need: older ones lack parts of the API on which no promise of ours would hold."""

import re
from typing import Final, NamedTuple

import structlog

from gpusharing import cel
from gpusharing.controller.metrics import Metrics
from gpusharing.kube.transport import Api

log = structlog.get_logger(__name__)

FLOOR: Final = (1, 36)


class UnsupportedVersionError(Exception):
    pass


class ServerVersion(NamedTuple):
    program: str
    minor: int
    """Of the Kubernetes that it behaves as."""


async def require_supported(api: Api) -> ServerVersion:
    """An error if the API server is too old."""
    answer = await api.get_json("/version")
    version: str = answer["gitVersion"]
    # During an upgrade a new server may behave as its predecessor.
    behaves_as = (
        _number(answer.get("emulationMajor", answer["major"])),
        _number(answer.get("emulationMinor", answer["minor"])),
    )
    if behaves_as < FLOOR:
        raise UnsupportedVersionError(
            f"the API server is Kubernetes {_dotted(behaves_as)} ({version}), but the oldest that is supported is "
            f"{_dotted(FLOOR)}: upgrade the cluster"
        )
    return ServerVersion(version, behaves_as[1])


def report_unknown_cel(version: ServerVersion, metrics: Metrics) -> None:
    """The scheduler of a newer Kubernetes may read a selector in another way than we do."""
    is_unknown = version.minor > cel.NEWEST_MINOR
    metrics.set_cel_is_older(is_unknown)
    if is_unknown:
        log.warning(
            "kubernetes newer than known CEL",
            kubernetes=version.program,
            newest_known=_dotted((1, cel.NEWEST_MINOR)),
            remedy="upgrade the operator; until then selectors are read as the newest known Kubernetes reads them",
        )


def _number(text: str) -> int:
    # Some vendors write "36+".
    return int(re.sub(r"[^0-9].*", "", text) or 0)


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
