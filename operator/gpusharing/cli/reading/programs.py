"""Logs and metrics of operator and agents, by way of the API server."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from gpusharing.bundling.programs import Program
from gpusharing.cli.exits import CommandError
from gpusharing.cli.reading.client import Client, ReadError
from gpusharing.snapshots.world import PODS

LOG, PREVIOUS, METRICS = "log.txt", "previous-log.txt", "metrics.txt"
LARGEST: Final = 1 << 20
"""Bytes of a file: of a log the last ones."""
IN_ALL: Final = 64 << 20
TIMEOUT: Final = 15.0
LINES: Final = 5000
# The API cuts the end of a log that is longer, and the end is what matters: this is more than 5,000 lines have.
_ANSWER: Final = 8 * LARGEST
_AT_ONCE: Final = 16


@dataclass
class Texts:
    files: dict[str, bytes] = field(default_factory=dict)
    """By their names."""
    unread: list[str] = field(default_factory=list)


def read_programs(client: Client, programs: Sequence[Program], *, since: int | None) -> Texts:
    """`since`: no lines older than so many seconds."""
    texts = Texts()
    size = 0
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="logs") as threads:
        # Not all at once: what is too much is not even asked for.
        for start in range(0, len(programs), _AT_ONCE):
            some = programs[start : start + _AT_ONCE]
            for found in threads.map(lambda one: _of_program(client, one, since), some):
                for name, data in found.files.items():
                    size += len(data)
                    if size > IN_ALL:
                        texts.unread.append(f"{name}: the bundle has {IN_ALL >> 20} MiB of logs and metrics already")
                    else:
                        texts.files[name] = data
                texts.unread += found.unread
            if size > IN_ALL:
                left = programs[start + _AT_ONCE :]
                texts.unread += [f"{folder(one)}: the bundle has {IN_ALL >> 20} MiB of logs already" for one in left]
                break
    return texts


def folder(program: Program) -> str:
    place = f"agents/{program.node or 'no-node'}" if program.is_agent else "operator"
    return f"{place}/{program.pod}"


def _of_program(client: Client, program: Program, since: int | None) -> Texts:
    texts = Texts()
    for file, path, query in _requests(program, since):
        name = f"{folder(program)}/{file}"
        most = LARGEST if file == METRICS else _ANSWER
        try:
            # A node that does not answer is what bundles are made for: the others must not wait for it.
            data = client.get(path, query, attempts=1, timeout=TIMEOUT, most=most)
        except (ReadError, CommandError) as error:
            texts.unread.append(f"{name}: {error.message if isinstance(error, ReadError) else error}")
        else:
            texts.files[name] = data[-LARGEST:]
    return texts


def _requests(program: Program, since: int | None) -> Iterator[tuple[str, str, Mapping[str, str]]]:
    pod = PODS.path(namespace=program.namespace, name=program.pod)
    query = {"container": program.container, "tailLines": str(LINES), "limitBytes": str(_ANSWER)}
    if since is not None:
        query["sinceSeconds"] = str(since)
    yield LOG, f"{pod}/log", query
    if program.has_previous:
        yield PREVIOUS, f"{pod}/log", query | {"previous": "true"}
    yield METRICS, f"{pod}:{program.port}/proxy/metrics", {}
