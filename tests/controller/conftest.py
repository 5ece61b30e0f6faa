from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from controller.api_server import ApiServer, serving
from gpusharing.kube.transport import Api


@pytest.fixture
def server() -> ApiServer:
    return ApiServer()


@pytest_asyncio.fixture
async def api(server: ApiServer) -> AsyncIterator[Api]:
    async with serving(server) as api:
        yield api
