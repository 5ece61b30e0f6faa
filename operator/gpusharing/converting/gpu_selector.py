"""The selectors of NVIDIA's first driver, and those of Kubernetes 1.30, as CEL of today."""

import re
from typing import Any, Final

from gpusharing.api import names
from gpusharing.converting.fields import Field
from gpusharing.converting.remarks import shown

# With what the driver publishes of a GPU today.
_GLOBS: Final = frozenset({"productName", "brand", "architecture"})
_VERSIONS: Final = frozenset({"cudaComputeCapability", "driverVersion", "cudaDriverVersion"})
_OPERATORS: Final = {
    "Equals": "==",
    "LessThan": "<",
    "LessThanOrEqualTo": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqualTo": ">=",
}
_ATTRIBUTES: Final = f"device.attributes['{names.DRIVER}']"
_CAPACITY: Final = f"device.capacity['{names.DRIVER}']"
_VERSION: Final = re.compile(r"v?([0-9]{1,6})(?:\.([0-9]{1,6}))?(?:\.([0-9]{1,6}))?")
_QUANTITY: Final = re.compile(r"[0-9]{1,15}(\.[0-9]{1,3})?([KMGTPE]i|[kMGTPE])?")
_WRITE_AGAIN: Final = "write it as CEL: docs/cel.md has the attributes"


def as_cel(selector: Field) -> str:
    """Of a GpuClaimParameters: one property, or several with and, or."""
    found = list(selector.fields())
    if len(found) != 1:
        raise selector.refusal(f"has {len(found)} conditions", "put them into andExpression or orExpression")
    condition = found[0]
    for key, operator in (("andExpression", " && "), ("orExpression", " || ")):
        if condition.name == key:
            return operator.join(f"({as_cel(item)})" for item in selector.items(key))
    return _property(condition)


def named_resources(selector: Field, driver: str) -> str:
    """The CEL of 1.30, whose attributes were sorted by type and had no domain."""
    written = selector.text

    def renamed(match: re.Match[str]) -> str:
        kind, name = match["kind"], match["name"]
        return f"device.capacity['{driver}'].{name}" if kind == "quantity" else f"device.attributes['{driver}'].{name}"

    read = re.compile(
        r"""attributes\.(?P<kind>bool|int|string|quantity|version)\[(['"])(?P<name>[A-Za-z_]\w{0,31})\2\]"""
    )
    rewritten = read.sub(renamed, written)
    if re.search(r"(?<!device\.)\battributes\b", rewritten):
        raise selector.refusal(f"uses attributes as CEL of today cannot: {shown(written)}", _WRITE_AGAIN)
    return rewritten


def _property(condition: Field) -> str:
    name = condition.name
    if name == "uuid":
        return f"{_ATTRIBUTES}.uuid == {_quoted(condition.text)}"
    if name in _GLOBS:
        return f"{_ATTRIBUTES}.{name}.lowerAscii().matches({_quoted(_expression(condition.text))})"
    if name == "memory":
        return _compared(condition, f"{_CAPACITY}.memory", "quantity", _QUANTITY)
    if name in _VERSIONS:
        return _compared(condition, f"{_ATTRIBUTES}.{name}", "semver", _VERSION)
    raise condition.refusal("is not published as an attribute", _WRITE_AGAIN)


def _compared(condition: Field, attribute: str, function: str, pattern: re.Pattern[str]) -> str:
    operator = condition["operator"]
    if operator.text not in _OPERATORS:
        raise operator.refusal(f"is {shown(operator.text)}", f"use {', '.join(_OPERATORS)}")
    value = str(condition["value"].value)
    match = pattern.fullmatch(value)
    if match is None:
        raise condition["value"].refusal(f"is {shown(value)}, not a {function}")
    if function == "semver":
        value = ".".join(str(int(number or 0)) for number in match.groups())
    return f"{attribute}.compareTo({function}('{value}')) {_OPERATORS[operator.text]} 0"


def _expression(glob: str) -> str:
    """A regular expression for all of the text; upper and lower case were the same."""
    return f"^{'.*'.join(map(_escaped, glob.lower().split('*')))}$"


def _escaped(text: str) -> str:
    return re.sub(r"[.+?()\[\]{}|^$\\]", r"\\\g<0>", text)


def _quoted(text: Any) -> str:
    escaped = str(text).replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"
