"""Sessions that end in the middle of an answer."""

import asyncio
import gc
import ssl
import threading
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from socket import create_server

from gpusharing.kube.credentials import Credentials
from gpusharing.kube.kinds import NODES
from gpusharing.kube.transport import Api, open_session
from harness.certificates import Certificate, CertificateAuthority
from kube.conftest import credentials

_WATCH = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    b'3e\r\n{"type":"BOOKMARK","object":{"metadata":{"name":"the node"}}}\n\r\n'
)


@contextmanager
def silent_server(certificate: Certificate) -> Iterator[str]:
    """Begins an answer that never ends, in a thread, and does not answer TLS's good-bye either."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.certificate, certificate.key)
    over = threading.Event()

    def serve() -> None:
        connection, _ = listening.accept()
        with context.wrap_socket(connection, server_side=True) as secured:
            secured.recv(65536)
            secured.sendall(_WATCH)
            over.wait(30)

    with closing(create_server(("127.0.0.1", 0))) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"https://127.0.0.1:{listening.getsockname()[1]}"
        over.set()
        thread.join()


def test_no_connection_outlives_its_session(tmp_path: Path) -> None:
    async def certificate() -> Certificate:
        await authority.create()
        return await authority.server("server", "IP:127.0.0.1")

    async def watch_for_a_moment(who: Credentials) -> None:
        async with open_session(who) as session:
            events = Api(session, who.server, user_agent="tests/1").watch(NODES, "7")
            await anext(events)
            await events.aclose()  # type: ignore[attr-defined]

    authority = CertificateAuthority(tmp_path / "pki")
    with silent_server(asyncio.run(certificate())) as url:
        who = credentials(url)
        who.ssl.load_verify_locations(authority.certificate)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            asyncio.run(watch_for_a_moment(who))
            gc.collect()
    assert [str(warning.message) for warning in warned] == []
