"""What the guards look up: maps written as literals of CEL, an entry a line, so that they can be told apart.

Their values are lists of texts, or lists and maps of such lists: with `dyn`, by which CEL has values of other types in
one map, the time that the API server takes to read them grows with the square of the number of policies (200 took it
seconds). So they are JSON as well.
"""

import json
from collections.abc import Mapping
from typing import Any

from gpusharing.api.sharing.policy import SharingPolicy

Entries = Mapping[str, str]
"""By key: the literal that it leads to."""

EMPTY = "{}"

_SEPARATOR = ",\n"


def tenants(policy: SharingPolicy) -> str:
    """What the labels of a tenant are: requirements, each with its operator and what it is about."""
    selector = policy.spec.tenants.namespaces
    required = [["In", f"{key}={value}"] for key, value in selector.match_labels.items()]
    for requirement in selector.match_expressions:
        about = [f"{requirement.key}={value}" for value in requirement.values] or [requirement.key]
        required.append([requirement.operator, *about])
    return of(required)


def limits(policy: SharingPolicy) -> str:
    """What a claim may ask for, in the words of the policy. What it leaves open is left out."""
    allowed = policy.spec.tenants.allow.to_json()
    return of({field: value if isinstance(value, list) else [str(value)] for field, value in allowed.items()})


def of(value: Any) -> str:
    # Not in ASCII alone: JSON would write what is beyond 16 bits as two halves, which CEL refuses.
    return json.dumps(value, ensure_ascii=False)


def size(entries: Entries) -> int:
    """Characters that they take of a rendered expression."""
    return sum(len(_line(key, literal)) + len(_SEPARATOR) for key, literal in entries.items())


def render(entries: Entries) -> str:
    if not entries:
        return EMPTY
    return "{\n" + _SEPARATOR.join(_line(key, entries[key]) for key in sorted(entries)) + "\n}"


def _line(key: str, literal: str) -> str:
    return f"{of(key)}: {literal}"


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
