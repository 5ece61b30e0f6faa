"""State files: whole or put aside, whatever happens to writer and disk."""

import errno
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusharing.agent.state.files import Boot, Envelopes, write_atomically
from gpusharing.api import strict_json
from gpusharing.api.base import ApiModel
from gpusharing.kube.clock import seconds_since_boot

BOOT = "6a0ce5a9-1f8c-4f3c-9a58-0e8a5b1f2d3c"
BEGAN = time.time() - 3600
"""The boot, an hour before the test."""


class Note(ApiModel):
    text: str
    number: int | None = None
    more: tuple[str, ...] = ()


NOTE = Note(text="Grüße, \U0001f600", number=7, more=("one", "two"))


def envelopes(directory: Path, boot: str = BOOT, *, survives_reboot: bool = True) -> Envelopes[Note]:
    return Envelopes(directory / "notes", Note, boot=Boot(boot, BEGAN), survives_reboot=survives_reboot)


def contents(directory: Path, boot: str = BOOT) -> list[tuple[str, Note, bool]]:
    return list(envelopes(directory, boot).read_all())


notes = st.builds(
    Note,
    text=st.text(st.characters(exclude_categories=()), max_size=20),
    number=st.none() | st.integers(-(2**63), 2**63),
    more=st.lists(st.text(max_size=5), max_size=3).map(tuple),
)


@given(note=notes)
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, note: Note) -> None:
    directory = tmp_path_factory.mktemp("files")
    envelopes(directory).write("key", note)
    assert contents(directory) == [("key", note, True)]


def test_later_content_replaces_the_earlier(tmp_path: Path) -> None:
    store = envelopes(tmp_path)
    for number in range(3):
        store.write("a", NOTE.model_copy(update={"number": number}))
    store.write("b", NOTE)
    assert [(key, note.number) for key, note, _ in store.read_all()] == [("a", 2), ("b", 7)]


def test_deleted_is_gone_and_may_be_deleted_again(tmp_path: Path) -> None:
    store = envelopes(tmp_path)
    store.write("a", NOTE)
    store.delete("a")
    store.delete("a")
    assert contents(tmp_path) == []


def test_file_of_another_boot_says_so(tmp_path: Path) -> None:
    envelopes(tmp_path, boot="earlier").write("a", NOTE)
    assert contents(tmp_path) == [("a", NOTE, False)]


def test_boot_id_is_the_kernels() -> None:
    assert Boot.read(Path("/proc")).id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def test_boot_began_when_the_clock_of_the_kernel_began() -> None:
    began = Boot.read(Path("/proc")).began
    assert began is not None
    assert abs(time.time() - seconds_since_boot() - began) < 2


def test_kernel_that_does_not_tell_when_it_began(tmp_path: Path) -> None:
    (tmp_path / "sys/kernel/random").mkdir(parents=True)
    (tmp_path / "sys/kernel/random/boot_id").write_text("b\n")
    file = tmp_path / "file"
    file.touch()
    os.utime(file, (0, 0))
    assert Boot.read(tmp_path) == Boot("b", None)
    assert Boot.read(tmp_path).wrote(file)


@pytest.mark.parametrize(
    ("survives_reboot", "before_this_boot", "data", "is_dropped"),
    [
        # A power cut leaves what was not forced to the disk empty, or with blocks of zeros.
        (False, True, b"", True),
        (False, True, b"\0" * 4096, True),
        (False, True, b"{", True),
        # Clocks that are set at the start say little; an empty file is no work of ours.
        (False, False, b"", True),
        (False, False, b"{", False),
        # What has to survive was forced to the disk: something else is wrong with it.
        (True, True, b"", False),
        (True, True, b"{", False),
    ],
)
def test_torn_file_of_an_earlier_boot_is_dropped(
    tmp_path: Path, data: bytes, *, survives_reboot: bool, before_this_boot: bool, is_dropped: bool
) -> None:
    store = envelopes(tmp_path, survives_reboot=survives_reboot)
    path = tmp_path / "notes" / "a.json"
    path.write_bytes(data)
    if before_this_boot:
        os.utime(path, (BEGAN - 60, BEGAN - 60))
    assert list(store.read_all()) == []
    assert (path.exists(), store.quarantined, store.put_aside()) == (
        False,
        int(not is_dropped),
        set() if is_dropped else {"a"},
    )


