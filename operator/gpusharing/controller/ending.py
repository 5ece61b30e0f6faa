"""Why the operator ends, as its log says it."""

from collections.abc import Iterator, Mapping
from typing import Final

import structlog

from gpusharing.controller.api_server import ServerChangedError, UnsupportedVersionError
from gpusharing.kube.credentials import CredentialsError
from gpusharing.kube.elector import LeaseLostError
from gpusharing.kube.history import HistoryWentBackError
from gpusharing.kube.watches import DeafError

log = structlog.get_logger(__name__)

_EVENTS: Final[Mapping[type[Exception], str]] = {
    LeaseLostError: "lease lost",
    HistoryWentBackError: "history went back",
    DeafError: "cluster cannot be read",
    ServerChangedError: "API server changed",
    UnsupportedVersionError: "operator cannot run",
    CredentialsError: "operator cannot run",
    OSError: "operator cannot run",
}
"""How errors are logged that need no traceback: the next operator begins anew."""


def log_causes(error: Exception) -> bool:
    """Whether the error and all that it is made of are known. Otherwise nothing is logged."""
    causes = list(_causes(error))
    if not all(isinstance(cause, tuple(_EVENTS)) for cause in causes):
        return False
    for cause in causes:
        log.error(next(_EVENTS[known] for known in _EVENTS if isinstance(cause, known)), error=str(cause))
    return True


def _causes(error: Exception) -> Iterator[Exception]:
    if isinstance(error, ExceptionGroup):
        for inner in error.exceptions:
            yield from _causes(inner)
    else:
        yield error
