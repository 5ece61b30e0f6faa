from typing import Any

import pytest
from structlog.testing import capture_logs

from controller.api_server import ApiServer
from gpusharing import cel
from gpusharing.controller.metrics import Metrics
from gpusharing.controller.server_version import (
    ServerVersion,
    UnsupportedVersionError,
    report_unknown_cel,
    require_supported,
)
from gpusharing.kube.transport import Api


def version(minor: str, **emulated: str) -> dict[str, Any]:
    return {"major": "1", "minor": minor, "gitVersion": f"v1.{minor}.0"} | emulated


@pytest.mark.parametrize("minor", ["36", "36+", "37", "100"])
async def test_what_is_new_enough(api: Api, server: ApiServer, minor: str) -> None:
    server.answer = lambda _: (200, version(minor))
    assert await require_supported(api) == (f"v1.{minor}.0", int(minor.removesuffix("+")))


async def test_a_newer_server_may_behave_as_an_older_one(api: Api, server: ApiServer) -> None:
    server.answer = lambda _: (200, version("37", emulationMajor="1", emulationMinor="36"))
    assert await require_supported(api) == ("v1.37.0", 36)


@pytest.mark.parametrize(
    "answer", [version("35"), version("9"), version("37", emulationMajor="1", emulationMinor="35")]
)
async def test_what_is_too_old_is_told_so(api: Api, server: ApiServer, answer: dict[str, Any]) -> None:
    server.answer = lambda _: (200, answer)
    with pytest.raises(UnsupportedVersionError, match=r"is Kubernetes 1\..* 1\.36: upgrade"):
        await require_supported(api)


@pytest.mark.parametrize("newer", [0, 1, 10])
def test_a_kubernetes_whose_cel_is_not_known_is_reported(newer: int) -> None:
    metrics, minor = Metrics(), cel.NEWEST_MINOR + newer
    with capture_logs() as logs:
        report_unknown_cel(ServerVersion(f"v1.{minor}.2", minor), metrics)
    told = [(line["log_level"], line["kubernetes"], line["newest_known"]) for line in logs]
    assert told == [("warning", f"v1.{minor}.2", f"1.{cel.NEWEST_MINOR}")] * (newer > 0)
    assert f"gpusharing_cel_older_than_kubernetes {1.0 * (newer > 0)}".encode() in metrics.exposition()
