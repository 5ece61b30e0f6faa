"""`python -m gpusharing.demo.apiserver --directory DIR`: the embedded API server alone, until it is interrupted."""

import argparse
import asyncio
import signal
from pathlib import Path
from typing import Final

from gpusharing.demo.apiserver.server import EmbeddedApiServer

_WHAT_IT_IS_NOT: Final = """\
It is for trying things out, on this machine alone. It has no RBAC: everybody with a kubeconfig may do everything. It
has no scheduler and no controllers except garbage collection, and keeps nothing when it ends. What it does not
implement, it answers with 501."""


async def _serve(directory: Path, port: int) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for one in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(one, ended.set)
    async with EmbeddedApiServer(directory, port=port) as server:
        print(
            f"Kubernetes API on {server.url}\n\n  export KUBECONFIG={server.kubeconfig}\n\n{_WHAT_IT_IS_NOT}",
            flush=True,
        )
        await ended.wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m gpusharing.demo.apiserver", description=_WHAT_IT_IS_NOT)
    parser.add_argument("--directory", type=Path, required=True, help="for the kubeconfig")
    parser.add_argument("--port", type=int, default=0, help="on 127.0.0.1; 0: a free one (default: 0)")
    arguments = parser.parse_args()
    asyncio.run(_serve(arguments.directory.resolve(), arguments.port))


if __name__ == "__main__":
    main()
