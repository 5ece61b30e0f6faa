"""Admission policies, evaluated as the API server does."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gpusharing import cel
from gpusharing.cel.expressions import expression

Spec = Mapping[str, Any]

_VARIABLES: Final = ("object", "oldObject", "namespaceObject", "request", "variables")


def refusals(spec: Spec, values: Mapping[str, Any]) -> Iterator[str]:
    """The messages of the validations that fail. `values`: of `object`, `oldObject`, `namespaceObject`, `request`."""
    variables: dict[str, Any] = {}
    given = {**dict.fromkeys(_VARIABLES), **values, "variables": variables}
    try:
        if not all(_value(one["expression"], given) is True for one in spec.get("matchConditions") or ()):
            return
    except cel.EvaluationError as error:
        yield from _failed(spec, error)
        return
    for one in spec.get("variables") or ():
        try:
            variables[one["name"]] = _value(one["expression"], given)
        except cel.EvaluationError:
            # The API server evaluates those that are used: who reads it fails.
            continue
    for validation in spec["validations"]:
        try:
            if _value(validation["expression"], given) is not True:
                message = validation.get("message") or _value(validation["messageExpression"], given)
                yield str(message).removesuffix(".")
        except cel.EvaluationError as error:
            yield from _failed(spec, error)


def _failed(spec: Spec, error: cel.EvaluationError) -> Iterator[str]:
    if spec.get("failurePolicy", "Fail") == "Fail":
        yield f"it cannot be evaluated: {error}"


def _value(text: str, given: Mapping[str, Any]) -> Any:
    return expression(text, _VARIABLES).evaluate(given)
