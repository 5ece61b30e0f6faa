"""Small files that survive kill -9 and power cuts, and say so when they did not.

Each is an envelope of JSON: what it is (format), in which boot of the node it was written, and a checksum. A file that
cannot be trusted is put aside and reported, and its content is found out again from the hardware and the API.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

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


def boot_id(proc: Path) -> str:
    return (proc / "sys/kernel/random/boot_id").read_text().strip()


class Envelopes(Generic[M]):
    """The files of one kind: a directory with one file for each key."""

    def __init__(self, directory: Path, model: type[M], *, boot: str, survives_reboot: bool) -> None:
        """What the next boot has no use for is not forced to the disk: a killed agent finds it all the same, and a
        pod's start does not wait for the disk twice."""
        self._directory = directory
        self._model = model
        self._boot = boot
        self._durable = survives_reboot
        self.quarantined = 0
        """How many files could not be trusted when they were read."""
        directory.mkdir(parents=True, exist_ok=True)
        remove_leftovers(directory)

    def write(self, key: str, content: M) -> None:
        """For the next agent to find when this returns, however this one ends."""
        envelope = {"format": FORMAT, "bootID": self._boot, "content": content.to_json()}
        data = strict_json.canonical(envelope | {"checksum": _checksum(envelope)})
        write_atomically(self._path(key), data, durable=self._durable)

    def delete(self, key: str) -> None:
        self._path(key).unlink(missing_ok=True)
        if self._durable:
            _sync_directory(self._directory)

    def read_all(self) -> Iterator[tuple[str, M, bool]]:
        """Key, content, and whether it was written in this boot, for every file that can be trusted."""
        for path in sorted(self._directory.glob(f"*{_SUFFIX}")):
            try:
                content, boot = self._read(path)
            except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
                aside = path.with_name(path.name + QUARANTINED)
                path.replace(aside)
                self.quarantined += 1
                log.warning("state file cannot be trusted, put aside", file=str(aside), error=_first_line(error))
                continue
            yield path.name.removesuffix(_SUFFIX), content, boot == self._boot

    def put_aside(self) -> set[str]:
        """The keys of files that could not be trusted, now or at an earlier start."""
        suffix = _SUFFIX + QUARANTINED
        return {path.name.removesuffix(suffix) for path in self._directory.glob(f"*{suffix}")}

    def forget(self, key: str) -> None:
        """What was put aside of it: its content was found out again."""
        path = self._path(key)
        path.with_name(path.name + QUARANTINED).unlink(missing_ok=True)

    def _read(self, path: Path) -> tuple[M, str]:
        envelope = dict(json.loads(path.read_bytes()))
        checksum = envelope.pop("checksum")
        if envelope["format"] != FORMAT:
            raise ValueError(f"format {envelope['format']}, this agent writes {FORMAT}")
        if checksum != _checksum(envelope):
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
        with temporary.open("wb") as file:
            file.write(data)
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        _sync_directory(path.parent)


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


def _checksum(envelope: dict[str, Any]) -> str:
    """Of everything, also the boot: a GPU's former setting is thrown away when it seems to be of an earlier one."""
    return hashlib.sha256(strict_json.canonical(envelope)).hexdigest()


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]
