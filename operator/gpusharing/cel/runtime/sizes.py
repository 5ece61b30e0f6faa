"""`size()`."""

from typing import Any

from gpusharing.cel.runtime.faults import no_such_overload

_SIZED = (str, list, dict, bytes)


def size(value: Any) -> int:
    return len(value) if isinstance(value, _SIZED) else no_such_overload()
