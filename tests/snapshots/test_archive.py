"""Archives come from anybody."""

import gzip
import io
import tarfile
from collections.abc import Callable
from typing import Final

import pytest

from gpusharing.snapshots import file, lines
from gpusharing.snapshots.archive import SNAPSHOT, ArchiveError, pack, snapshot_in
from gpusharing.snapshots.file import SnapshotError
from snapshots.test_file import WORLD

FILES: Final = {"README.txt": b"read me", SNAPSHOT: b"{}", "agents/node-1/a/log.txt": b"a\n" * 1000}
MEBIBYTE: Final = 1 << 20


def packed(*entries: tarfile.TarInfo, content: bytes = b"") -> bytes:
    """By another program, which may mean harm."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as made:
        for entry in entries:
            made.addfile(entry, io.BytesIO(content) if entry.size else None)
    return gzip.compress(plain.getvalue())


def entry(name: str, size: int = 0, type_: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    found.size, found.type, found.linkname = size, type_, link
    return found


def test_the_same_files_are_the_same_bytes_in_their_order() -> None:
    data = pack(FILES)
    assert data == pack(dict(FILES))
    with tarfile.open(fileobj=io.BytesIO(data)) as found:
        assert found.getnames() == [f"gpusharing-bundle/{name}" for name in FILES]
        assert {(one.uid, one.gid, one.mtime, one.mode) for one in found} == {(0, 0, 0, 0o600)}


def test_a_snapshot_is_read_from_its_bundle() -> None:
    snapshot = file.dumps(WORLD).encode()
    found = lines.loads(pack(FILES | {SNAPSHOT: snapshot}))
    assert [list(found.nodes), found.minor] == [list(WORLD.nodes), WORLD.minor]


def test_people_may_pack_it_again() -> None:
    others = packed(entry("notes.txt", 2), entry(SNAPSHOT, 2), content=b"{}")
    assert snapshot_in(others) == b"{}"


HOSTILE: Final[dict[str, Callable[[], bytes]]] = {
    "no archive": lambda: gzip.compress(b"text"),
    "nothing": lambda: gzip.compress(b""),
    "no gzip": lambda: b"\x1f\x8b" + b"\0" * 20,
    "ends early": lambda: pack(FILES | {SNAPSHOT: bytes(range(256)) * 4096})[:900],
    "without a snapshot": lambda: pack({"README.txt": b""}),
    "a link to a file of the reader": lambda: packed(entry(SNAPSHOT, type_=tarfile.SYMTYPE, link="/etc/passwd")),
    "a hard link": lambda: packed(entry(SNAPSHOT, type_=tarfile.LNKTYPE, link="/etc/passwd")),
    "a device": lambda: packed(entry(SNAPSHOT, type_=tarfile.CHRTYPE)),
    "a folder": lambda: packed(entry(SNAPSHOT, type_=tarfile.DIRTYPE)),
    "less than its size says": lambda: gzip.compress(entry(SNAPSHOT, 1 << 40).tobuf(tarfile.GNU_FORMAT)),
    "a negative size": lambda: gzip.compress(negative(entry(SNAPSHOT, 1).tobuf())),
    "a header of any length": lambda: gzip.compress(
        entry("x", 1 << 40, tarfile.XHDTYPE).tobuf(tarfile.GNU_FORMAT) + b"9" * 100
    ),
    "too much before it": lambda: packed(entry("big", 3 * MEBIBYTE), content=bytes(3 * MEBIBYTE)),
    "too large": lambda: pack({SNAPSHOT: bytes(3 * MEBIBYTE)}),
    "a long name that never ends": lambda: gzip.compress(
        entry("x", 1 << 40, tarfile.GNUTYPE_LONGNAME).tobuf(tarfile.GNU_FORMAT) + bytes(3 * MEBIBYTE)
    ),
    "names of names": lambda: gzip.compress(
        (entry("x", 1, tarfile.GNUTYPE_LONGNAME).tobuf() + b"a" + bytes(511)) * 2000
    ),
    "fields of fields": lambda: gzip.compress(
        (entry("x", 10, tarfile.XHDTYPE).tobuf() + b"10 path=a\n" + bytes(502)) * 2000
    ),
    "nothing but a hole": lambda: gzip.compress(hole(entry(SNAPSHOT, 0, tarfile.GNUTYPE_SPARSE).tobuf(), 1 << 60)),
}


def hole(header: bytes, size: int) -> bytes:
    """Of this size, with no data around it."""
    return summed(
        header[:386] + b"00000000000\0" * 2 + header[410:483] + b"\x80" + size.to_bytes(11, "big") + header[495:]
    )


def negative(header: bytes) -> bytes:
    """As GNU writes numbers that do not fit."""
    return summed(header[:124] + b"\xff" * 12 + header[136:])


def summed(changed: bytes) -> bytes:
    blank = changed[:148] + b" " * 8 + changed[156:]
    return blank[:148] + f"{sum(blank[:512]):06o}\0 ".encode() + blank[156:]


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_bundle_is_refused(name: str) -> None:
    with pytest.raises(ArchiveError, match="not a bundle"):
        snapshot_in(HOSTILE[name](), largest=2 * MEBIBYTE)


def test_a_bomb_is_not_unpacked() -> None:
    """A thousand times as large as its file."""
    bomb = pack({SNAPSHOT: bytes(64 * MEBIBYTE)})
    assert len(bomb) < MEBIBYTE
    with pytest.raises(ArchiveError, match="larger"):
        snapshot_in(bomb, largest=MEBIBYTE)


def test_commands_say_what_is_wrong() -> None:
    with pytest.raises(SnapshotError, match=r"no snapshot\.json"):
        lines.loads(pack({"README.txt": b""}))
