"""How Kopf runs here: it calls handlers of events, and nothing else.

On objects that are not ours it must never write. It does not, as long as there are only event handlers that return
nothing and a finalizer of our own name (with the default one it would strip that of other operators).
"""

import logging
import math
from typing import Any

import kopf

from gpusharing.api import names


def configure(settings: kopf.OperatorSettings) -> None:
    settings.persistence.finalizer = f"{names.GROUP}/operator"
    settings.persistence.diffbase_storage = _NoDiffBase()
    settings.persistence.progress_storage = _NoProgress()
    settings.posting.enabled = False
    settings.peering.standalone = True
    # No watching of CRDs and namespaces beside our own: no rights needed for them.
    settings.scanning.disabled = True
    # Whether a connection is silent is known to the transport.
    settings.watching.inactivity_timeout = math.inf
    # Each object has tasks while it is busy; those of ten thousand idle ones would be 200 MB.
    settings.queueing.idle_timeout = 0.02
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
