"""What the fields of resource.k8s.io/v1 have to be to each other."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from gpusharing import cel
from gpusharing.api import names, nvidia
from gpusharing.findings import validating
from gpusharing.validating import formats
from gpusharing.validating.problems import Path, Problem
from gpusharing.validating.structure import nearest

Value = Mapping[str, Any]

_LONGEST_EXPRESSION: Final = 10 * 1024
_LARGEST_PARAMETERS: Final = 10 * 1024


def of_claim(devices: Value, path: Path, minor: int) -> Iterator[Problem]:
    """`devices`: spec.devices of a claim or of a template, without nulls."""
    known = _request_names(devices)
    for number, request in enumerate(devices.get("requests") or ()):
        yield from _of_request(request, (*path, "requests", number), minor)
    for number, constraint in enumerate(devices.get("constraints") or ()):
        here = (*path, "constraints", number)
        yield from _references(constraint, here, known)
        if not constraint.get("matchAttribute") and not constraint.get("distinctAttribute"):
            yield Problem(
                validating.MISSING_FIELD, here, "has neither matchAttribute nor distinctAttribute", "Add one."
            )
    for number, config in enumerate(devices.get("config") or ()):
        here = (*path, "config", number)
        yield from _references(config, here, known)
        yield from _of_config(config, here)


def of_class(spec: Value, path: Path, minor: int) -> Iterator[Problem]:
    yield from selectors(spec.get("selectors") or (), (*path, "selectors"), minor)
    for number, config in enumerate(spec.get("config") or ()):
        yield from _of_config(config, (*path, "config", number))
    if spec.get("extendedResourceName") == "":
        yield Problem(validating.INVALID_VALUE, (*path, "extendedResourceName"), "is empty", "Remove it.")


def selectors(found: Sequence[Value], path: Path, minor: int) -> Iterator[Problem]:
    for number, selector in enumerate(found):
        if "cel" not in selector:
            yield _missing((*path, number, "cel"))
        else:
            yield from of_expression(selector["cel"].get("expression", ""), (*path, number, "cel", "expression"), minor)


def of_expression(expression: str, path: Path, minor: int) -> Iterator[Problem]:
    if len(expression.encode()) > _LONGEST_EXPRESSION:
        yield Problem(validating.INVALID_VALUE, path, f"is longer than {_LONGEST_EXPRESSION:,} bytes")
        return
    try:
        program = cel.compile(expression, minor)
    except cel.CompileError as error:
        yield Problem(validating.INVALID_SELECTOR, path, error.message, offset=error.offset)
        return
    if program.max_cost > cel.COST_LIMIT:
        yield Problem(
            validating.COSTLY_SELECTOR,
            path,
            f"may cost up to {program.max_cost:,}, and the API server takes {cel.COST_LIMIT:,}",
        )


def _request_names(devices: Value) -> frozenset[str]:
    """By which configs and constraints may refer to requests."""
    found: set[str] = set()
    for request in devices.get("requests") or ():
        name = request.get("name", "")
        found |= {name, *(f"{name}/{one.get('name', '')}" for one in request.get("firstAvailable") or ())}
    return frozenset(found)


def _references(value: Value, path: Path, known: frozenset[str]) -> Iterator[Problem]:
    for number, name in enumerate(value.get("requests") or ()):
        if name not in known:
            near = nearest(name, sorted(known))
            yield Problem(
                validating.UNKNOWN_REQUEST,
                (*path, "requests", number),
                f"no request of this claim is named {name}",
                f"Did you mean {near}?" if near else None,
            )


def _of_request(request: Value, path: Path, minor: int) -> Iterator[Problem]:
    yield from _needed(request, path, "name")
    alternatives = request.get("firstAvailable") or ()
    if "exactly" in request and alternatives:
        yield Problem(validating.INVALID_VALUE, path, "has both exactly and firstAvailable", "Keep one of them.")
    elif "exactly" in request:
        yield from _of_wanted(request["exactly"], (*path, "exactly"), minor)
    elif alternatives:
        for number, one in enumerate(alternatives):
            here = (*path, "firstAvailable", number)
            yield from _needed(one, here, "name")
            yield from _of_wanted(one, here, minor)
    else:
        yield Problem(validating.MISSING_FIELD, path, "has neither exactly nor firstAvailable", "Add exactly.")


def _of_wanted(wanted: Value, path: Path, minor: int) -> Iterator[Problem]:
    yield from _needed(wanted, path, "deviceClassName")
    yield from selectors(wanted.get("selectors") or (), (*path, "selectors"), minor)
    count = wanted.get("count") or 0
    if wanted.get("allocationMode") == "All":
        if count:
            yield Problem(
                validating.INVALID_VALUE, (*path, "count"), "allocationMode All takes no count", "Remove count."
            )
    elif count < 0:
        yield Problem(validating.INVALID_VALUE, (*path, "count"), f"is {count}: must be at least 1")
    for number, toleration in enumerate(wanted.get("tolerations") or ()):
        yield from _of_toleration(toleration, (*path, "tolerations", number))


def _of_toleration(toleration: Value, path: Path) -> Iterator[Problem]:
    value, operator = toleration.get("value") or "", toleration.get("operator") or ""
    if operator == "Exists" and value:
        yield Problem(validating.INVALID_VALUE, (*path, "value"), "operator Exists takes no value", "Remove value.")
    elif operator == "Equal" and (wrong := formats.label_value(value)):
        yield Problem(validating.INVALID_VALUE, (*path, "value"), wrong)


def _of_config(config: Value, path: Path) -> Iterator[Problem]:
    opaque = config.get("opaque")
    if opaque is None:
        yield _missing((*path, "opaque"))
        return
    here = (*path, "opaque")
    yield from _needed(opaque, here, "driver")
    parameters = opaque.get("parameters")
    if parameters is None:
        yield _missing((*here, "parameters"))
    elif not isinstance(parameters, dict):
        yield Problem(validating.WRONG_TYPE, (*here, "parameters"), "must be a mapping")
    elif len(json.dumps(parameters, separators=(",", ":"), ensure_ascii=False).encode()) > _LARGEST_PARAMETERS:
        yield Problem(validating.INVALID_VALUE, (*here, "parameters"), f"is larger than {_LARGEST_PARAMETERS:,} bytes")
    elif opaque.get("driver") == names.DRIVER:
        yield from _of_nvidia(parameters, (*here, "parameters"))


def _of_nvidia(parameters: dict[str, Any], path: Path) -> Iterator[Problem]:
    try:
        nvidia.decode(parameters)
    except nvidia.InvalidConfigError as error:
        yield Problem(validating.INVALID_CONFIG, path, str(error))


def _needed(value: Value, path: Path, *fields: str) -> Iterator[Problem]:
    for field in fields:
        if not value.get(field):
            yield _missing((*path, field))


def _missing(path: Path) -> Problem:
    return Problem(validating.MISSING_FIELD, path, "is missing", f"Add {path[-1]}.", at_key=True)
