"""Whether a value has the structure that a schema asks for: fields, types, limits. Schemas are those of CRDs."""

import difflib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from gpusharing.api.text import clip
from gpusharing.findings import validating
from gpusharing.validating.problems import Path, Problem

Schema = Mapping[str, Any]
Check = Callable[[Any], str | None]
"""What is wrong with a value; None: nothing."""

CHECK: Final = "x-check"
"""In a schema of ours: a Check of a value of the right type."""
_UNKNOWN_FIELDS: Final = "x-kubernetes-preserve-unknown-fields"

_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}
_IN_WORDS: Final = {
    "object": "a mapping", "array": "a list", "string": "a string", "integer": "a whole number", "number": "a number",
    "boolean": "true or false",
}  # fmt: skip
_LONGEST_SHOWN: Final = 80


def problems(schema: Schema, value: Any, path: Path = ()) -> Iterator[Problem]:
    if value is None:
        if not schema.get("nullable"):
            yield Problem(validating.WRONG_TYPE, path, f"is null: must be {_kind(schema)}")
        return
    if wrong := _type_problem(schema, value):
        yield Problem(validating.WRONG_TYPE, path, wrong)
        return
    yield from _of_any_type(schema, value, path)
    if isinstance(value, dict):
        yield from _of_mapping(schema, value, path)
    elif isinstance(value, list):
        yield from _of_list(schema, value, path)
    elif isinstance(value, str):
        yield from _of_text(schema, value, path)
    elif not isinstance(value, bool):
        yield from _of_number(schema, value, path)


def complete(schema: Schema, value: Any) -> Any:
    """As the API server looks at it: a null is an absent field, and what is absent and has a default gets it."""
    if isinstance(value, dict):
        known: Schema = schema.get("properties") or {}
        others = schema.get("additionalProperties")
        filled = {name: part["default"] for name, part in known.items() if "default" in part}
        for name, item in value.items():
            part = known.get(name) or (others if isinstance(others, dict) else None)
            if part is None:
                filled[name] = item
            elif item is not None or part.get("nullable"):
                filled[name] = complete(part, item)
        return filled
    if isinstance(value, list):
        return [complete(schema.get("items") or {}, item) for item in value]
    return value


def shown(value: Any) -> str:
    return clip(json.dumps(value, ensure_ascii=False, default=str), _LONGEST_SHOWN)


def any_of(values: Sequence[str]) -> str:
    *others, last = values
    return f"{', '.join(others)} or {last}" if others else last


def nearest(name: str, known: Sequence[str]) -> str | None:
    return next(iter(difflib.get_close_matches(name, known, n=1, cutoff=0.6)), None)


def _kind(schema: Schema) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "a whole number or a string"
    return _IN_WORDS.get(schema.get("type", ""), "a value")


def _type_problem(schema: Schema, value: Any) -> str | None:
    kind = schema.get("type")
    if schema.get("x-kubernetes-int-or-string"):
        fits = isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool))
    elif kind is None:
        return None
    else:
        fits = isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))
    if fits:
        return None
    remedy = " (put it in quotes)" if kind == "string" and isinstance(value, bool | int | float) else ""
    return f"is {shown(value)}: must be {_kind(schema)}{remedy}"


def _of_any_type(schema: Schema, value: Any, path: Path) -> Iterator[Problem]:
    if "enum" in schema and value not in schema["enum"]:
        near = nearest(str(value), [str(one) for one in schema["enum"]])
        yield Problem(
            validating.INVALID_VALUE,
            path,
            f"is {shown(value)}: must be {any_of([str(one) for one in schema['enum']])}",
            f"Set it to {near}." if near else None,
        )
    check: Check | None = schema.get(CHECK)
    if check is not None and (wrong := check(value)):
        yield Problem(validating.INVALID_VALUE, path, wrong)


def _of_mapping(schema: Schema, value: Mapping[str, Any], path: Path) -> Iterator[Problem]:
    known: Mapping[str, Schema] = schema.get("properties") or {}
    for name in schema.get("required") or ():
        if name not in value:
            yield Problem(validating.MISSING_FIELD, (*path, name), "is missing", f"Add {name}.", at_key=True)
    others = schema.get("additionalProperties")
    yield from _size_problems(schema, "Properties", len(value), "entries", path)
    for name, item in value.items():
        if name in known:
            yield from problems(known[name], item, (*path, name))
        elif isinstance(others, dict):
            yield from problems(others, item, (*path, name))
        elif known and not schema.get(_UNKNOWN_FIELDS):
            near = nearest(name, list(known))
            yield Problem(
                validating.UNKNOWN_FIELD,
                (*path, name),
                "is not a known field",
                f"Did you mean {near}?" if near else None,
                at_key=True,
            )


def _of_list(schema: Schema, value: list[Any], path: Path) -> Iterator[Problem]:
    yield from _size_problems(schema, "Items", len(value), "items", path)
    for number, item in enumerate(value):
        yield from problems(schema.get("items") or {}, item, (*path, number))
    seen: dict[str, int] = {}
    keys = schema.get("x-kubernetes-list-map-keys")
    if schema.get("x-kubernetes-list-type") not in {"set", "map"}:
        return
    for number, item in enumerate(value):
        named = {key: item.get(key) for key in keys} if keys and isinstance(item, dict) else item
        text = json.dumps(named, sort_keys=True, default=str)
        if text in seen:
            what = ", ".join(str(one) for one in named.values()) if isinstance(named, dict) else shown(named)
            yield Problem(
                validating.INVALID_VALUE,
                (*path, number),
                f"repeats {what}, which is item {seen[text]} already",
                "Remove one.",
            )
        seen.setdefault(text, number)


def _of_text(schema: Schema, value: str, path: Path) -> Iterator[Problem]:
    yield from _size_problems(schema, "Length", len(value), "characters", path)
    pattern = schema.get("pattern")
    if pattern and not _compiled(pattern).search(value):
        yield Problem(validating.INVALID_VALUE, path, f"is {shown(value)}: must match {pattern}")


def _of_number(schema: Schema, value: float, path: Path) -> Iterator[Problem]:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and value < low:
        yield Problem(
            validating.INVALID_VALUE, path, f"is {value}: must be at least {low}", f"Set it to {low} or more."
        )
    if high is not None and value > high:
        yield Problem(
            validating.INVALID_VALUE, path, f"is {value}: must be at most {high}", f"Set it to {high} or less."
        )


def _size_problems(schema: Schema, suffix: str, size: int, what: str, path: Path) -> Iterator[Problem]:
    low, high = schema.get(f"min{suffix}"), schema.get(f"max{suffix}")
    if low is not None and size < low:
        yield Problem(validating.INVALID_VALUE, path, f"has {size} {what}: must have at least {low}")
    if high is not None and size > high:
        yield Problem(validating.INVALID_VALUE, path, f"has {size} {what}: must have at most {high}")


@lru_cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII)
