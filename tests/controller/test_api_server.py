import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs

from controller.api_server import Answer, ApiServer, Request, status
from gpusharing import cel
from gpusharing.controller import api_server
from gpusharing.controller.api_server import TAINT_RULES, ServerChangedError, UnsupportedVersionError
from gpusharing.controller.metrics import Metrics
from gpusharing.kube.kinds import Kind
from gpusharing.kube.transport import Api
from harness.eventually import eventually


def version(minor: str, **emulated: str) -> dict[str, Any]:
    return {"major": "1", "minor": minor, "gitVersion": f"v1.{minor}.0"} | emulated


def serving(said: dict[str, Any], *kinds: Kind[Any]) -> Callable[[Request], Answer]:
    def answer(request: Request) -> Answer:
        if request.path == "/version":
            return 200, said
        names = [kind.plural for kind in kinds if request.path == f"/apis/{kind.api_version}"]
        return (200, {"resources": [{"name": name} for name in names]}) if names else status(404, "NotFound")

    return answer


@pytest.mark.parametrize("minor", ["36", "36+", "37", "100"])
async def test_what_is_new_enough(api: Api, server: ApiServer, minor: str) -> None:
    server.answer = serving(version(minor))
    assert await api_server.ask(api) == (f"v1.{minor}.0", int(minor.removesuffix("+")), None)


async def test_a_newer_server_may_behave_as_an_older_one(api: Api, server: ApiServer) -> None:
    server.answer = serving(version("37", emulationMajor="1", emulationMinor="36"))
    assert await api_server.ask(api) == ("v1.37.0", 36, None)


@pytest.mark.parametrize(("served", "best"), [((), None), (TAINT_RULES[:1], 0), (TAINT_RULES[1:], 1), (TAINT_RULES, 0)])
async def test_the_best_version_of_taint_rules_is_used(
    api: Api, server: ApiServer, served: Sequence[Kind[Any]], best: int | None
) -> None:
    server.answer = serving(version("37"), *served)
    assert (await api_server.ask(api)).taint_rules is (None if best is None else TAINT_RULES[best])


async def test_after_an_upgrade_it_is_another_one(api: Api, server: ApiServer) -> None:
    server.answer = serving(version("36"))
    before = await api_server.ask(api)
    server.answer = serving(version("37"), *TAINT_RULES)
    assert (before.minor, before.taint_rules) == (36, None)
    assert (await api_server.ask(api))[1:] == (37, TAINT_RULES[0])


@pytest.mark.parametrize(
    ("after", "says"),
    [
        (serving(version("37")), "was Kubernetes 1.36 and is 1.37 now"),
        (serving(version("36"), *TAINT_RULES[1:]), "serves other DeviceTaintRules"),
    ],
    ids=["version", "taint rules"],
)
async def test_with_another_server_the_operator_begins_anew(
    api: Api,
    server: ApiServer,
    monkeypatch: pytest.MonkeyPatch,
    after: Callable[[Request], Answer],
    says: str,
) -> None:
    monkeypatch.setattr(api_server, "_ASK_EVERY", 0.01)
    server.answer = serving(version("36"))
    ends = asyncio.create_task(api_server.end_when_changed(api, await api_server.ask(api)))

    async def asked(times: int) -> None:
        async def check() -> None:
            assert len(server.requests) > before + times

        before = len(server.requests)
        await eventually(check)

    # The same answers end nothing, and a server that is away for a while does not either.
    await asked(6)
    server.answer = lambda _: status(503, "ServiceUnavailable")
    await asked(1)
    assert not ends.done()
    server.answer = after
    with pytest.raises(ServerChangedError, match=says):
        await ends


@pytest.mark.parametrize(
    "answer", [version("35"), version("9"), version("37", emulationMajor="1", emulationMinor="35")]
)
async def test_what_is_too_old_is_told_so(api: Api, server: ApiServer, answer: dict[str, Any]) -> None:
    server.answer = serving(answer)
    with pytest.raises(UnsupportedVersionError, match=r"is Kubernetes 1\..* 1\.36: upgrade"):
        await api_server.ask(api)


@pytest.mark.parametrize("newer", [0, 1, 10])
def test_a_kubernetes_whose_cel_is_not_known_is_reported(newer: int) -> None:
    metrics, minor = Metrics(), cel.NEWEST_MINOR + newer
    with capture_logs() as logs:
        api_server.ApiServer(f"v1.{minor}.2", minor, None).report_unknown_cel(metrics)
    told = [(line["log_level"], line["kubernetes"], line["newest_known"]) for line in logs]
    assert told == [("warning", f"v1.{minor}.2", f"1.{cel.NEWEST_MINOR}")] * (newer > 0)
    assert f"gpusharing_cel_older_than_kubernetes {1.0 * (newer > 0)}".encode() in metrics.exposition()
