"""The CEL rules in a CRD's schema."""

import re
from collections.abc import Iterator
from typing import Any, Final

from gpusharing import cel
from gpusharing.cel.expressions import expression
from gpusharing.findings import validating
from gpusharing.validating.problems import Path, Problem
from gpusharing.validating.structure import Schema

_SELF: Final = ("self",)
_FIELD: Final = re.compile(r"\.([A-Za-z_][A-Za-z0-9_]*)")


def problems(schema: Schema, value: Any, path: Path = ()) -> Iterator[Problem]:
    """Of a value that has the structure, with defaults."""
    if value is None:
        return
    for rule in schema.get("x-kubernetes-validations") or ():
        if not _holds(rule["rule"], value):
            # `fieldPath` begins at the value that the rule is about.
            field = _FIELD.findall(rule.get("fieldPath", ""))
            yield Problem(validating.RULE_BROKEN, (*path, *field), rule["message"])
    if isinstance(value, dict):
        known = schema.get("properties") or {}
        others = schema.get("additionalProperties")
        for name, item in value.items():
            part = known.get(name) or (others if isinstance(others, dict) else None)
            if part:
                yield from problems(part, item, (*path, name))
    elif isinstance(value, list) and "items" in schema:
        for number, item in enumerate(value):
            yield from problems(schema["items"], item, (*path, number))


def _holds(rule: str, value: Any) -> bool:
    try:
        return expression(rule, _SELF).evaluate({"self": value}) is True
    except cel.EvaluationError:
        # The API server refuses what a rule has no answer for.
        return False
