"""Whether a custom resource is as its CRD says, in the words of kube-apiserver."""

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from gpusharing import cel
from gpusharing.cel.values import durations, timestamps
from gpusharing.demo.apiserver import rules
from gpusharing.demo.apiserver.errors import Cause, as_go, invalid_value, required
from gpusharing.demo.apiserver.fields import element_of
from gpusharing.demo.apiserver.kinds import Schema, below_path, followed, items_of, part_of

_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "object": (dict,), "array": (list,), "string": (str,), "integer": (int,), "number": (int, float),
    "boolean": (bool,),
}  # fmt: skip
# After these, rules are not looked at: they could meet values of other types than they expect.
_BLOCKING: Final = frozenset(
    {
        "FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany",
        "FieldValueTypeInvalid",
    }
)  # fmt: skip
_NOT_CHECKED: Final = Cause(
    "<nil>",
    "FieldValueInvalid",
    "Invalid value: null: some validation rules were not checked because the object was invalid; correct the "
    "existing errors to complete validation",
)


def causes(schema: Schema, value: Any, before: Any = None) -> list[Cause]:
    """All that is wrong. `before`: the object that it replaces."""
    found = list(_structure(schema, value, ""))
    if any(cause.reason in _BLOCKING for cause in found):
        return [*found, _NOT_CHECKED] if _has_rules(schema) else found
    return found + list(rules.problems(schema, value, rules.ABSENT if before is None else before, ""))


def wrong_types(schema: Schema, value: Any) -> list[Cause]:
    """What Go could not read."""
    return list(_types(followed(schema), value, ""))


def _types(schema: Schema, value: Any, path: str) -> Iterator[Cause]:
    if wrong := _type_problem(schema, value, path):
        yield wrong
    elif isinstance(value, dict):
        for name, item in value.items():
            if (below := part_of(schema, name)) is not None:
                yield from _types(followed(below), item, below_path(path, name))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _types(items_of(schema), item, f"{path}[{number}]")


def _structure(schema: Schema, value: Any, path: str) -> Iterator[Cause]:
    if value is None and schema.get("nullable"):
        return
    if wrong := _type_problem(schema, value, path):
        yield wrong
        return
    yield from _of_any_type(schema, value, path)
    if isinstance(value, dict):
        yield from _of_object(schema, value, path)
    elif isinstance(value, list):
        yield from _of_list(schema, value, path)
    elif isinstance(value, str):
        yield from _of_text(schema, value, path)
    elif not isinstance(value, bool) and value is not None:
        yield from _of_number(schema, value, path)


def _type_problem(schema: Schema, value: Any, path: str) -> Cause | None:
    kind = schema.get("type")
    if schema.get("x-kubernetes-int-or-string"):
        names, fits = ("integer,string"), isinstance(value, int | str) and not isinstance(value, bool)
    elif kind is None:
        return None
    else:
        is_whole = isinstance(value, float) and kind == "integer" and value.is_integer()
        fits = is_whole or (isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool)))
        names = kind
    if fits:
        return None
    is_now = _type_name(value)
    message = f'Invalid value: "{is_now}": {path} in body must be of type {names}: "{is_now}"'
    return Cause(path, "FieldValueTypeInvalid", message)


def _type_name(value: Any) -> str:
    if value is None:
        return "null"
    for name in ("boolean", "object", "array", "string", "integer", "number"):
        if isinstance(value, _TYPES[name]):
            return name
    raise TypeError(value)


def _of_any_type(schema: Schema, value: Any, path: str) -> Iterator[Cause]:
    if "enum" in schema and value not in schema["enum"]:
        known = ", ".join(as_go(one if isinstance(one, str) else json.dumps(one)) for one in schema["enum"])
        yield Cause(path, "FieldValueNotSupported", f"Unsupported value: {as_go(value)}: supported values: {known}")
    for part in schema.get("allOf") or ():
        yield from _structure(part, value, path)
    for word in ("anyOf", "oneOf"):
        parts = schema.get(word)
        if parts and not any(not list(_structure(part, value, path)) for part in parts):
            yield invalid_value(path, '""', f'"{path}" must validate at least one schema ({word})')
    if "not" in schema and not list(_structure(schema["not"], value, path)):
        yield invalid_value(path, '""', f'"{path}" must not validate the schema (not)')


def _of_object(schema: Schema, value: Mapping[str, Any], path: str) -> Iterator[Cause]:
    for name in schema.get("required") or ():
        if name not in value:
            yield required(below_path(path, name))
    yield from _size(schema, "Properties", value, path)
    for name, item in value.items():
        below = part_of(schema, name)
        if below is not None and not (name == "metadata" and not path):
            yield from _structure(below, item, below_path(path, name))


def _of_list(schema: Schema, value: list[Any], path: str) -> Iterator[Cause]:
    yield from _size(schema, "Items", value, path)
    below = items_of(schema)
    seen = set()
    for number, item in enumerate(value):
        where = f"{path}[{number}]"
        yield from _structure(below, item, where)
        element = element_of(schema, item)
        if element in seen:
            shown = element.partition(":")[2]  # type: ignore[union-attr]
            yield Cause(where, "FieldValueDuplicate", f"Duplicate value: {shown}")
        elif element is not None:
            seen.add(element)


def _of_text(schema: Schema, value: str, path: str) -> Iterator[Cause]:
    yield from _size(schema, "Length", value, path)
    pattern = schema.get("pattern")
    if pattern and not _compiled(pattern).search(value):
        yield invalid_value(path, as_go(value), f"{path} in body should match '{pattern}'")
    name = schema.get("format")
    if name in _FORMATS and not _FORMATS[name](value):
        message = f'Invalid value: {as_go(value)}: {path} in body must be of type {name}: "{value}"'
        yield Cause(path, "FieldValueTypeInvalid", message)


def _of_number(schema: Schema, value: float, path: str) -> Iterator[Cause]:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and value < low:
        yield invalid_value(path, str(value), f"{path} in body should be greater than or equal to {low}")
    if high is not None and value > high:
        yield invalid_value(path, str(value), f"{path} in body should be less than or equal to {high}")
    if (factor := schema.get("multipleOf")) is not None and value % factor:
        yield invalid_value(path, str(value), f"{path} in body should be a multiple of {factor}")


def _size(schema: Schema, suffix: str, value: Any, path: str) -> Iterator[Cause]:
    size, low, high = len(value), schema.get(f"min{suffix}"), schema.get(f"max{suffix}")
    if low is not None and size < low:
        verb, what = _SIZES[suffix]
        shown = as_go(value) if isinstance(value, str) else str(size)
        yield invalid_value(path, shown, f"{path} in body should {verb} at least {low} {what}")
    if high is None or size <= high:
        return
    if suffix == "Length":
        message = f"Too long: may not be more than {high} byte{'' if high == 1 else 's'}"
        yield Cause(path, "FieldValueTooLong", message)
    else:
        message = f"Too many: {size}: must have at most {high} item{'' if high == 1 else 's'}"
        yield Cause(path, "FieldValueTooMany", message)


_SIZES: Final = {"Length": ("be", "chars long"), "Items": ("have", "items"), "Properties": ("have", "properties")}


def _has_rules(schema: Schema) -> bool:
    return "x-kubernetes-validations" in json.dumps(schema)


@lru_cache(256)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII)


def _parses(parse: Any) -> Any:
    def test(value: str) -> bool:
        try:
            parse(value)
        except (cel.CelError, ValueError):
            return False
        return True

    return test


_FORMATS: Final = {"date-time": _parses(timestamps.parse), "duration": _parses(durations.parse)}
