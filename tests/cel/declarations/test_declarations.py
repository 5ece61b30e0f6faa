"""The tables of functions are those of Kubernetes."""

from pathlib import Path
from typing import Final

import pytest

from gpusharing.cel.checking.check import check
from gpusharing.cel.declarations import Declarations, declarations
from gpusharing.cel.declarations.overloads import Overload
from gpusharing.cel.declarations.types import Type
from gpusharing.cel.syntax.parse import parse
from gpusharing.cel.tree import Call

AS_KUBERNETES_PRINTS_THEM: Final = (
    (Path(__file__).parents[1] / "data" / "functions-1.37.txt").read_text(encoding="utf-8").splitlines()
)
_SHORT: Final = {"google.protobuf.Duration": "duration", "google.protobuf.Timestamp": "timestamp"}


def printed(type_: Type) -> str:
    name = _SHORT.get(type_.name, type_.name).removeprefix("@")
    return f"{name}({', '.join(map(printed, type_.parameters))})" if type_.parameters else name


def lines(declared: Declarations) -> set[str]:
    return {
        line(name, overload)
        for name, function in declared.functions.items()
        for overload in (*function.members, *function.globals)
    }


def line(name: str, overload: Overload) -> str:
    parameters = [printed(each) for each in overload.parameters]
    target = f"{parameters.pop(0)}." if overload.is_member else ""
    return f"{name} {overload.id} {target}({', '.join(parameters)}) -> {printed(overload.result)}"


def test_the_functions_are_those_of_kubernetes_1_37() -> None:
    assert lines(declarations(37)) == set(AS_KUBERNETES_PRINTS_THEM)


def test_what_was_different_in_1_36() -> None:
    assert lines(declarations(36)) ^ lines(declarations(37)) == {
        "duration int64_to_duration (int) -> duration",
        "includes dra_includes_dyn_dyn dyn.(dyn) -> bool",
        "includes list_includes_dyn_dyn dyn.(dyn) -> bool",
    }


@pytest.mark.parametrize("minor", [34, 35])
def test_what_was_different_before_1_36(minor: int) -> None:
    assert lines(declarations(36)) - lines(declarations(minor)) == {"includes dra_includes_dyn_dyn dyn.(dyn) -> bool"}
    assert lines(declarations(minor)) <= lines(declarations(36))


# Something of each type.
VALUES: Final = {
    "bool": "true",
    "int": "1",
    "uint": "1u",
    "double": "1.5",
    "string": "'a'",
    "bytes": "b'a'",
    "dyn": "dyn(1)",
    "google.protobuf.Duration": "duration('1s')",
    "google.protobuf.Timestamp": "timestamp(1)",
    "kubernetes.Quantity": "quantity('1')",
    "kubernetes.Semver": "semver('1.0.0')",
    "kubernetes.URL": "url('a')",
    "kubernetes.NamedFormat": "format.uuid()",
    "net.IP": "ip('::1')",
    "net.CIDR": "cidr('::1/8')",
}


def something(type_: Type) -> str:
    inside = [something(each) for each in type_.parameters]
    match type_.name:
        case "list":
            return f"[{inside[0]}]"
        case "map":
            return f"{{{inside[0]}: {inside[1]}}}"
        case "optional_type":
            return f"optional.of({inside[0]})"
    return VALUES.get(type_.name, "'a'" if type_.is_open else "dyn(1)")


def calls() -> list[tuple[str, str]]:
    found = []
    for name, function in declarations(37).functions.items():
        if not name[0].isalpha() or "@" in name:
            continue
        for overload in (*function.members, *function.globals):
            if name == "format":
                continue  # checks its values, in test_check.py
            values = [something(each) for each in overload.parameters]
            target = f"({values.pop(0)})." if overload.is_member else ""
            found.append((overload.id, f"{target}{name}({', '.join(values)})"))
    return found


@pytest.mark.parametrize(("overload", "call"), calls())
def test_every_function_can_be_called(overload: str, call: str) -> None:
    text = f"[{call}] == dyn(1)"
    found = check(parse(text, 37), text, 37)
    called = {node_id: ids for node_id, ids in found.overloads.items() if overload in ids}
    assert isinstance(found.root, Call)
    assert called
