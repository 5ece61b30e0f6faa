"""A page for many people, who are known by their tokens, and see fleets of their own."""

import http.client
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlencode

from gpusharing.snapshots.world import World
from gpusharing.ui.exchange import Site
from gpusharing.ui.pages import Pages
from gpusharing.ui.picture import SourceError
from gpusharing.ui.site import UiSite
from gpusharing.ui.viewers.identities import Identities
from gpusharing.ui.viewers.readings import Readings, Visit
from gpusharing.ui.viewers.server import ViewersServer
from gpusharing.ui.viewers.sessions import Sessions
from gpusharing.ui.viewers.tokens import UnknownTokenError
from gpusharing.ui.viewers.visitor import SESSION, Reception
from harness.eventually import PATIENCE
from ui.serving import Changing

HOST: Final = "gpus.example.com"
MOST: Final = 4
PAGES: Final = Pages(cluster="kind-example", root="")


@dataclass
class Moment:
    """The time, which tests move."""

    now: float = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class People:
    """In place of an API server."""

    worlds: dict[str, World]
    """By token."""
    names: dict[str, str] = field(default_factory=dict)
    """By token; others are their tokens."""
    is_away: bool = False
    asked: int = 0
    is_open: list[Visit] = field(default_factory=list)

    def who(self, token: str) -> str:
        self.asked += 1
        if self.is_away:
            raise SourceError("no answer")
        if token not in self.worlds:
            raise UnknownTokenError
        return self.names.get(token, token)

    @contextmanager
    def open(self, visit: Visit) -> Iterator[Site]:
        source = Changing(self.worlds[visit.token])
        self.is_open.append(visit)
        try:
            yield UiSite(source, source.lookup, PAGES, viewer=visit.viewer)
        finally:
            self.is_open.remove(visit)


@dataclass
class Open:
    server: ViewersServer
    people: People
    clock: Moment

    def ask(
        self, path: str, *, form: Mapping[str, str] | None = None, body: bytes | None = None, **headers: Any
    ) -> tuple[int, Any, str]:
        """`headers`: their names with underscores."""
        given = {"Host": HOST, **{name.replace("_", "-"): value for name, value in headers.items()}}
        if form is not None:
            body = urlencode(form).encode()
            given = {"Origin": f"https://{HOST}", **given}
        with closing(self.connection()) as connection:
            connection.connect()
            # A form that is too large is answered before all of it was sent.
            with suppress(OSError):
                connection.request("GET" if body is None else "POST", path, body, given)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read().decode()

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.server.server_port, timeout=PATIENCE)

    def sign_in(self, token: str, namespace: str = "", **headers: Any) -> str:
        """The cookies that a browser has then."""
        status, answer, text = self.ask("/sign-in", form={"token": token, "namespace": namespace}, **headers)
        assert (status, answer["Location"]) == (303, "/"), text
        return "; ".join(one.partition(";")[0] for one in answer.get_all("Set-Cookie"))


@contextmanager
def open_to(people: People, *, tls: Callable[[], ssl.SSLContext] | None = None) -> Iterator[Open]:
    clock = Moment()
    reception = Reception(
        identities=Identities(people.who, clock=clock),
        sessions=Sessions(clock=clock),
        readings=Readings(people.open, most=MOST, clock=clock),
        pages=PAGES,
    )
    with ViewersServer(("127.0.0.1", 0), reception, hosts=[HOST], viewers=MOST, tls=tls) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield Open(server, people, clock)
        finally:
            server.shutdown()
            thread.join()


def session_of(cookies: str) -> str:
    return next(one.partition("=")[2] for one in cookies.split("; ") if one.startswith(f"{SESSION}="))
