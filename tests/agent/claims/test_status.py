"""What is written into the status of claims, whatever the API server says to it."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import TypeAdapter

from agent.samples import prepared_claim, prepared_device
from gpusharing.agent.claims import status
from gpusharing.agent.claims.status import ClaimStatusWriter
from gpusharing.agent.health.node_health import NodeHealth
from gpusharing.agent.state.models import PreparedClaim
from gpusharing.agent.state.records import Records
from gpusharing.api import names
from gpusharing.api.dra import ResourceClaim
from gpusharing.api.sharing.gpu_status import Reason
from gpusharing.core.claims import allocation
from gpusharing.core.publishing.gpu_health import Trouble
from gpusharing.kube.retry import Backoff
from gpusharing.kube.transport import Api, ApiError, UnreachableError
from harness.eventually import eventually

UUID = "GPU-n1-0"
_CLAIM = TypeAdapter(ResourceClaim)


class Server:
    """The API server's part: claims, and what it answers instead of what was asked."""

    def __init__(self) -> None:
        self.claims: dict[str, dict[str, Any]] = {}
        self.refusals: dict[str, Iterator[Exception]] = {}
        """Of patches, by the claim's name."""
        self.patches: Counter[str] = Counter()

    def add(self, name: str) -> PreparedClaim:
        """A claim that is allocated, and as it is prepared."""
        result = {"request": "gpu", "driver": names.DRIVER, "pool": "n1", "device": "gpu-0-timeslicing"}
        self.claims[name] = {
            "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": "1"},
            "spec": {},
            "status": {"allocation": {"devices": {"results": [result]}}},
        }
        prepared = prepared_claim(name, prepared_device(uuid=UUID))
        return prepared.model_copy(update={"allocation_hash": allocation.digest(self.claim(name), names.DRIVER)})

    def claim(self, name: str) -> ResourceClaim:
        return _CLAIM.validate_python(self.claims[name])

    async def get(self, _: Any, name: str, __: str) -> ResourceClaim:
        await asyncio.sleep(0)
        if name not in self.claims:
            raise ApiError("GET", name, 404, "NotFound", "not found")
        return self.claim(name)

    async def merge_patch(self, _: Any, name: str, patch: Any, **__: Any) -> None:
        await asyncio.sleep(0)
        self.patches[name] += 1
        if error := next(self.refusals.get(name, iter(())), None):
            raise error
        self.claims[name]["status"]["devices"] = patch["status"]["devices"]

    def health(self, name: str) -> str | None:
        for device in self.claims[name]["status"].get("devices", ()):
            return next(str(one["reason"]) for one in device["conditions"] if one["type"] == "Healthy")
        return None


def refused(code: int) -> ApiError:
    return ApiError("PATCH", "claim", code, "Reason", "message")


class Writing:
    def __init__(self, directory: Path) -> None:
        self.server = Server()
        self.records = Records(directory)
        self.troubles: dict[str, Trouble] = {}
        self.health = NodeHealth(self.records, problem=self.troubles.get)
        self.changes = 0
        self.writer = ClaimStatusWriter(
            cast("Api", self.server), names.DRIVER, self.health, on_change=self._count_change
        )

    def _count_change(self) -> None:
        self.changes += 1

    def follow(self) -> None:
        self.writer.follow(self.records.claims.values())

    def prepare(self, *claims: str) -> None:
        for name in claims:
            self.records.put_claim(self.server.add(name))

    def ill(self, reason: Reason) -> None:
        self.troubles[UUID] = Trouble(reason=reason, message="why")

    async def shows(self, **expected: str | None) -> None:
        async def check() -> None:
            assert {name: self.server.health(name) for name in expected} == expected

        await eventually(check)


@asynccontextmanager
async def writing(directory: Path) -> AsyncIterator[Writing]:
    writing = Writing(directory)
    task = asyncio.create_task(writing.writer.run())
    yield writing
    assert not task.done()
    task.cancel()
    await asyncio.wait({task})


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "_BACKOFF", Backoff(first=0.05, last=0.2))


