"""How Kopf runs here: it watches, and nothing else.

On objects that are not ours it must never write. It does not, as long as there are only event handlers that return
nothing and a finalizer of our own name (with the default one it would strip that of other operators).
"""

import logging
from typing import Any

import kopf

from gpusharing.api import names
from gpusharing.kube.retry import Backoff


def settings() -> kopf.OperatorSettings:
    result = kopf.OperatorSettings()
    result.persistence.finalizer = f"{names.GROUP}/operator"
    result.persistence.diffbase_storage = _NoDiffBase()
    result.persistence.progress_storage = _NoProgress()
    result.posting.enabled = False
    result.peering.standalone = True
    # No watching of CRDs and namespaces beside our own: no rights needed for them.
    result.scanning.disabled = True
    result.watching.chunk_size = 500
    result.networking.request_timeout = 60
    result.networking.connect_timeout = 10
    # Kopf ends the operator at the end of its list of backoffs; an API server may be away for longer.
    result.networking.error_backoffs = Backoff()
    # Each object has a task while it is busy; ten thousand idle ones would cost 200 MB.
    result.queueing.idle_timeout = 0.02
    return result


def quieten() -> None:
    # One line for each event of each object otherwise.
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)


class _NoDiffBase(kopf.DiffBaseStorage):
    """Differences are for handlers that we do not have; computing them for each event is half its cost."""

    def build(self, **_: Any) -> Any:
        return {}

    def fetch(self, **_: Any) -> None:
        return None

    def store(self, **_: Any) -> None:
        pass


class _NoProgress(kopf.ProgressStorage):
    """Event handlers make no progress that could be stored."""

    def fetch(self, **_: Any) -> None:
        return None

    def store(self, **_: Any) -> None:
        pass

    def purge(self, **_: Any) -> None:
        pass

    def touch(self, **_: Any) -> None:
        pass

    def clear(self, *, essence: Any) -> Any:
        return essence
