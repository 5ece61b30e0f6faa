"""How `gpusharing ui-server` runs."""

import argparse
import signal
import socket
from contextlib import suppress
from types import FrameType
from urllib.parse import urlsplit

from gpusharing.cli import exits
from gpusharing.cli.exits import CommandError
from gpusharing.cli.ui_server.certificate import Certificate
from gpusharing.cli.ui_server.cluster import Cluster
from gpusharing.ui.pages import Pages
from gpusharing.ui.viewers.identities import Identities
from gpusharing.ui.viewers.readings import Readings
from gpusharing.ui.viewers.server import ViewersServer
from gpusharing.ui.viewers.sessions import Sessions
from gpusharing.ui.viewers.visitor import Reception


def run(arguments: argparse.Namespace) -> int:
    # The kubelet ends it by SIGTERM; as the first process of a container it would ignore that.
    signal.signal(signal.SIGTERM, _interrupt)
    with suppress(KeyboardInterrupt):
        _serve(arguments)
    return exits.OK


def _interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 (the signature of handlers)
    raise KeyboardInterrupt


def _serve(arguments: argparse.Namespace) -> None:
    pages = Pages(cluster=arguments.cluster or urlsplit(arguments.api_server).netloc, root="")
    cluster = Cluster(arguments.api_server, arguments.certificate_authority, pages)
    reception = Reception(
        identities=Identities(cluster.who),
        sessions=Sessions(),
        readings=Readings(cluster.open, most=arguments.viewers),
        pages=pages,
    )
    tls = Certificate(arguments.tls).context if arguments.tls else None
    try:
        server = ViewersServer(
            ("::" if socket.has_dualstack_ipv6() else "", arguments.port),
            reception,
            hosts=arguments.host,
            viewers=arguments.viewers,
            tls=tls,
        )
    except OSError as error:
        raise CommandError(f"port {arguments.port}: {error.strerror or error}") from error
    with server:
        print(f"serving on port {server.server_port}", flush=True)
        server.serve_forever()
