"""What the guards look up: maps written as literals of CEL, an entry a line, so that they can be told apart.

Their values are lists of texts, or lists and maps of such lists: with `dyn`, by which CEL has values of other types in
one map, the time that the API server takes to read them grows with the square of the number of policies (200 took it
seconds). So they are JSON as well.
"""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Final

import pydantic

from gpusharing.api.meta import LabelSelector, LabelSelectorRequirement
from gpusharing.api.sharing.policy import SharingPolicy

Entries = Mapping[str, str]
"""By key: the literal that it leads to."""

EMPTY = "{}"

_SEPARATOR = ",\n"
_REQUIRED: Final = pydantic.TypeAdapter(list[Annotated[list[str], pydantic.Field(min_length=2)]])


def tenants(policy: SharingPolicy) -> str:
    """What the labels of a tenant are: requirements, each with its operator and what it is about."""
    selector = policy.spec.tenants.namespaces
    required = [["In", f"{key}={value}"] for key, value in selector.match_labels.items()]
    for requirement in selector.match_expressions:
        about = [f"{requirement.key}={value}" for value in requirement.values] or [requirement.key]
        required.append([requirement.operator, *about])
    return of(required)


def read_tenants(literal: str) -> LabelSelector | None:
    """The labels of a tenant; None if `tenants` did not write this."""
    try:
        required = tuple(_requirement(*item) for item in _REQUIRED.validate_json(literal))
    except ValueError:
        return None
    # Policies for everybody are not in the guards. Labels and expressions together may be more than a policy may have
    # expressions, so the selector is not validated.
    return LabelSelector.model_construct(match_labels={}, match_expressions=required) if required else None


def _requirement(operator: str, *about: str) -> LabelSelectorRequirement:
    parts = [one.partition("=") for one in about]
    return LabelSelectorRequirement.model_validate(
        {"key": parts[0][0], "operator": operator, "values": [value for _, separator, value in parts if separator]}
    )


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
    if not line.startswith('"'):
        return None
    try:
        key, end = json.JSONDecoder().raw_decode(line)
    except ValueError:
        return None
    if not line.startswith(": ", end):
        return None
    return key, line[end + 2 :].removesuffix(",")
