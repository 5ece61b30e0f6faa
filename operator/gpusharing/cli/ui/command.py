"""gpusharing ui: one page about who is on which GPU, in the browser or as a file."""

import argparse
from typing import Any, Final

from gpusharing.cli import exits, options

HTML: Final = "html"


def register(subparsers: Any) -> None:
    parser = options.add_command(
        subparsers,
        "ui",
        summary="show which pods are on which GPU, as a page in the browser",
        examples=(
            ("Serve it to this machine's browser, with the rights of your kubeconfig", "gpusharing ui"),
            ("On a port of your choice, to forward it by SSH", "gpusharing ui --port 8080"),
            ("Write it as a file: for a ticket, or as an artefact of CI", "gpusharing ui -o html > gpus.html"),
            ("Of a snapshot, without a cluster", "gpusharing ui --snapshot cluster.json"),
        ),
    )
    parser.add_argument(
        "-o", "--output", choices=(HTML,), help="write the page to standard output as one file, and serve nothing"
    )
    parser.add_argument("--port", type=_port, default=0, metavar="N", help="port on 127.0.0.1 (default: a free one)")
    parser.add_argument(
        "--prometheus",
        metavar="URL",
        help="where use is measured, and the last day is known (default: the agents are asked, if they are few)",
    )
    options.add_namespace(parser)
    options.add_snapshot(parser)
    options.add_cluster(parser)
    parser.set_defaults(run=exits.reporting(_run))


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port < 65536:
        raise ValueError
    return port


def _run(arguments: argparse.Namespace) -> int:
    # What it needs takes longer to load than all else of a help text.
    from gpusharing.cli.ui import run  # noqa: PLC0415

    return run.run(arguments)
