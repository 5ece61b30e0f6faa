"""JSON merge patches (RFC 7386)."""

from collections.abc import Mapping
from typing import Any


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """What makes one object the other, where nobody else has changed it: a merge patch keeps what it does not name,
    however deep it stands. All of `after` is in it, so that what we do not know of `before` comes out right as well."""
    gone = dict.fromkeys(before.keys() - after.keys())
    return gone | {key: _patched(before.get(key), value) for key, value in after.items()}


def _patched(before: Any, after: Any) -> Any:
    is_object = isinstance(after, Mapping)
    return merge_patch(before if isinstance(before, Mapping) else {}, after) if is_object else after
