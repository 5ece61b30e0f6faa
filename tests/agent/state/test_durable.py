"""What is forced to the disk: in memory at once, on the disk in order, and never on the event loop."""

import asyncio
import errno
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gpusharing.agent.state import files
from gpusharing.agent.state.durable import DurableRecords
from gpusharing.agent.state.files import Boot, Envelopes
from gpusharing.agent.state.models import Generation

BOOT = Boot("this", None)

Pools = DurableRecords[Generation]


@pytest.fixture
def pools(tmp_path: Path) -> Iterator[Pools]:
    with ThreadPoolExecutor(max_workers=1) as disk:
        yield DurableRecords(envelopes(tmp_path), {}, disk)


def envelopes(directory: Path) -> Envelopes[Generation]:
    return Envelopes(directory, Generation, boot=BOOT, survives_reboot=True)


def on_disk(directory: Path) -> dict[str, int]:
    return {key: generation.value for key, generation, _ in envelopes(directory).read_all()}


def in_memory(pools: Pools) -> dict[str, int]:
    return {key: generation.value for key, generation in pools.contents.items()}


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


async def test_the_disk_has_what_was_put_last(pools: Pools, tmp_path: Path) -> None:
    writes = [pools.put("a", Generation(value=value)) for value in range(20)]
    assert in_memory(pools) == {"a": 19}
    await asyncio.gather(*writes)
    assert on_disk(tmp_path) == {"a": 19}


async def test_it_is_on_the_disk_before_who_puts_the_same_goes_on(pools: Pools, tmp_path: Path) -> None:
    first = asyncio.ensure_future(pools.put("a", Generation(value=1)))
    await pools.put("a", Generation(value=1))
    assert on_disk(tmp_path) == {"a": 1}
    await first


async def test_what_cannot_be_written_changes_nothing(
    pools: Pools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await pools.put("a", Generation(value=1))
    monkeypatch.setattr(files, "write_atomically", full)
    for key in ("a", "b"):
        with pytest.raises(OSError, match="No space"):
            await pools.put(key, Generation(value=2))
    assert in_memory(pools) == on_disk(tmp_path) == {"a": 1}
    assert isinstance(pools.failure, OSError)


async def test_what_is_kept_is_written_once_there_is_room(
    pools: Pools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pools.keep("a", Generation(value=1))
    assert (in_memory(pools), on_disk(tmp_path)) == ({"a": 1}, {})
    with monkeypatch.context() as disk:
        disk.setattr(files, "write_atomically", full)
        await pools.flush()
        with pytest.raises(OSError, match="No space"):
            await pools.put("a", Generation(value=2))
    assert (in_memory(pools), on_disk(tmp_path)) == ({"a": 1}, {})
    # Nobody has removed it: it was never there.
    assert await pools.renew() == []
    assert on_disk(tmp_path) == {"a": 1}
    (tmp_path / "a.json").unlink()
    assert await pools.renew() == [tmp_path / "a.json"]
    assert on_disk(tmp_path) == {"a": 1}


async def test_it_is_written_although_nobody_waits_any_more(pools: Pools, tmp_path: Path) -> None:
    writing = asyncio.ensure_future(pools.put("a", Generation(value=1)))
    writing.cancel()
    await asyncio.wait({writing})
    await pools.put("b", Generation(value=2))
    assert on_disk(tmp_path) == in_memory(pools) == {"a": 1, "b": 2}


async def test_the_event_loop_does_not_wait_for_the_disk(pools: Pools, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: set[int] = set()
    fsync = os.fsync

    def slow(descriptor: int) -> None:
        threads.add(threading.get_ident())
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", slow)
    pools.keep("a", Generation(value=1))
    await pools.flush()
    await pools.put("a", Generation(value=2))
    assert threads
    assert threading.get_ident() not in threads
