"""History may go back: etcd put back to an older copy gives objects older versions than they had."""

import asyncio
import json

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from gpusharing.api.dra import ResourceSlice
from gpusharing.kube import reflector, transport
from gpusharing.kube.history import History, HistoryWentBackError
from gpusharing.kube.kinds import RESOURCE_SLICES
from gpusharing.kube.reflector import Reflector
from gpusharing.kube.retry import Backoff
from gpusharing.kube.transport import Api, ApiError
from gpusharing.kube.watches import Watches
from harness.eventually import eventually
from kube.conftest import Answer, Script, refuses, says
from kube.test_reflector import bookmark, event, expired, lists, slice_, watches

PATH = RESOURCE_SLICES.path()


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflector, "_BACKOFF", Backoff(0.01))


@pytest.fixture
def slices(api: Api) -> Reflector[ResourceSlice]:
    return Reflector(api, RESOURCE_SLICES, watches=Watches(), on_change=lambda: None)


def known(slices: Reflector[ResourceSlice]) -> dict[str, str]:
    return {item.metadata.name: item.metadata.resource_version for item in slices.objects}


@pytest.mark.parametrize(
    ("before", "asked_after", "listed", "went_back"),
    [
        (0, 0, "7", False),
        (7, 7, "7", False),
        (7, 7, "8", False),
        (7, 7, "6", True),
        # What was seen while the list was on its way says nothing of it.
        (9, 7, "8", False),
        # Versions are numbers.
        (9, 9, "10", False),
    ],
)
def test_a_list_is_never_older_than_what_was_seen_before(
    before: int, asked_after: int, listed: str, *, went_back: bool
) -> None:
    history = History()
    history.saw(PATH, str(before))
    if not went_back:
        history.listed(PATH, listed, after=asked_after)
        assert history.highest(PATH) == max(before, int(listed))
        return
    with pytest.raises(HistoryWentBackError, match=f"as of version {listed}, but version {asked_after} was seen"):
        history.listed(PATH, listed, after=asked_after)
    # From now on, the new history counts.
    assert history.highest(PATH) == int(listed)


def test_kinds_may_be_stored_apart() -> None:
    history = History()
    history.saw("/a", "100")
    history.listed("/b", "1", after=history.highest("/b"))


@pytest.mark.parametrize(
    "end",
    [
        watches(event("MODIFIED", slice_("a", 50)), end="breaks"),
        watches(event("MODIFIED", slice_("a", 50)), end="ends"),
        watches(bookmark(50), end="breaks"),
    ],
    ids=["event, breaks", "event, ends", "bookmark, breaks"],
)
async def test_it_is_noticed_before_a_watch_goes_on(
    api: Api, script: Script, slices: Reflector[ResourceSlice], end: Answer
) -> None:
    """From a version of the future, a watch is silent, and nothing need be written in the meantime."""
    script.version_now = lambda _: 20
    script.then(lists(40, slice_("a", 3)), end, watches())
    with pytest.raises(HistoryWentBackError, match="version 20, but version 50"):
        await asyncio.wait_for(slices.run(), 5)


async def test_it_is_noticed_when_a_watch_is_silent(
    script: Script, slices: Reflector[ResourceSlice], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "WATCH_SILENCE", 0.1)
    script.version_now = lambda _: 20
    script.then(lists(40), watches())
    with pytest.raises(HistoryWentBackError):
        await asyncio.wait_for(slices.run(), 5)


async def test_it_is_noticed_by_the_list_of_a_watch_that_cannot_go_on(
    script: Script, slices: Reflector[ResourceSlice]
) -> None:
    script.then(lists(40, slice_("a", 30)), watches(expired(), end="ends"), lists(20, slice_("a", 10)))
    with pytest.raises(HistoryWentBackError):
        await asyncio.wait_for(slices.run(), 5)


async def test_a_write_of_our_own_is_seen_as_well(api: Api, script: Script, slices: Reflector[ResourceSlice]) -> None:
    script.version_now = lambda _: 20
    script.then(lists(5), watches(end="ends"))
    slices.put(RESOURCE_SLICES.from_json(slice_("a", 21)))
    script.then(lists(5))
    with pytest.raises(HistoryWentBackError):
        await asyncio.wait_for(slices.run(), 5)


async def test_a_quiet_kind_is_no_trouble(
    script: Script, slices: Reflector[ResourceSlice], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing changes, no bookmark may come for long."""
    monkeypatch.setattr(transport, "WATCH_SILENCE", 0.1)
    script.then(lists(5, slice_("a", 3)), watches())
    with capture_logs() as logs:
        task = asyncio.create_task(slices.run())

        async def goes_on() -> None:
            assert len(script.received) > 3

        await eventually(goes_on)
        assert not task.done()
        task.cancel()
    assert logs == []
    # From where it was: there was no other list.
    assert [received.query.get("resourceVersion") for received in script.received[1:]] == ["5"] * (
        len(script.received) - 1
    )


async def test_through_a_restore_everything_is_read_anew(script: Script, slices: Reflector[ResourceSlice]) -> None:
    """What the new history does not have is forgotten, and what it has counts, whatever the versions say."""
    script.version_now = lambda _: 20
    script.then(
        lists(40, slice_("older", 39), slice_("gone", 38)),
        watches(event("MODIFIED", slice_("older", 50)), end="breaks"),
        lists(21, slice_("older", 7)),
        watches(event("MODIFIED", slice_("older", 22))),
    )
    with capture_logs() as logs:
        task = asyncio.create_task(slices.run_through_restores())

        async def follows() -> None:
            assert known(slices) == {"older": "22"}

        await eventually(follows)
        task.cancel()
    (said,) = [entry for entry in logs if entry["log_level"] == "error"]
    assert (said["event"], said["kind"]) == ("history went back", "ResourceSlice")


@pytest.mark.parametrize(
    ("answer", "then"),
    [(says(slice_("a", 7)), {"a": "7"}), (refuses(404, "NotFound"), {})],
    ids=["is older", "is not there"],
)
@pytest.mark.parametrize("status", [404, 409])
async def test_what_refuses_a_write_is_read_and_counts(  # noqa: PLR0917 (fixtures and cases)
    api: Api, script: Script, slices: Reflector[ResourceSlice], status: int, answer: Answer, then: dict[str, str]
) -> None:
    script.then(refuses(status), answer)
    slices.put(RESOURCE_SLICES.from_json(slice_("a", 50)))
    with pytest.raises(ApiError):
        async with slices.believing("a"):
            await api.replace(RESOURCE_SLICES, "a", {})
    assert known(slices) == then


async def test_what_a_watch_tells_meanwhile_is_newer_than_what_is_read(
    api: Api, script: Script, slices: Reflector[ResourceSlice]
) -> None:
    async def told_meanwhile(request: web.BaseRequest) -> web.StreamResponse:
        slices.put(RESOURCE_SLICES.from_json(slice_("a", 51)))
        return web.Response(body=json.dumps(slice_("a", 7)).encode())

    script.then(told_meanwhile)
    slices.put(RESOURCE_SLICES.from_json(slice_("a", 50)))
    await slices.read_again("a")
    assert known(slices) == {"a": "51"}


@pytest.mark.parametrize("status", [403, 500, 422])
async def test_other_refusals_say_nothing_of_what_there_is(
    api: Api, script: Script, slices: Reflector[ResourceSlice], status: int
) -> None:
    script.then(refuses(status))
    with pytest.raises(ApiError):
        async with slices.believing("a"):
            await api.replace(RESOURCE_SLICES, "a", {})
    assert script.verbs == ["PUT"]
