"""JSON as drivers must read it.

The API server keeps opaque parameters byte by byte. Where a key stands twice, admission sees the last value and another
reader may see the first, so such an object must never be acted on.
"""

import json
from typing import Any


class AmbiguousObject(dict[str, Any]):
    """A JSON object in which keys stand twice."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.repeated = sorted({key for key in self if sum(key == other for other, _ in pairs) > 1})


def loads(data: bytes | str) -> Any:
    """Like json.loads, but objects with repeated keys come back marked, so that who relies on them can refuse."""
    return json.loads(data, object_pairs_hook=_object)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    plain = dict(pairs)
    return plain if len(plain) == len(pairs) else AmbiguousObject(pairs)


def repeated_keys(value: Any, path: str = "") -> list[str]:
    """The paths of all keys that stand twice anywhere in the value."""
    if isinstance(value, dict):
        here = [f"{path}{key}" for key in value.repeated] if isinstance(value, AmbiguousObject) else []
        return here + [found for key, item in value.items() for found in repeated_keys(item, f"{path}{key}.")]
    if isinstance(value, list):
        return [found for index, item in enumerate(value) for found in repeated_keys(item, f"{path}{index}.")]
    return []


def canonical(value: Any) -> bytes:
    """Compact and key-sorted: opaque parameters are compared as bytes, and the API server re-encodes them so."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode()