def test_what_was_put_aside_is_forgotten_whatever_it_is(tmp_path: Path) -> None:
    store = envelopes(tmp_path)
    aside = tmp_path / "notes" / "a.json"
    aside.mkdir()
    (aside / "x").touch()
    assert list(store.read_all()) == []
    assert store.put_aside() == {"a"}
    store.forget("a")
    assert store.put_aside() == set()


def _damaged_is_noticed(directory: Path, original: bytes, damaged: bytes) -> None:
    """Either nothing that matters has changed, or the file is put aside as it is, and is read never again."""
    store = envelopes(directory)
    path = directory / "notes" / "a.json"
    path.write_bytes(damaged)
    read = list(store.read_all())
    if read:
        # Not even the boot may be another: a GPU's former setting is thrown away after a reboot.
        assert read == [("a", NOTE, True)]
        assert json.loads(damaged) == json.loads(original)
    else:
        assert path.with_name("a.json.quarantined").read_bytes() == damaged
        assert not path.exists()
        assert list(store.read_all()) == []


def test_every_truncation_is_noticed(tmp_path: Path) -> None:
    envelopes(tmp_path).write("a", NOTE)
    original = (tmp_path / "notes" / "a.json").read_bytes()
    for length in range(len(original)):
        _damaged_is_noticed(tmp_path, original, original[:length])


def test_every_changed_byte_is_noticed(tmp_path: Path) -> None:
    envelopes(tmp_path).write("a", NOTE)
    original = (tmp_path / "notes" / "a.json").read_bytes()
    for position in range(len(original)):
        for bit in (0x01, 0x20, 0x80):
            damaged = bytearray(original)
            damaged[position] ^= bit
            _damaged_is_noticed(tmp_path, original, bytes(damaged))


