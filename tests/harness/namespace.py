"""Mount and PID namespaces of a node: when they end, its processes, mounts and network namespaces end with them."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from harness.processes import Process

_INIT = Path(__file__).with_name("namespace.sh")


def namespace(directory: Path, network: Path | None) -> Process:
    """In a network namespace that exists; in that of this machine if there is none. With one, our programs run in pods,
    and find the node's directories where manifests say."""
    ready = directory / "namespace-is-ready"

    async def is_ready() -> bool:
        return ready.exists()

    enter = ["nsenter", f"--net={network}", "--"] if network else []
    init: list[str | Path] = ["sh", _INIT, directory, network or ""]
    return _Parent(
        [*enter, "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", *init],
        log=directory / "logs" / "namespace.log",
        ready=is_ready,
    )


def process_in(
    init: Process,
    argv: Sequence[str | Path],
    *,
    log: Path,
    ready: Callable[[], Awaitable[bool]] | None,
    env: Mapping[str, str],
) -> Process:
    return _Inside(init, argv, log=log, ready=ready, env=env)


class _Parent(Process):
    """unshare and nsenter fork to enter a PID namespace: who is meant by a signal is their only child."""

    @property
    def pid(self) -> int:
        parent = super().pid
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        return int(children[0]) if children else parent


class _Inside(_Parent):
    """Enters the namespaces as they are when it starts: a node that was switched off and on has others."""

    def __init__(
        self,
        init: Process,
        argv: Sequence[str | Path],
        *,
        log: Path,
        ready: Callable[[], Awaitable[bool]] | None,
        env: Mapping[str, str],
    ) -> None:
        super().__init__(argv, log=log, ready=ready, env=env)
        self._init = init

    def _command(self) -> list[str]:
        return ["nsenter", f"--target={self._init.pid}", "--mount", "--pid", "--net", "--", *super()._command()]
