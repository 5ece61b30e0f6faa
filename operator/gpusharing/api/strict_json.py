"""JSON as drivers must read it.

The API server keeps opaque parameters byte by byte. Where a key stands twice, admission sees the last value and another
reader may see the first, so such an object must never be acted on.
"""

import json
import re
from collections import Counter
from typing import Any, Final

MAX_DEPTH: Final = 64
"""No object that we read is nested so deeply. Opaque parameters may be (Go reads 10,000 levels, Python a tenth)."""

_MOST_DIGITS: Final = 4000

_REPEATED: Final = "gpusharing.dev/repeated"
"""The key under which a JSON object keeps which of its keys stood twice. It is data, so that it comes through whatever
hands the object on. Who writes it by hand is refused as well."""


def loads(data: bytes | str) -> Any:
    """Like json.loads, but objects with repeated keys come back marked, so that who relies on them can refuse.

    Anyone who may create a claim can write what Python would not read: it must not hide all the others. As in Go, a
    byte that is not UTF-8 becomes the replacement character.
    """
    text = data if isinstance(data, str) else data.decode(errors="replace")
    try:
        return json.loads(text, object_pairs_hook=_object, parse_int=_integer)
    except RecursionError:
        return json.loads(_cut(text), object_pairs_hook=_object, parse_int=_integer)


def _integer(digits: str) -> int | float:
    """Python makes no integers of more digits, since that takes quadratic time."""
    return int(digits) if len(digits) <= _MOST_DIGITS else float(digits)


# So far down that what is left is still too deep: cut or not depends on the reader's stack, the verdict must not.
_CUT_DEPTH: Final = 4 * MAX_DEPTH
_STRING_OR_BRACKET: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]')


def _cut(text: str) -> str:
    """The same JSON with null for what is nested far too deeply."""
    kept: list[str] = []
    depth = position = 0
    for token in _STRING_OR_BRACKET.finditer(text):
        if token[0] in "[{":
            depth += 1
            if depth == _CUT_DEPTH + 1:
                kept += [text[position : token.start()], "null"]
        elif token[0] in "]}":
            if depth == _CUT_DEPTH + 1:
                position = token.end()
            depth -= 1
    return "".join([*kept, text[position:]])


def is_too_deep(value: Any, limit: int = MAX_DEPTH) -> bool:
    """Whether lists and objects are nested more deeply than the limit."""
    containers = [value] if isinstance(value, dict | list) else []
    for _ in range(limit):
        if not containers:
            return False
        items = (item for one in containers for item in (one.values() if isinstance(one, dict) else one))
        containers = [item for item in items if isinstance(item, dict | list)]
    return bool(containers)


def limit_depth(value: Any, limit: int = _CUT_DEPTH) -> Any:
    """The same with null for what is nested more deeply: how deep a reader gets depends on its stack."""
    if not isinstance(value, dict | list):
        return value
    if limit == 0:
        return None
    if isinstance(value, list):
        return [limit_depth(item, limit - 1) for item in value]
    return {key: limit_depth(item, limit - 1) for key, item in value.items()}


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    plain = dict(pairs)
    if len(plain) == len(pairs):
        return plain
    counts = Counter(key for key, _ in pairs)
    return plain | {_REPEATED: sorted(key for key, count in counts.items() if count > 1)}


def repeated_keys(value: Any, path: str = "") -> list[str]:
    """The paths of all keys that stand twice anywhere in the value, which must not be nested too deeply."""
    if isinstance(value, dict):
        marked = value.get(_REPEATED, [])
        here = [f"{path}{key}" for key in (marked if isinstance(marked, list) else [_REPEATED])]
        return here + [found for key, item in value.items() for found in repeated_keys(item, f"{path}{key}.")]
    if isinstance(value, list):
        return [found for index, item in enumerate(value) for found in repeated_keys(item, f"{path}{index}.")]
    return []


def canonical(value: Any) -> bytes:
    """Compact and key-sorted: opaque parameters are compared as bytes, and the API server re-encodes them so."""
    text = json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    # Half of a surrogate pair, which JSON can say and UTF-8 cannot, is escaped again, as it came.
    return text.encode(errors="backslashreplace")
