"""How `gpusharing ui` runs."""

import argparse
import sys
from contextlib import suppress
from functools import partial
from urllib.parse import urlsplit

from gpusharing.cli import exits
from gpusharing.cli.exits import CommandError
from gpusharing.cli.reading.client import Client
from gpusharing.cli.reading.kubeconfig import access
from gpusharing.cli.snapshot import read_world
from gpusharing.cli.snapshot_file import read_snapshot
from gpusharing.cli.ui.file import FileLookup, FileSource
from gpusharing.cli.ui.live import LiveSource, picture_now
from gpusharing.cli.ui.lookup import LiveLookup
from gpusharing.ui.loopback import LoopbackServer, root
from gpusharing.ui.pages import Pages
from gpusharing.ui.picture import Lookup, Picture, Source
from gpusharing.ui.site import SEEN, UiSite
from gpusharing.ui.still import still


def run(arguments: argparse.Namespace) -> int:
    with suppress(KeyboardInterrupt):
        return _run(arguments)
    return exits.OK


def _run(arguments: argparse.Namespace) -> int:
    if arguments.snapshot is not None:
        world, cluster = read_snapshot(arguments.snapshot), arguments.snapshot.name
        file = FileSource(world)
        if arguments.output:
            return _print(file.picture(), cluster)
        return _serve(file, FileLookup(world), cluster, arguments)
    identify = partial(access, arguments.kubeconfig, arguments.context)
    found = identify()
    namespace, cluster = arguments.namespace or found.namespace, urlsplit(found.server).netloc
    with Client(found, renew=identify) as client:
        if arguments.output:
            return _print(picture_now(client, namespace, arguments.prometheus), cluster)
        read = partial(read_world, arguments.kubeconfig, arguments.context)
        with LiveSource(client, namespace, read, prometheus=arguments.prometheus) as source:
            return _serve(source, LiveLookup(client, source), cluster, arguments)


def _print(picture: Picture, cluster: str) -> int:
    sys.stdout.buffer.write(still(picture, cluster))
    return exits.OK


def _serve(source: Source, lookup: Lookup, cluster: str, arguments: argparse.Namespace) -> int:
    try:
        server = LoopbackServer(port=arguments.port)
    except OSError as error:
        raise CommandError(f"port {arguments.port}: {error.strerror or error}") from error
    with server:
        server.site = UiSite(
            source,
            lookup,
            Pages(cluster=cluster, root=root(server.secret)),
            source_of_history="From Prometheus." if arguments.prometheus else SEEN,
        )
        # No browser is started: every user of the machine sees its arguments, and the URL has the secret.
        print(f"{server.url}\nOpen this URL in a browser of this machine. Ctrl-C ends it.", flush=True)
        server.serve_forever()
    return exits.OK
