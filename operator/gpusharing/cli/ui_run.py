"""How `gpusharing ui` runs."""

import argparse
import sys
import webbrowser
from pathlib import Path

from gpusharing.cli import exits
from gpusharing.cli.exits import CommandError
from gpusharing.cli.ui_file import FileSource
from gpusharing.snapshots.file import SnapshotError, loads
from gpusharing.ui.picture import Source
from gpusharing.ui.server import Server, root
from gpusharing.ui.site import UiSite
from gpusharing.ui.still import still


def run(arguments: argparse.Namespace) -> int:
    source, cluster = _source(arguments)
    if arguments.output:
        sys.stdout.buffer.write(still(source, cluster))
        return exits.OK
    return _serve(source, cluster, arguments)


def _source(arguments: argparse.Namespace) -> tuple[Source, str]:
    path: Path = arguments.snapshot
    try:
        world = loads(path.read_text())
    except (OSError, SnapshotError) as error:
        raise CommandError(f"snapshot {path}: {error}") from error
    return FileSource(world), path.name


def _serve(source: Source, cluster: str, arguments: argparse.Namespace) -> int:
    try:
        server = Server(port=arguments.port)
    except OSError as error:
        raise CommandError(f"port {arguments.port}: {error.strerror or error}") from error
    with server:
        server.site = UiSite(source, cluster=cluster, root=root(server.secret))
        print(f"{server.url}\nThe page is for this machine, and for those who have this URL. Ctrl-C ends it.", flush=True)
        if not arguments.no_browser:
            webbrowser.open(server.url)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()
    return exits.OK
