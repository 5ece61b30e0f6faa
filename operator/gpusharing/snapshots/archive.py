"""A bundle: a snapshot, with logs and metrics beside it, in one compressed archive.

Archives come from anybody: they are read in memory, no further than the snapshot, and no file is ever written.
"""

import gzip
import io
import tarfile
import zlib
from collections.abc import Mapping
from typing import Final

FOLDER: Final = "gpusharing-bundle"
SNAPSHOT: Final = "snapshot.json"
LARGEST: Final = 1 << 30
"""Bytes of an archive that are unpacked: ten thousand nodes have about 600 MB."""
_MAGIC: Final = b"\x1f\x8b"
_PIECE: Final = 1 << 20


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
    try:
        with (
            gzip.GzipFile(fileobj=io.BytesIO(data)) as compressed,
            tarfile.open(fileobj=_Bounded(compressed, largest), mode="r|", format=tarfile.GNU_FORMAT) as archive,
        ):
            for entry in archive:
                if entry.isreg() and entry.name.rpartition("/")[2] == SNAPSHOT:
                    return _content(archive, entry)
    except (tarfile.TarError, OSError, EOFError, zlib.error, ValueError) as error:
        raise ArchiveError(f"not a bundle: {error}") from error
    raise ArchiveError(f"not a bundle: no {SNAPSHOT} in the archive")


def _content(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(entry)
    data = file.read() if file is not None else b""
    if len(data) != entry.size:
        raise ArchiveError(f"not a bundle: {SNAPSHOT} ends early")
    return data


class _Bounded(io.RawIOBase):
    """Ends with an error where too much was unpacked, whatever headers say."""

    def __init__(self, stream: gzip.GzipFile, most: int) -> None:
        self._stream = stream
        self._left = most

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(min(size, _PIECE) if size >= 0 else _PIECE)
        self._left -= len(data)
        if self._left < 0:
            raise ArchiveError("not a bundle: larger than a bundle may be when unpacked")
        return data
