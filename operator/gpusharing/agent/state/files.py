"""Small files that survive kill -9 and power cuts, and say so when they did not.

Each is an envelope of JSON: what it is (format), in which boot of the node it was written, and a checksum. A file that
cannot be trusted is put aside and reported, and its content is found out again from the hardware and the API. One that
a reboot has made void anyway is deleted: a power cut tears files that were not forced to the disk.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, Generic, NamedTuple, Self, TypeVar

import pydantic
import structlog

from gpusharing.api import strict_json
from gpusharing.api.base import ApiModel

M = TypeVar("M", bound=ApiModel)

log = structlog.get_logger(__name__)

FORMAT: Final = 1
_SUFFIX: Final = ".json"
_TEMPORARY: Final = ".tmp"
QUARANTINED: Final = ".quarantined"
# About as much as a record of ours has.
_PROBE: Final = 4096


class Boot(NamedTuple):
    """Of the node."""

    id: str
    began: float | None
    """In seconds since 1970, as the clock is set now. None: the kernel does not tell."""

    @classmethod
    def read(cls, proc: Path) -> Self:
        return cls((proc / "sys/kernel/random/boot_id").read_text().strip(), _boot_time(proc / "stat"))

    def wrote(self, path: Path) -> bool:
        """Whether the file was written in this boot, for all that is known."""
        return self.began is None or path.lstat().st_mtime >= self.began


def _boot_time(stat: Path) -> float | None:
    try:
        lines = (line.split() for line in stat.read_text().splitlines())
        return next(float(words[1]) for words in lines if len(words) == 2 and words[0] == "btime")
    except (OSError, ValueError, StopIteration):
        return None


class Envelopes(Generic[M]):
    """The files of one kind: a directory with one file for each key."""

    def __init__(
        self, directory: Path, model: type[M], *, boot: Boot, survives_reboot: bool, is_seen_again: bool = False
    ) -> None:
        """What the next boot has no use for is not forced to the disk: a killed agent finds it all the same, and a
        pod's start does not wait for the disk twice. `is_seen_again`: the next look at the hardware tells it anew, so
        that nothing is lost with a file."""
        self._directory = directory
        self._model = model
        self._boot = boot
        self._durable = survives_reboot
        self._is_seen_again = is_seen_again
        self.quarantined = 0
        """How many files could not be trusted when they were read."""
        self.failure: OSError | None = None
        """Why something could not be written, until `renew` has found that it can be."""
        self._unwritten: set[str] = set()
        directory.mkdir(parents=True, exist_ok=True)
        remove_leftovers(directory)

    def write(self, key: str, content: M) -> None:
        """For the next agent to find when this returns, however this one ends."""
        envelope = strict_json.canonical({"format": FORMAT, "bootID": self._boot.id, "content": content.to_json()})
        # Written once: a pod waits for it.
        data = b'%b,"checksum":"%b"}' % (envelope.removesuffix(b"}"), _checksum(envelope).encode())
        self._note_failure(lambda: write_atomically(self._path(key), data, durable=self._durable))
        self._unwritten.discard(key)

    def delete(self, key: str) -> None:
        self._note_failure(lambda: self._delete(key))
        self._unwritten.discard(key)

    def keep(self, key: str, content: M | None) -> None:
        """Writes it, or deletes it if there is none. What is not possible now, `renew` does later."""
        try:
            if content is None:
                self.delete(key)
            else:
                self.write(key, content)
        except OSError:
            self._unwritten.add(key)

    def renew(self, contents: Mapping[str, M]) -> list[Path]:
        """Writes the files that others have deleted, and what could not be written before. Returns the former."""
        self._directory.mkdir(parents=True, exist_ok=True)
        there = {path.name.removesuffix(_SUFFIX) for path in self._directory.glob(f"*{_SUFFIX}")}
        deleted = contents.keys() - there - self._unwritten
        for key in sorted(deleted | self._unwritten):
            if key in contents:
                self.write(key, contents[key])
            else:
                self.delete(key)
        if self.failure:
            # It may be about a write that is not wanted any more.
            probe = self._directory / f".probe{_TEMPORARY}"
            self._note_failure(lambda: write_atomically(probe, bytes(_PROBE)))
            probe.unlink()
        self.failure = None
        return [self._path(key) for key in sorted(deleted)]

    def _note_failure(self, change: Callable[[], None]) -> None:
        try:
            change()
        except OSError as error:
            if self.failure is None:
                log.error("state not written", error=str(error))  # noqa: TRY400 (the disk's fault, not ours)
            self.failure = error
            raise

    def _delete(self, key: str) -> None:
        self._path(key).unlink(missing_ok=True)
        if self._durable:
            _sync_directory(self._directory)

    def read_all(self) -> Iterator[tuple[str, M, bool]]:
        """Key, content, and whether it was written in this boot, for every file that can be trusted."""
        for path in sorted(self._directory.glob(f"*{_SUFFIX}")):
            try:
                content, boot = self._read(path)
            except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
                self._put_aside(path, _first_line(error))
                continue
            yield path.name.removesuffix(_SUFFIX), content, boot == self._boot.id

    def _put_aside(self, path: Path, error: str) -> None:
        if self._is_seen_again or (not self._durable and self._is_void(path)):
            remove(path)
            log.info("state file dropped", file=str(path), error=error)
            return
        aside = path.with_name(path.name + QUARANTINED)
        path.replace(aside)
        self.quarantined += 1
        log.warning("state file quarantined", file=str(aside), error=error)

    def _is_void(self, path: Path) -> bool:
        """Whether a power cut has torn it: nothing else leaves a file empty, or one of before this boot broken."""
        return not self._boot.wrote(path) or path.lstat().st_size == 0

    def put_aside(self) -> set[str]:
        """The keys of files that could not be trusted, now or at an earlier start."""
        suffix = _SUFFIX + QUARANTINED
        return {path.name.removesuffix(suffix) for path in self._directory.glob(f"*{suffix}")}

    def forget(self, key: str) -> None:
        """What was put aside of it: its content was found out again."""
        path = self._path(key)
        remove(path.with_name(path.name + QUARANTINED))

    def _read(self, path: Path) -> tuple[M, str]:
        envelope = dict(json.loads(path.read_bytes()))
        checksum = envelope.pop("checksum")
        if envelope["format"] != FORMAT:
            raise ValueError(f"format {envelope['format']}, this agent writes {FORMAT}")
        if checksum != _checksum(strict_json.canonical(envelope)):
            raise ValueError("checksum does not match")
        try:
            return self._model.model_validate(envelope["content"]), envelope["bootID"]
        except pydantic.ValidationError as error:
            raise ValueError(f"content: {error}") from error

    def _path(self, key: str) -> Path:
        return self._directory / f"{key}{_SUFFIX}"


def write_atomically(path: Path, data: bytes, *, durable: bool = False, mode: int | None = None) -> None:
    """Readers see the old file or the new one. The temporary name has no suffix that anybody looks for."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}{_TEMPORARY}")
    try:
        # Without a buffer, whose making takes longer than the write.
        with temporary.open("wb", buffering=0) as file:
            rest = memoryview(data)
            while rest:
                rest = rest[file.write(rest) :]
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            if durable:
                os.fsync(file.fileno())
        _replace(temporary, path)
        if durable:
            _sync_directory(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        # A full disk does not say which file it is about.
        raise OSError(error.errno, error.strerror, str(path)) from error
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_if_changed(path: Path, data: bytes, *, mode: int | None = None) -> bool:
    """Whether it had to be written. Makes its directory, too."""
    if path.is_file() and path.read_bytes() == data:
        return False
    if path.parent.exists() and not path.parent.is_dir():
        remove(path.parent)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, data, mode=mode)
    return True


def _replace(temporary: Path, path: Path) -> None:
    try:
        temporary.replace(path)
    except IsADirectoryError:
        remove(path)
        temporary.replace(path)


def remove(path: Path) -> None:
    """A file of ours, or what somebody has put in its place."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def quarantined(state: Path) -> list[Path]:
    """Files below it that were put aside, until somebody deletes them."""
    return sorted(state.rglob(f"*{QUARANTINED}"))


def remove_leftovers(directory: Path, prefix: str = "") -> None:
    """Temporary files of writers that were killed. There is one agent on a node: nobody is at work on them."""
    for leftover in directory.glob(f".{prefix}*{_TEMPORARY}"):
        leftover.unlink()


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _checksum(envelope: bytes) -> str:
    """Of everything, also the boot: a GPU's former setting is thrown away when it seems to be of an earlier one."""
    return hashlib.sha256(envelope).hexdigest()


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]
