"""What the agents measure, from their own pages, through the API server: where they are few."""

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

from gpusharing.cli.exits import CommandError
from gpusharing.cli.reading.client import Client, ReadError
from gpusharing.cli.reading.installed import AGENTS, installed_in
from gpusharing.core.text import counted
from gpusharing.occupancy.usage import Name, Sample
from gpusharing.snapshots.world import PODS, Json

MOST: Final = 32
"""Agents: each page is a request."""
_PORT: Final = 8080
_TIMEOUT: Final = 5.0
_LONGEST: Final = 4 * 1024**2
"""Of a page, in bytes."""
# Of a page that means harm, too, no character is looked at often: labels end with their line, and where a word is no
# name of a label, its other characters do not begin one.
_SAMPLE: Final = re.compile(
    rf'^(?P<name>{"|".join(Name)})\{{(?P<labels>(?:[^"}}\n]|"(?:[^"\\\n]|\\.)*")*)\}} (?P<value>\S+)$', re.MULTILINE
)
_PAIR: Final = re.compile(r'(?<![a-zA-Z0-9_])([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')


class Found(NamedTuple):
    samples: Sequence[Sample] = ()
    problem: str = ""
    """Why there are not all; empty: there are."""


def read(client: Client) -> Found:
    try:
        path = PODS.path(namespace=installed_in(client))
        pods = client.get_json(path, {"labelSelector": AGENTS, "limit": str(MOST + 1)})["items"]
    except ReadError as error:
        return Found(problem=f"the pods of the agents cannot be listed ({error.message})")
    if len(pods) > MOST:
        return Found(problem=f"more than {MOST} agents are too many to be asked one by one")
    paths = [_path(pod) for pod in pods if (pod.get("status") or {}).get("phase") == "Running"]
    if not paths:
        return Found(problem="no agent runs")
    with ThreadPoolExecutor(len(paths), thread_name_prefix="agent") as threads:
        found = list(threads.map(lambda path: _page(client, path), paths))
    samples = [sample for one in found for sample in one.samples]
    problems = [one.problem for one in found if one.problem]
    if not problems:
        return Found(samples)
    return Found(samples, f"{len(problems)} of {counted(len(paths), 'agent')} cannot be asked ({problems[0]})")


def _path(pod: Json) -> str:
    ports = {one.get("name"): one["containerPort"] for one in pod["spec"]["containers"][0].get("ports") or ()}
    name = f"{pod['metadata']['name']}:{ports.get('http', _PORT)}"
    return f"{PODS.path(name=name, namespace=pod['metadata']['namespace'])}/proxy/metrics"


def _page(client: Client, path: str) -> Found:
    try:
        page = client.get(path, attempts=1, timeout=_TIMEOUT, most=_LONGEST + 1)
    except (ReadError, CommandError) as error:
        return Found(problem=str(error))
    if len(page) > _LONGEST:
        return Found(problem=f"{path}: larger than {_LONGEST // 1024**2} MiB")
    return Found(list(samples_of(page.decode(errors="replace"))))


def samples_of(page: str) -> Iterator[Sample]:
    """Of the text that agents give to Prometheus."""
    for found in _SAMPLE.finditer(page):
        try:
            value = float(found["value"])
        except ValueError:
            continue
        yield Sample(found["name"], dict(_PAIR.findall(found["labels"])), value)
