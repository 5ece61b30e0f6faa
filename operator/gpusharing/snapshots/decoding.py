"""Objects of a World as types of the API."""

from collections.abc import Iterable
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from gpusharing.snapshots.world import Json

T = TypeVar("T")


def decoded(adapter: TypeAdapter[T], objects: Iterable[Json]) -> list[T]:
    """One that cannot be read is as if it were not there."""
    found: list[T] = []
    for one in objects:
        try:
            found.append(adapter.validate_python(one))
        except ValidationError:
            continue
    return found