FAILURES: dict[str, Callable[[], Exception]] = {
    "500": lambda: refused(500),
    "503": lambda: refused(503),
    "504": lambda: refused(504),
    "429": lambda: refused(429),
    "409": lambda: refused(409),
    "no answer": lambda: UnreachableError("away"),
}


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
async def test_a_write_that_fails_is_tried_again(tmp_path: Path, failure: Callable[[], Exception]) -> None:
    async with writing(tmp_path) as node:
        node.prepare("a")
        node.server.refusals["a"] = iter([failure() for _ in range(6)])
        node.follow()
        await node.shows(a="Healthy")
        assert node.server.patches["a"] == 7
        await asyncio.sleep(0.5)
        assert node.server.patches["a"] == 7


async def test_what_is_current_is_written_after_a_failure(tmp_path: Path) -> None:
    async with writing(tmp_path) as node:
        node.prepare("a")
        node.server.refusals["a"] = iter([refused(500), refused(500)])
        node.follow()
        await asyncio.sleep(0.02)
        node.ill(Reason.MPS_DOWN)
        node.follow()
        await node.shows(a="MpsDaemonDown")


async def test_one_that_fails_does_not_delay_others_and_is_not_hammered(tmp_path: Path) -> None:
    async with writing(tmp_path) as node:
        node.prepare("a", *(f"b{number}" for number in range(50)))
        node.server.refusals["a"] = iter(lambda: refused(500), None)
        node.follow()
        await node.shows(**{f"b{number}": "Healthy" for number in range(50)})
        began = asyncio.get_running_loop().time()
        for _ in range(20):
            # Each round follows all claims.
            node.follow()
            await asyncio.sleep(0.05)
        # At most one for each of the shortest delays, and a pause grows to the longest one.
        assert 2 <= node.server.patches["a"] <= 4 + (asyncio.get_running_loop().time() - began) / 0.1
        node.server.refusals["a"] = iter(())
        await node.shows(a="Healthy")


async def test_what_the_server_never_accepts_is_tried_once_until_it_changes(tmp_path: Path) -> None:
    async with writing(tmp_path) as node:
        node.prepare("a")
        node.server.refusals["a"] = iter([refused(422)])
        node.follow()
        await asyncio.sleep(0.5)
        node.follow()
        await asyncio.sleep(0.2)
        assert (node.server.patches["a"], node.server.health("a")) == (1, None)
        node.ill(Reason.MPS_DOWN)
        node.follow()
        await node.shows(a="MpsDaemonDown")


async def test_claims_that_are_not_prepared_any_more_are_not_written(tmp_path: Path) -> None:
    async with writing(tmp_path) as node:
        node.prepare("a")
        node.server.refusals["a"] = iter([refused(500)])
        node.follow()
        await asyncio.sleep(0.02)
        node.records.drop_claim("uid-a")
        node.follow()
        await asyncio.sleep(0.4)
        assert node.server.patches["a"] == 1


async def test_claims_without_their_allocation_are_found(tmp_path: Path) -> None:
    """Also at a start, when nobody has suspected them; and they are found again when they have it back."""
    async with writing(tmp_path) as node:
        node.prepare("deallocated", "deleted", "other", "well")
        kept = node.server.claims["deallocated"].pop("status")
        node.server.claims["deallocated"]["status"] = {}
        del node.server.claims["deleted"]
        node.server.claims["other"]["metadata"]["uid"] = "uid-another"
        node.follow()
        unallocated = {"deallocated", "deleted", "other"}

        async def are_found() -> None:
            assert {claim.name for claim, _ in node.health.unallocated.on(UUID)} == unallocated

        await eventually(are_found)
        await node.shows(well="Healthy")
        assert node.changes == 3
        node.server.claims["deallocated"]["status"] = kept
        unallocated = {"deleted", "other"}
        node.follow()
        await eventually(are_found)
        assert node.changes == 4
        unallocated = {"other"}
        node.records.drop_claim("uid-deleted")
        await are_found()
        assert node.health.unallocated.to_check == {"uid-other"}
