"""One of several leads: on the real API server, and while there is none that answers."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from gpusharing.kube import client_credentials
from gpusharing.kube.elector import Elector, LeaseLostError, LeaseName
from gpusharing.kube.kinds import LEASES
from gpusharing.kube.transport import Api, UnreachableError, open_session
from harness.controlplane import ControlPlane
from harness.eventually import eventually
from kube.conftest import Answer, Script, credentials, hangs, refuses, says

DURATION = 3
ANY = LeaseName(namespace="default", name="l")


@pytest.fixture
def lease(request: pytest.FixtureRequest) -> LeaseName:
    return LeaseName(namespace="default", name=request.node.originalname.replace("_", "-"))


@asynccontextmanager
async def admin(control_plane: ControlPlane) -> AsyncIterator[Api]:
    known = await client_credentials.load(control_plane.kubeconfig)
    async with open_session(known) as session:
        yield Api(session, known.server, user_agent="test")


async def until(question: Callable[[], bool]) -> None:
    async def check() -> None:
        assert question()

    await eventually(check)


@asynccontextmanager
async def leading(elector: Elector) -> AsyncIterator["asyncio.Task[None]"]:
    """In a task of its own, until the end."""

    async def lead() -> None:
        async with elector.leading():
            await asyncio.Event().wait()

    task = asyncio.create_task(lead())
    try:
        await until(lambda: elector.leads)
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.mark.cluster
async def test_of_many_that_begin_at_once_one_leads_at_a_time(control_plane: ControlPlane, lease: LeaseName) -> None:
    inside: list[str] = []
    led: list[str] = []

    async def lead(api: Api, me: str) -> None:
        elector = Elector(api, lease, me=me, duration=DURATION)
        async with elector.leading():
            inside.append(me)
            assert elector.leads
            for _ in range(20):
                assert inside == [me]
                await asyncio.sleep(0.01)
            inside.remove(me)
            led.append(me)
        assert not elector.leads

    everybody = {f"replica-{number}" for number in range(5)}
    async with admin(control_plane) as api:
        await asyncio.gather(*(lead(api, me) for me in everybody))
        assert (len(led), set(led)) == (5, everybody)
        end = (await api.get(LEASES, lease.name, lease.namespace)).spec
        # Each gave it back, so nobody had to wait for its end.
        assert (end.holder_identity, end.lease_duration_seconds, end.lease_transitions) == ("", DURATION, 4)


@pytest.mark.cluster
async def test_it_is_kept_for_as_long_as_it_is_needed(control_plane: ControlPlane, lease: LeaseName) -> None:
    async with admin(control_plane) as api:
        first, second = (Elector(api, lease, me=me, duration=DURATION) for me in ("first", "second"))
        async with leading(first):
            waiting = asyncio.create_task(second.leading().__aenter__())
            await until(lambda: second.stands_by)
            until_then = time.monotonic() + 2 * DURATION
            while time.monotonic() < until_then:
                assert (first.leads, first.stands_by, second.leads, second.stands_by) == (True, False, False, True)
                await asyncio.sleep(0.05)
            waiting.cancel()
            await asyncio.wait([waiting])


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("meddle", "says"),
    [
        pytest.param({"spec": {"holderIdentity": "thief"}}, "belongs to thief now", id="taken"),
        pytest.param({"spec": {"holderIdentity": ""}}, "belongs to nobody now", id="released"),
        pytest.param(None, "belongs to nobody now", id="deleted"),
    ],
)
async def test_it_ends_when_its_lease_is_not_its_own_any_more(
    control_plane: ControlPlane, lease: LeaseName, meddle: dict[str, object] | None, says: str
) -> None:
    async with admin(control_plane) as api:
        elector = Elector(api, lease, me="me", duration=DURATION)
        async with leading(elector) as task:
            if meddle:
                await api.merge_patch(LEASES, lease.name, meddle, namespace=lease.namespace)
            else:
                await control_plane.kubectl("delete", "lease", lease.name)
            with pytest.raises(LeaseLostError, match=says):
                await asyncio.wait_for(task, timeout=2 * DURATION)
            assert not elector.leads
        await control_plane.kubectl("delete", "lease", lease.name, "--ignore-not-found")


@pytest.mark.cluster
async def test_a_label_takes_it_from_nobody_and_stays(control_plane: ControlPlane, lease: LeaseName) -> None:
    async with admin(control_plane) as api:
        elector = Elector(api, lease, me="me", duration=DURATION)
        async with leading(elector) as task:
            patch = {"metadata": {"labels": {"a": "b"}}}
            labelled = await api.merge_patch(LEASES, lease.name, patch, namespace=lease.namespace)

            async def is_renewed() -> None:
                now = await api.get(LEASES.as_json(), lease.name, lease.namespace)
                assert now["spec"]["renewTime"] != labelled.spec.renew_time
                assert now["metadata"]["labels"] == {"a": "b"}

            await eventually(is_renewed)
            assert not task.done()


def held(by: str = "me") -> dict[str, object]:
    spec = {"holderIdentity": by, "leaseDurationSeconds": DURATION, "renewTime": "2026-11-19T12:00:00.000000Z"}
    return {"metadata": {"name": "l", "resourceVersion": "1"}, "spec": spec}


@pytest.mark.parametrize("silence", [hangs(), refuses(500, "InternalError")], ids=["hangs", "errors"])
async def test_it_ends_before_anybody_else_may_lead(script: Script, silence: Answer) -> None:
    """The server answers once and then not any more. It tries once more when it leads no more, and ends."""
    script.then(refuses(404), says(held()), silence)
    async with open_session(credentials(script.url)) as session:
        elector = Elector(Api(session, script.url, user_agent="t"), ANY, me="me", duration=DURATION)
        async with leading(elector) as task:
            taken = time.monotonic()
            await until(lambda: not elector.leads)
            assert time.monotonic() - taken < DURATION
            with pytest.raises(LeaseLostError, match="could not be renewed in time"):
                await task
            assert time.monotonic() - taken < 2 * DURATION


async def test_who_does_not_lead_reads_and_writes_nothing(script: Script) -> None:
    script.then(says({"metadata": {"name": "l"}}))
    async with open_session(credentials(script.url)) as leases:
        elector = Elector(
            Api(leases, script.url, user_agent="t"),
            LeaseName(namespace="default", name="l"),
            me="me",
            duration=DURATION,
        )
        async with open_session(credentials(script.url), elector.fence) as session:
            api = Api(session, script.url, user_agent="t")
            await api.get(LEASES, "other", "default")
            write: Callable[[], Awaitable[object]]
            for write in (
                lambda: api.create(LEASES, {}, "default"),
                lambda: api.replace(LEASES, "other", {}, "default"),
                lambda: api.merge_patch(LEASES, "other", {}, namespace="default"),
                lambda: api.delete(LEASES, "other", uid="u"),
            ):
                with pytest.raises(UnreachableError, match="this replica does not have lease default/l"):
                    await write()
    assert script.verbs == ["GET"]


@pytest.mark.parametrize(
    "answer", [refuses(403, "Forbidden"), refuses(503), hangs()], ids=["forbidden", "unavailable", "hangs"]
)
async def test_who_cannot_read_the_lease_does_not_stand_by(script: Script, answer: Answer) -> None:
    script.then(says(held(by="other")), answer)
    async with open_session(credentials(script.url)) as session:
        elector = Elector(Api(session, script.url, user_agent="t"), ANY, me="me", duration=DURATION)
        assert not elector.stands_by
        waiting = asyncio.create_task(elector.leading().__aenter__())
        await until(lambda: elector.stands_by)
        await until(lambda: not elector.stands_by)
        assert not elector.leads
        waiting.cancel()
        await asyncio.wait([waiting])


class SlowServer:
    """Keeps one Lease, and takes its time for each answer."""

    def __init__(self) -> None:
        self.takes = 0.0
        self.hangs_once = False
        self._lease: dict[str, object] | None = None
        self._version = 0

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.json() if request.method in {"POST", "PATCH"} else None
        if body and self.hangs_once:
            self.hangs_once = False
            await asyncio.sleep(60)
        await asyncio.sleep(self.takes)
        if body:
            if self._lease and body["metadata"].get("resourceVersion") != str(self._version):
                return await refuses(409, "Conflict")(request)
            self._version += 1
            metadata = {"name": "l", "resourceVersion": str(self._version)}
            self._lease = {"metadata": metadata, "spec": body["spec"]}
        return await (says(self._lease) if self._lease else refuses(404))(request)


@asynccontextmanager
async def led_slowly(script: Script) -> AsyncIterator[tuple[SlowServer, Elector, "asyncio.Task[None]"]]:
    server = SlowServer()
    script.then(server.answer)
    async with open_session(credentials(script.url)) as session:
        elector = Elector(Api(session, script.url, user_agent="t"), ANY, me="me", duration=DURATION)
        async with leading(elector) as task:
            yield server, elector, task


async def test_an_answer_may_take_a_third_of_the_duration(script: Script) -> None:
    async with led_slowly(script) as (server, elector, task):
        server.takes = DURATION / 3 - 0.15
        until_then = time.monotonic() + 3 * DURATION
        while time.monotonic() < until_then:
            assert elector.leads
            await asyncio.sleep(0.02)
        assert not task.done()


async def test_a_lease_that_nobody_has_taken_is_kept_in_place(script: Script) -> None:
    async with led_slowly(script) as (server, elector, task):
        with capture_logs() as logs:
            server.hangs_once = True
            await asyncio.sleep(2 * DURATION)
        said = [entry["event"] for entry in logs]
        assert said == ["lease not renewed", "lease still ours"]
        assert elector.leads
        assert not task.done()
