"""State files: whole or put aside, whatever happens to writer and disk."""

import hashlib
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusharing.agent.files import Envelopes, boot_id, write_atomically
from gpusharing.api import strict_json
from gpusharing.api.base import ApiModel

BOOT = "6a0ce5a9-1f8c-4f3c-9a58-0e8a5b1f2d3c"


class Note(ApiModel):
    text: str
    number: int | None = None
    more: tuple[str, ...] = ()


NOTE = Note(text="Grüße, \U0001f600", number=7, more=("one", "two"))


def envelopes(directory: Path, boot: str = BOOT) -> Envelopes[Note]:
    return Envelopes(directory / "notes", Note, boot=boot, survives_reboot=True)


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
    assert boot_id(Path("/proc")) == Path("/proc/sys/kernel/random/boot_id").read_text().strip()


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
    (tmp_path / "notes" / "b.json").mkdir()
    with pytest.raises(OSError, match="directory"):
        store.write("b", NOTE)
    (tmp_path / "notes" / "b.json").rmdir()
    assert [path.name for path in (tmp_path / "notes").iterdir()] == ["a.json"]


_WRITER = """
import sys
from pathlib import Path
from gpusharing.agent.files import write_atomically

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
