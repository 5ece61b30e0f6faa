"""What cannot be decided on."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple


class Failure(NamedTuple):
    """An object that could not be decided on."""

    kind: str
    name: str
    error: Exception


class Failures:
    def __init__(self) -> None:
        self._failing: set[tuple[str, str]] = set()
        self._new: list[Failure] = []

    @property
    def failing(self) -> AbstractSet[tuple[str, str]]:
        """By kind and name."""
        return self._failing

    def add(self, kind: str, name: str, error: Exception) -> None:
        self._failing.add((kind, name))
        self._new.append(Failure(kind, name, error))

    def remove(self, kind: str, name: str) -> None:
        """It was decided on, or is gone."""
        self._failing.discard((kind, name))

    def take(self) -> Sequence[Failure]:
        """Those that came since they were taken last."""
        failures, self._new = self._new, []
        return failures
