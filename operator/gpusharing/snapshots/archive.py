"""A bundle: a snapshot, with logs and metrics beside it, in one compressed archive.

Archives come from anybody: they are read in memory, no further than the snapshot, and no file is ever written.
"""

import gzip
import io
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from typing import Final

FOLDER: Final = "gpusharing-bundle"
SNAPSHOT: Final = "snapshot.json"
LARGEST: Final = 1 << 30
"""Bytes of an archive that are unpacked: ten thousand nodes have about 600 MB."""
_MAGIC: Final = b"\x1f\x8b"
_PIECE: Final = 1 << 20
_FILES: Final = frozenset({tarfile.REGTYPE, tarfile.AREGTYPE})
_WITHOUT_CONTENT: Final = frozenset(
    {tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.DIRTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE}
)


class ArchiveError(Exception):
    """An archive without a snapshot, or none at all."""


def pack(files: Mapping[str, bytes]) -> bytes:
    """The same bytes for the same files. They are in this order, in FOLDER."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", filename="", mtime=0, compresslevel=6) as compressed,
        tarfile.open(fileobj=compressed, mode="w|", format=tarfile.GNU_FORMAT) as archive,
    ):
        for name, data in files.items():
            entry = tarfile.TarInfo(f"{FOLDER}/{name}")
            entry.size, entry.mode = len(data), 0o600
            archive.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


def is_archive(data: bytes) -> bool:
    return data.startswith(_MAGIC)


def snapshot_in(data: bytes, *, largest: int = LARGEST) -> bytes:
    """The first file of this name, in whatever folder. Raises ArchiveError."""
    # Not with tarfile's reader: names of names end it by recursion, and a sparse file of a hundred bytes has any size.
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as compressed:
            return _found(_Bounded(compressed, largest))
    except (tarfile.TarError, OSError, EOFError, zlib.error, ValueError) as error:
        raise ArchiveError(f"not a bundle: {error}") from error


def _found(archive: "_Bounded") -> bytes:
    while (header := archive.read(tarfile.BLOCKSIZE)).strip(b"\0"):
        entry = tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
        if entry.size < 0:
            raise ArchiveError("not a bundle: a negative size")
        if entry.type in _FILES and entry.name.rpartition("/")[2] == SNAPSHOT:
            content = archive.read(entry.size)
            if len(content) != entry.size:
                raise ArchiveError(f"not a bundle: {SNAPSHOT} ends early")
            return content
        if entry.type not in _WITHOUT_CONTENT:
            archive.skip(-(-entry.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE)
    raise ArchiveError(f"not a bundle: no {SNAPSHOT} in the archive")


class _Bounded:
    """Ends with an error where too much was unpacked, whatever headers say."""

    def __init__(self, stream: gzip.GzipFile, most: int) -> None:
        self._stream = stream
        self._left = most

    def read(self, size: int) -> bytes:
        """Less than `size` at the end."""
        return b"".join(self._pieces(size))

    def skip(self, size: int) -> None:
        for _ in self._pieces(size):
            pass

    def _pieces(self, size: int) -> Iterator[bytes]:
        while size > 0 and (piece := self._stream.read(min(size, _PIECE))):
            size -= len(piece)
            self._left -= len(piece)
            if self._left < 0:
                raise ArchiveError("not a bundle: larger than a bundle may be when unpacked")
            yield piece
