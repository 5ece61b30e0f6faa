"""Stands for exporters of others: a page that does not change, with series as DCGM's exporter, kube-state-metrics and
OpenCost have them."""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from harness.loopback import own_address


@contextmanager
def static_exporter(page: str) -> Iterator[str]:
    """Its address. It answers from a thread, also while no test runs."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    with ThreadingHTTPServer((own_address(), 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"{server.server_address[0]!s}:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
