"""The cluster as one viewer may see it: every request to the API server has the viewer's token, and no other."""

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Final

from gpusharing.cli.exits import CommandError
from gpusharing.cli.reading.client import Client, ReadError
from gpusharing.cli.reading.kubeconfig import Access
from gpusharing.cli.snapshot import read_all
from gpusharing.cli.ui.live import LiveSource
from gpusharing.cli.ui.lookup import LiveLookup
from gpusharing.findings.printable import printable
from gpusharing.ui.exchange import Site
from gpusharing.ui.pages import Pages
from gpusharing.ui.picture import SourceError
from gpusharing.ui.site import UiSite
from gpusharing.ui.viewers.readings import Visit
from gpusharing.ui.viewers.tokens import UnknownTokenError

_REVIEWS: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_REVIEW: Final = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
_ANONYMOUS: Final = "system:anonymous"
_SEEN: Final = "What was seen since you came."


class Cluster:
    """Used by several threads."""

    def __init__(self, api_server: str, authority: Path, pages: Pages) -> None:
        self._api_server = api_server.rstrip("/")
        self._authority = authority
        self._pages = pages
        self._planning = threading.BoundedSemaphore()
        """One plan at a time for all viewers: it reads the whole cluster."""

    def who(self, token: str) -> str:
        """The name of its user. Raises UnknownTokenError and SourceError."""
        try:
            with Client(self._access(token, "")) as client:
                found = client.send("POST", _REVIEWS, _REVIEW)
            name = str(found["status"]["userInfo"]["username"])
        except ReadError as error:
            if error.status == HTTPStatus.UNAUTHORIZED:
                raise UnknownTokenError from error
            raise SourceError(str(error)) from error
        except (CommandError, KeyError, TypeError) as error:
            raise SourceError(str(error)) from error
        if name == _ANONYMOUS:
            raise UnknownTokenError
        return printable(name)

    @contextmanager
    def open(self, visit: Visit) -> Iterator[Site]:
        """Raises SourceError."""
        access = self._access(visit.token, visit.viewer.namespace)
        try:
            with (
                Client(access) as client,
                LiveSource(client, access.namespace, partial(read_all, access), planning=self._planning) as source,
            ):
                lookup = LiveLookup(client, source)
                yield UiSite(source, lookup, self._pages, source_of_history=_SEEN, viewer=visit.viewer)
        except (CommandError, ReadError) as error:
            raise SourceError(str(error)) from error

    def _access(self, token: str, namespace: str) -> Access:
        try:
            # Read each time: authorities are renewed, too.
            tls = ssl.create_default_context(cafile=self._authority)
        except OSError as error:
            raise CommandError(f"{self._authority}: {error}") from error
        return Access(self._api_server, tls, f"Bearer {token}", namespace)
