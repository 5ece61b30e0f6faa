"""What the guards look up: maps written as literals of CEL, an entry a line, so that they can be told apart."""

import json
from collections.abc import Mapping
from typing import Any

from gpusharing.api.sharing import SharingPolicy

Entries = Mapping[str, str]
"""By key: the literal that it leads to."""

EMPTY = "{}"


def of_policy(policy: SharingPolicy) -> str:
    """Who its tenants are and what they may ask for, in the words of the policy. What it leaves open is left out."""
    tenants = policy.spec.tenants
    selector = tenants.namespaces.to_json()
    said = {"name": policy.metadata.name, **selector, **tenants.allow.to_json()}
    return of(said)


def of(value: Any) -> str:
    match value:
        case dict():
            # CEL wants all values of a map to have one type.
            return "{" + ", ".join(f"{of(key)}: dyn({of(item)})" for key, item in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(of, value)) + "]"
        case _:
            # Not in ASCII alone: JSON would write what is beyond 16 bits as two halves, which CEL refuses.
            return json.dumps(value, ensure_ascii=False)


def render(entries: Entries) -> str:
    if not entries:
        return EMPTY
    return "{\n" + ",\n".join(f"{of(key)}: {entries[key]}" for key in sorted(entries)) + "\n}"


def read(expression: str) -> Entries:
    """The entries of an expression as it was rendered; of one that somebody else has written, what looks like them."""
    return dict(filter(None, map(_entry, expression.split("\n"))))


def _entry(line: str) -> tuple[str, str] | None:
    try:
        key, end = json.JSONDecoder().raw_decode(line)
    except ValueError:
        return None
    if not isinstance(key, str) or not line.startswith(": ", end):
        return None
    return key, line[end + 2 :].removesuffix(",")
