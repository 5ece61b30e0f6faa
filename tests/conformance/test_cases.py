"""The same cases on the real API server and on the embedded one: each answers what stands in the case's file.

`GPUSHARING_WRITE_CASES=1` has the real one write the files anew.
"""

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
import pytest_asyncio
import yaml

from conformance.asking import Asker
from conformance.transcripts import needs_kubectl, parse
from gpusharing.kube import client_credentials
from gpusharing.kube.transport import open_session
from harness import toolchain
from harness.api_servers import CRDS, EITHER, REAL, api_server, apply_kustomization

CASES: Final = Path(__file__).parent / "cases"

pytestmark = pytest.mark.asyncio(loop_scope="module")


def _cases() -> Iterator[Any]:
    for case in sorted(CASES.glob("*.txt")):
        # kubectl is built with the real API server.
        marks = [pytest.mark.cluster] if needs_kubectl(parse(case.read_text())) else []
        yield pytest.param(case.stem, marks=marks)


@dataclass(frozen=True)
class Server:
    which: str
    kubeconfig: Path
    cache: Path
    """Of what kubectl has discovered, for all cases."""
    url: str
    session: aiohttp.ClientSession


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=EITHER)
async def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    """With our definitions."""
    async with AsyncExitStack() as stack:
        running = await stack.enter_async_context(api_server(request.param))
        await apply_kustomization(running.kubeconfig, CRDS)
        credentials = await client_credentials.load(running.kubeconfig)
        session = await stack.enter_async_context(open_session(credentials))
        cache = tmp_path_factory.mktemp("cache")
        yield Server(request.param, running.kubeconfig, cache, credentials.server.rstrip("/"), session)


@pytest.mark.parametrize("case", list(_cases()))
async def test_both_answer_the_same(server: Server, case: str, tmp_path: Path) -> None:
    file = CASES / f"{case}.txt"
    steps = parse(file.read_text())
    asker = Asker(
        session=server.session,
        url=server.url,
        namespace=case,
        kubeconfig=_in_namespace(server.kubeconfig, case, tmp_path),
        cache=server.cache,
        programs=toolchain.build() if needs_kubectl(steps) else None,
    )
    await asker.make_namespace(with_controllers=server.which == REAL)
    write = server.which == REAL and bool(os.environ.get("GPUSHARING_WRITE_CASES"))
    written = []
    for step in steps:
        try:
            answer = await asker.answer(step)
        except TimeoutError:
            answer = "no answer\n"
        written.append(step.text(answer))
        if not write:
            assert answer == step.answer, "".join(written)
    if write:
        file.write_text("".join(written))


def _in_namespace(kubeconfig: Path, namespace: str, directory: Path) -> Path:
    """The same, for commands that name no namespace."""
    content = yaml.safe_load(kubeconfig.read_text())
    for context in content["contexts"]:
        context["context"]["namespace"] = namespace
    path = directory / "kubeconfig"
    path.write_text(yaml.safe_dump(content))
    return path
