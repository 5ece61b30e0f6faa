from typing import Any

import pytest

from controller.api_server import ApiServer
from gpusharing.controller.server_version import UnsupportedVersionError, require_supported
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