@given(data=st.data())
def test_damage_is_noticed(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Bytes replaced, lost and put in, blocks of zeros as a power cut leaves them."""
    directory = tmp_path_factory.mktemp("files")
    envelopes(directory).write("a", NOTE)
    original = (directory / "notes" / "a.json").read_bytes()
    start = data.draw(st.integers(0, len(original)))
    end = data.draw(st.integers(start, min(len(original), start + 8)))
    block = data.draw(st.binary(max_size=4) | st.integers(1, 64).map(bytes))
    _damaged_is_noticed(directory, original, original[:start] + block + original[end:])


def _envelope(**changes: Any) -> bytes:
    """A file with a checksum that is right for what is in it."""
    content = changes.pop("content", {"text": "x"})
    checked = {"format": 1, "bootID": BOOT, "content": content} | changes
    envelope = {"checksum": hashlib.sha256(strict_json.canonical(checked)).hexdigest(), **checked}
    return strict_json.canonical(envelope)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a later format", _envelope(format=2)),
        ("an empty file", b""),
        ("not an object", b"[]"),
        ("null", b"null"),
        ("no content", b'{"format":1}'),
        ("content of another kind", _envelope(content={"number": 1})),
        ("content that is no object", _envelope(content=[1])),
        ("not UTF-8", b"\xff\xfe"),
        ("lists without end", b"[" * 100_000),
    ],
)
def test_file_that_cannot_be_trusted_does_not_hide_the_others(tmp_path: Path, name: str, data: bytes) -> None:
    store = envelopes(tmp_path)
    store.write("good", NOTE)
    (tmp_path / "notes" / "bad.json").write_bytes(data)
    assert [key for key, _, _ in store.read_all()] == ["good"]
    assert (tmp_path / "notes" / "bad.json.quarantined").read_bytes() == data


def test_the_envelope_of_this_test_is_the_real_one(tmp_path: Path) -> None:
    """Else the table above would show nothing."""
    envelopes(tmp_path)
    (tmp_path / "notes" / "a.json").write_bytes(_envelope())
    assert contents(tmp_path) == [("a", Note(text="x"), True)]


def test_what_a_killed_writer_leaves_is_not_read_and_goes(tmp_path: Path) -> None:
    envelopes(tmp_path).write("a", NOTE)
    leftover = tmp_path / "notes" / ".b.json.4711.tmp"
    leftover.write_bytes(b'{"format":1,')
    assert contents(tmp_path) == [("a", NOTE, True)]
    # Each has a name of its own, so that they would become more with every kill.
    assert not leftover.exists()


def test_failed_write_leaves_the_old_content_and_nothing_else(tmp_path: Path) -> None:
    store = envelopes(tmp_path)
    store.write("a", NOTE)
    with pytest.raises(OSError, match="too long"):
        store.write("b" * 300, NOTE)
    assert [path.name for path in (tmp_path / "notes").iterdir()] == ["a.json"]


def test_what_stands_in_the_place_of_a_file_is_replaced(tmp_path: Path) -> None:
    store = envelopes(tmp_path)
    (tmp_path / "notes/a.json/below").mkdir(parents=True)
    (tmp_path / "notes/b.json").symlink_to(tmp_path / "elsewhere")
    for key in ("a", "b"):
        store.write(key, NOTE)
    assert sorted(key for key, _, _ in store.read_all()) == ["a", "b"]
    assert not (tmp_path / "elsewhere").exists()


def test_what_others_delete_is_written_again(tmp_path: Path) -> None:
    store, wanted = envelopes(tmp_path), {"a": NOTE, "b": NOTE}
    for key in wanted:
        store.write(key, NOTE)
    assert store.renew(wanted) == []
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "notes").iterdir()}
    assert store.renew(wanted) == []
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "notes").iterdir()}
    (tmp_path / "notes/a.json").unlink()
    assert store.renew(wanted) == [tmp_path / "notes/a.json"]
    shutil.rmtree(tmp_path / "notes")
    assert store.renew(wanted) == [tmp_path / "notes/a.json", tmp_path / "notes/b.json"]
    assert {key: content for key, content, _ in store.read_all()} == wanted


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for a quarter of a MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", disk], check=True)
    yield disk
    subprocess.run(["umount", disk], check=True)


def fill(disk: Path) -> Path:
    """All of it: a file system says how much is left in blocks."""
    filling = disk / "filling"
    with suppress(OSError), filling.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(512))
    return filling


def has_failed(store: Envelopes[Note]) -> bool:
    return store.failure is not None


def test_what_was_learned_is_kept_until_there_is_room(small_disk: Path) -> None:
    store = envelopes(small_disk)
    store.write("old", NOTE)
    wanted = {"old": NOTE, "new": NOTE}
    filling = fill(small_disk)
    store.keep("new", NOTE)
    store.keep("old", None)
    del wanted["old"]
    assert store.failure is not None
    assert (store.failure.errno, store.failure.filename) == (errno.ENOSPC, str(small_disk / "notes/new.json"))
    for _ in range(2):
        with pytest.raises(OSError, match="No space left"):
            store.renew(wanted)
        assert has_failed(store)
    filling.unlink()
    # Nobody had removed it.
    assert store.renew(wanted) == []
    assert not has_failed(store)
    assert {key: content for key, content, _ in store.read_all()} == wanted


def test_a_failure_is_over_when_anything_can_be_written(small_disk: Path) -> None:
    """The claim that could not be written may have gone with its pod."""
    store = envelopes(small_disk)
    filling = fill(small_disk)
    with pytest.raises(OSError, match="No space left"):
        store.write("a", NOTE)
    with pytest.raises(OSError, match="No space left"):
        store.renew({})
    filling.unlink()
    assert store.renew({}) == []
    assert not has_failed(store)
    assert list((small_disk / "notes").iterdir()) == []


_WRITER = """
import sys
from pathlib import Path
from gpusharing.agent.state.files import write_atomically

path, size = Path(sys.argv[1]), int(sys.argv[2])
number = 0
while True:
    number += 1
    write_atomically(path, bytes([number % 256]) * size, durable=True)
    if number == 1:
        print(flush=True)
"""


def test_reader_never_sees_a_torn_file_of_killed_writers(tmp_path: Path) -> None:
    path, size = tmp_path / "file.json", 64 * 1024
    write_atomically(path, bytes(size), durable=True)
    seen = set()
    for _ in range(3):
        command = [sys.executable, "-c", _WRITER, str(path), str(size)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
            assert writer.stdout
            assert writer.stdout.readline()
            end = time.monotonic() + 0.1
            while time.monotonic() < end:
                data = path.read_bytes()
                assert data == data[:1] * size
                seen.add(data[0])
            writer.kill()
        data = path.read_bytes()
        assert data == data[:1] * size
    # The reader has really met the writers at work.
    assert len(seen) > 5
