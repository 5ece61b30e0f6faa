"""Why the operator ends, under `gpusharing operator` and under `kopf run`."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import pytest
from structlog.testing import capture_logs

from controller.test_command import parsed
from gpusharing.controller import command, development
from gpusharing.controller.api_server import ServerChangedError, UnsupportedVersionError
from gpusharing.controller.running import Operator, Options
from gpusharing.kube import logs
from gpusharing.kube.credentials import CredentialsError
from gpusharing.kube.elector import LeaseLostError
from gpusharing.kube.history import HistoryWentBackError
from gpusharing.kube.watches import DeafError

ARGUMENTS: Final = parsed("--kubeconfig=nowhere")

KNOWN: Final[dict[str, Exception]] = {
    "lease lost": LeaseLostError("words"),
    "history went back": HistoryWentBackError("words"),
    "cluster cannot be read": DeafError("words"),
    "API server changed": ServerChangedError("words"),
    "operator cannot run": UnsupportedVersionError("words"),
}
ERRORS: Final = [
    *((error, [event]) for event, error in KNOWN.items()),
    (CredentialsError("words"), ["operator cannot run"]),
    (OSError("words"), ["operator cannot run"]),
    (ExceptionGroup("", [*KNOWN.values()]), [*KNOWN]),
    (ExceptionGroup("", [ExceptionGroup("", [DeafError("words")])]), ["cluster cannot be read"]),
]
BUGS: Final = [ZeroDivisionError("words"), ExceptionGroup("", [DeafError("words"), ZeroDivisionError("words")])]
IDS: Final = lambda value: repr(value) if isinstance(value, Exception) else ""  # noqa: E731


@pytest.mark.parametrize(("error", "events"), ERRORS, ids=IDS)
def test_the_program_says_why(monkeypatch: pytest.MonkeyPatch, error: Exception, events: list[str]) -> None:
    async def operate(_: Options) -> None:
        raise error

    monkeypatch.setattr(command, "operate", operate)
    monkeypatch.setattr(logs, "configure", lambda _: None)
    with capture_logs() as lines:
        assert command.run(ARGUMENTS) == 1
    assert [(line["event"], line["error"]) for line in lines] == [(event, "words") for event in events]


@pytest.mark.parametrize("error", BUGS, ids=IDS)
def test_a_bug_has_its_traceback(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    async def operate(_: Options) -> None:
        raise error

    monkeypatch.setattr(command, "operate", operate)
    monkeypatch.setattr(logs, "configure", lambda _: None)
    with capture_logs() as lines, pytest.raises(type(error)):
        command.run(ARGUMENTS)
    assert lines == []


@pytest.mark.parametrize(("error", "events"), [*ERRORS, *((bug, ["operator failed"]) for bug in BUGS)], ids=IDS)
async def test_kopf_ends_with_the_operator(
    monkeypatch: pytest.MonkeyPatch, error: Exception, events: list[str]
) -> None:
    """Which runs in a task that Kopf does not know."""
    ended: list[int] = []

    @asynccontextmanager
    async def running(_: Options) -> AsyncIterator[Operator]:
        if error:
            raise error
        yield None  # type: ignore[misc]

    monkeypatch.setattr(development, "running", running)
    monkeypatch.setattr(os, "kill", lambda pid, number: ended.append(number) if pid == os.getpid() else None)
    with capture_logs() as lines:
        beginning = asyncio.create_task(development.begin())
        async with asyncio.timeout(5):
            while not ended:  # noqa: ASYNC110 (a signal knows no events)
                await asyncio.sleep(0.005)
    beginning.cancel()
    await asyncio.wait({beginning})
    assert ended == [signal.SIGTERM]
    assert [line["event"] for line in lines] == events
