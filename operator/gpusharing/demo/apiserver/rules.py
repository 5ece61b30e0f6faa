"""The rules in CEL of a CRD's schema: of objects, of their parts, and of what they replace."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gpusharing import cel
from gpusharing.cel.expressions import expression
from gpusharing.cel.values.optional import NONE, Optional
from gpusharing.demo.apiserver.errors import Cause, as_go, invalid_value, required
from gpusharing.demo.apiserver.fields import element_of
from gpusharing.demo.apiserver.kinds import Schema, below_path, items_of, part_of

ABSENT: Final = object()


def problems(schema: Schema, value: Any, before: Any, path: str) -> Iterator[Cause]:
    """`before`: the value that this one replaces, or ABSENT."""
    if value is None:
        return
    for rule in schema.get("x-kubernetes-validations") or ():
        yield from _rule(schema, rule, value, before, path)
    if isinstance(value, dict):
        for name, item in value.items():
            below = part_of(schema, name)
            if below is not None and not (name == "metadata" and not path):
                old = before.get(name, ABSENT) if isinstance(before, dict) else ABSENT
                yield from problems(below, item, old, below_path(path, name))
    elif isinstance(value, list):
        below = items_of(schema)
        # Items of other lists have no identity: none is known to replace another.
        old_items = {element_of(schema, one): one for one in before} if isinstance(before, list) else {}
        for number, item in enumerate(value):
            element = element_of(schema, item)
            old = old_items.get(element, ABSENT) if element is not None else ABSENT
            yield from problems(below, item, old, f"{path}[{number}]")


def _rule(schema: Schema, rule: Mapping[str, Any], value: Any, before: Any, path: str) -> Iterator[Cause]:
    text: str = rule["rule"]
    compares, may_be_new = "oldSelf" in text, rule.get("optionalOldSelf", False)
    if compares and before is ABSENT and not may_be_new:
        return
    values = {"self": value}
    if compares and may_be_new:
        values["oldSelf"] = NONE if before is ABSENT else Optional(before)
    elif compares:
        values["oldSelf"] = before
    try:
        if expression(text, tuple(values)).evaluate(values) is True:
            return
        message = _message(rule, values)
    except cel.EvaluationError as error:
        yield invalid_value(path, f'"{schema.get("type", "")}"', f"{error} evaluating rule: {_default(rule)}")
        return
    where = path + rule["fieldPath"] if "fieldPath" in rule else path
    where = where.removeprefix(".") or "<nil>"
    match rule.get("reason"):
        case "FieldValueForbidden":
            yield Cause(where, "FieldValueForbidden", f"Forbidden: {message}")
        case "FieldValueRequired":
            yield required(where, message)
        case "FieldValueDuplicate":
            yield Cause(where, "FieldValueDuplicate", f"Duplicate value: {as_go(value)}")
        case _:
            shown = "" if isinstance(value, dict | list) else f" {as_go(value)}:"
            yield Cause(where, "FieldValueInvalid", f"Invalid value:{shown} {message}")


def _message(rule: Mapping[str, Any], values: Mapping[str, Any]) -> str:
    if "messageExpression" in rule:
        try:
            return str(expression(rule["messageExpression"], tuple(values)).evaluate(values))
        except cel.EvaluationError:
            pass
    return rule.get("message") or f"failed rule: {_default(rule)}"


def _default(rule: Mapping[str, Any]) -> str:
    return str(rule.get("message") or rule["rule"]).strip()
