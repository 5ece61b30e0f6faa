"""CEL rules of a CRD's schema, which the API server enforces."""

import re
from typing import Any

from pydantic import AfterValidator

# For the schema of a list without duplicates.
SET = {"x-kubernetes-list-type": "set"}


def rule(
    expression: str, message: str, *, reason: str = "FieldValueInvalid", field_path: str | None = None
) -> dict[str, str]:
    return {"rule": expression, "message": message, "reason": reason} | (
        {"fieldPath": field_path} if field_path else {}
    )


def validated(*rules: dict[str, str]) -> Any:
    return {"x-kubernetes-validations": list(rules)}


def checked(what: str, pattern: str) -> Any:
    """Checks the CRD's rule again, because calculations rely on it and an older CRD may lack it."""
    compiled = re.compile(pattern, re.ASCII)

    def check(value: int | str) -> int | str:
        if (isinstance(value, int) and value < 1) or (isinstance(value, str) and not compiled.fullmatch(value)):
            raise ValueError(f"must be {what}")
        return value

    return AfterValidator(check)
