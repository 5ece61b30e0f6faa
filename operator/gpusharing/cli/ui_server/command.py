"""gpusharing ui-server: the page of `ui` in a cluster, for everybody with a token for its API server."""

import argparse
import os
from pathlib import Path
from typing import Any

from gpusharing.cli import exits, options
from gpusharing.kube.credentials import SERVICE_ACCOUNT


def register(subparsers: Any) -> None:
    parser = options.add_command(
        subparsers,
        "ui-server",
        summary="serve the page of `gpusharing ui` in a cluster, to each viewer with its own rights",
        examples=(
            ("As manifests/components/ui has it", "gpusharing ui-server --host gpus.example.com"),
            ("With a certificate, as Secrets of type kubernetes.io/tls have it", "gpusharing ui-server --tls /tls"),
        ),
    )
    parser.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="NAME",
        help="name by which browsers know the page; may be repeated (localhost is always one, for port-forward)",
    )
    parser.add_argument("--port", type=_number(0, 65535), default=8080, metavar="N", help="port (default: 8080)")
    parser.add_argument(
        "--tls", type=Path, metavar="DIR", help="directory with tls.crt and tls.key (default: no TLS, a proxy has it)"
    )
    parser.add_argument(
        "--viewers", type=_number(1, 256), default=16, metavar="N", help="people at a time (default: 16)"
    )
    parser.add_argument("--cluster", metavar="NAME", help="what the page calls the cluster (default: its API server)")
    group = parser.add_argument_group("API server")
    group.add_argument(
        "--api-server",
        default=_of_pod(),
        metavar="URL",
        help="(default: as pods find it)",
        required=_of_pod() is None,
    )
    group.add_argument(
        "--certificate-authority",
        type=Path,
        default=SERVICE_ACCOUNT / "ca.crt",
        metavar="FILE",
        help="by which its certificate is checked (default: as pods find it)",
    )
    parser.set_defaults(run=exits.reporting(_run))


def _of_pod() -> str | None:
    host = os.environ.get("KUBERNETES_SERVICE_HOST")
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        return None
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


def _number(least: int, most: int) -> Any:
    def number(text: str) -> int:
        if not least <= int(text) <= most:
            raise ValueError
        return int(text)

    return number


def _run(arguments: argparse.Namespace) -> int:
    # What it needs takes longer to load than all else of a help text.
    from gpusharing.cli.ui_server import run  # noqa: PLC0415

    return run.run(arguments)
