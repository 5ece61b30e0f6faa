"""What somebody is answered who has signed in, or still has to."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Final

from gpusharing.ui.exchange import Answer, RefusedError, Request
from gpusharing.ui.pages import Pages, Viewer
from gpusharing.ui.picture import SourceError
from gpusharing.ui.viewers.identities import Identities
from gpusharing.ui.viewers.readings import Reading, Readings, Visit
from gpusharing.ui.viewers.sessions import LONGEST, Sessions
from gpusharing.ui.viewers.tokens import UnknownTokenError, namespace_of

# By this beginning, browsers take a cookie of this host and by TLS only: no neighbour can put one in its place.
SESSION: Final = "__Host-gpusharing"
NAMESPACE: Final = "__Host-gpusharing-namespace"
_NAMESPACE: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_TEXT: Final = "text/plain; charset=utf-8"
_HOME: Final = "/"
SIGN_IN: Final = "/sign-in"
_UNKNOWN: Final = "The API server does not take this token: it is wrong, it has expired, or it is for another audience."


@dataclass(frozen=True, slots=True, kw_only=True)
class Reception:
    """What visitors share. None of it is about the cluster."""

    identities: Identities
    sessions: Sessions
    readings: Readings
    pages: Pages


@dataclass(frozen=True, slots=True, kw_only=True)
class Stranger:
    """Somebody who has not signed in, or signs in as somebody else."""

    reception: Reception
    session: str = ""
    """Its former number."""

    def answer(self, request: Request) -> Answer:
        if request.path == ("sign-in",):
            return self._page() if request.form is None else self._sign_in(request.form)
        return to_sign_in(request)

    def _sign_in(self, form: Mapping[str, str]) -> Answer:
        token = form.get("token", "").strip()
        namespace = form.get("namespace", "").strip()
        if namespace and not is_namespace(namespace):
            return self._page(HTTPStatus.UNPROCESSABLE_ENTITY, "This is not the name of a namespace.")
        try:
            name = self.reception.identities.name(token)
        except UnknownTokenError:
            return self._page(HTTPStatus.UNAUTHORIZED, _UNKNOWN)
        except SourceError as error:
            return self._page(HTTPStatus.BAD_GATEWAY, str(error))
        self.reception.sessions.end(self.session)
        number = self.reception.sessions.begin(token, name)
        return _see(_HOME, _cookie(SESSION, number), _cookie(NAMESPACE, namespace))

    def _page(self, status: HTTPStatus = HTTPStatus.OK, error: str = "") -> Answer:
        return Answer(body=self.reception.pages.page("sign-in.html", error=error), status=status)


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    reception: Reception
    token: str = field(repr=False)
    session: str = ""
    """Its number. Empty: a proxy has sent the token."""
    namespace: str = ""
    """Empty: the one that the name of the user leads to."""

    def answer(self, request: Request) -> Answer:
        if request.form is not None and request.path == ("sign-out",) and self.session:
            self._end()
            return _see(SIGN_IN, _cookie(SESSION, ""), _cookie(NAMESPACE, ""))
        try:
            name = self.reception.identities.name(self.token)
        except UnknownTokenError:
            return self._signed_out(request)
        except SourceError as error:
            raise RefusedError(HTTPStatus.BAD_GATEWAY, str(error)) from error
        if request.form is not None and request.path == ("namespace",):
            namespace = request.form.get("namespace", "").strip()
            return _see(_HOME, _cookie(NAMESPACE, namespace if is_namespace(namespace) else ""))
        return self._read(request, name)

    def _read(self, request: Request, name: str) -> Answer:
        try:
            viewer = Viewer(name, self.namespace or namespace_of(name), may_sign_out=bool(self.session))
            reading = self.reception.readings.of(Visit(self.token, viewer))
            answer = reading.answer(request)
        except SourceError as error:
            raise RefusedError(HTTPStatus.BAD_GATEWAY, str(error)) from error
        if isinstance(answer.body, bytes):
            return answer
        return replace(answer, body=self._while_allowed(answer.body, reading), streams=reading.streams)

    def _while_allowed(self, pieces: Iterable[bytes], reading: Reading) -> Iterator[bytes]:
        """A page that stays open is no longer open than a new one would be."""
        for piece in pieces:
            if reading.is_ended or not self._is_allowed():
                return
            self.reception.readings.touch(reading)
            yield piece

    def _is_allowed(self) -> bool:
        if self.session and self.reception.sessions.token(self.session) is None:
            return False
        try:
            self.reception.identities.name(self.token)
        except (UnknownTokenError, SourceError, RefusedError):
            return False
        return True

    def _signed_out(self, request: Request) -> Answer:
        self._end()
        if self.session:
            return to_sign_in(request)
        challenge = ("WWW-Authenticate", "Bearer")
        body = f"{_UNKNOWN}\n".encode()
        return Answer(body=body, status=HTTPStatus.UNAUTHORIZED, content_type=_TEXT, headers=(challenge,))

    def _end(self) -> None:
        self.reception.sessions.end(self.session)
        self.reception.readings.end_of(self.token)


def to_sign_in(request: Request) -> Answer:
    if request.wants_part:
        # Of the page only a part would be another.
        return Answer(body=b"", status=HTTPStatus.UNAUTHORIZED, headers=(("HX-Redirect", SIGN_IN),))
    if request.path == ("events",):
        body = b"401 Unauthorized: sign in\n"
        return Answer(body=body, status=HTTPStatus.UNAUTHORIZED, content_type=_TEXT)
    return _see(SIGN_IN)


def _see(place: str, *headers: tuple[str, str]) -> Answer:
    return Answer(body=b"", status=HTTPStatus.SEE_OTHER, headers=(("Location", place), *headers))


def is_namespace(text: str) -> bool:
    return _NAMESPACE.fullmatch(text) is not None


def _cookie(name: str, value: str) -> tuple[str, str]:
    """Without a value, the browser forgets it."""
    age = LONGEST if value else 0
    return "Set-Cookie", f"{name}={value}; Path=/; Max-Age={age}; Secure; HttpOnly; SameSite=Strict"
