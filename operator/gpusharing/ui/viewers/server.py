"""The server for viewers, in a cluster: behind an Ingress or a Gateway, or reached by `kubectl port-forward`.

It believes no header that says who somebody is: a token proves it to the API server, or nothing does.
"""

import re
import ssl
from collections.abc import Callable, Collection
from http import HTTPStatus
from typing import Final

from gpusharing.ui.exchange import Admitted, Answer, Head, RefusedError, Request, Site
from gpusharing.ui.pages import TYPES, static
from gpusharing.ui.server import Server
from gpusharing.ui.viewers import tokens
from gpusharing.ui.viewers.readings import STREAMS
from gpusharing.ui.viewers.visitor import NAMESPACE, SESSION, Reception, Stranger, Visitor, is_namespace

LOCAL: Final = ("localhost", "127.0.0.1", "[::1]")
"""The names of `kubectl port-forward`. Browsers treat them as if they had TLS."""
LARGEST_FORM: Final = 256 * 1024
FORM_OF_STRANGERS: Final = 32 * 1024
_MORE_CONNECTIONS: Final = 64
"""Than open pages may have."""
_HOST: Final = re.compile(r"([a-z0-9._-]+|\[[0-9a-f:.]+\])(:\d{1,5})?")
_HEALTH: Final = (("healthz",), ("readyz",))


class ViewersServer(Server):
    def __init__(
        self,
        address: tuple[str, int],
        reception: Reception,
        *,
        hosts: Collection[str],
        viewers: int,
        tls: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        """Raises OSError. `hosts`: names by which browsers know it, in addition to those of port-forward."""
        self._reception = reception
        self._hosts = frozenset((*LOCAL, *(host.lower() for host in hosts)))
        streams = viewers * STREAMS
        super().__init__(address, connections=streams + _MORE_CONNECTIONS, streams=streams, tls=tls)

    def admit(self, head: Head) -> Admitted:
        if head.path in _HEALTH:
            return Admitted(_Healthy(), head.path, 0)
        if self._name(head.headers.get("host", "")) is None:
            raise RefusedError(HTTPStatus.MISDIRECTED_REQUEST, "this is no host of this page: --host names them")
        if head.path[0] == "static":
            return Admitted(_Static(), head.path, 0)
        visitor = self._visitor(head)
        is_known = isinstance(visitor, Visitor) and self._reception.identities.is_known(visitor.token)
        return Admitted(visitor, head.path, LARGEST_FORM if is_known else FORM_OF_STRANGERS)

    def is_of_our_page(self, origin: str, host: str) -> bool:
        name = self._name(host)
        return name is not None and origin in {f"https://{host}", *([f"http://{host}"] if name in LOCAL else ())}

    def service_actions(self) -> None:
        super().service_actions()
        self._reception.readings.end_idle()
        self._reception.sessions.forget_old()

    def server_close(self) -> None:
        self._reception.readings.close()
        super().server_close()

    def _name(self, host: str) -> str | None:
        """Without the port. None: it is none of ours."""
        found = _HOST.fullmatch(host.lower())
        return found[1] if found and found[1] in self._hosts else None

    def _visitor(self, head: Head) -> Visitor | Stranger:
        cookies = head.headers.get("cookie", "")
        namespace = cookie(cookies, NAMESPACE)
        chosen = namespace if is_namespace(namespace) else ""
        # A proxy's token counts, also if it is wrong: who it is must not depend on what the browser has from before.
        token = tokens.of_header(head.headers.get("authorization", ""))
        if token is not None:
            return Visitor(reception=self._reception, token=token, namespace=chosen)
        number = cookie(cookies, SESSION)
        token = self._reception.sessions.token(number) if number else None
        if token is None or head.path == ("sign-in",):
            return Stranger(reception=self._reception, session=number)
        return Visitor(reception=self._reception, token=token, session=number, namespace=chosen)


def cookie(header: str, name: str) -> str:
    """Empty if there is none, or several: one of them is not ours."""
    pairs = (one.strip().partition("=") for one in header.split(";"))
    found = [value for key, _, value in pairs if key == name]
    return found[0] if len(found) == 1 else ""


class _Healthy(Site):
    def answer(self, request: Request) -> Answer:  # noqa: ARG002 (it is alive, whatever is asked)
        return Answer(body=b"ok\n", content_type="text/plain; charset=utf-8")


class _Static(Site):
    """For those, too, who still have to sign in."""

    def answer(self, request: Request) -> Answer:
        match request.path:
            case ("static", name) if name in TYPES:
                return Answer(body=static(name), content_type=TYPES[name])
        raise RefusedError(HTTPStatus.NOT_FOUND, "no such file")
