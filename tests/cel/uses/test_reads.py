"""What a program does not read may change: the answer stays the same, and so does the error."""

from random import Random
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cel.generator.cases import case
from cel.generator.devices import device as random_device
from gpusharing import cel

GPU: Final = 'device.attributes["d"]'

MANY: Final = 20 * settings().max_examples
"""Half of the random selectors are refused, and some read what is not known before."""

READS = [
    ("true", set()),
    ("device.driver == 'd' && device.allowMultipleAllocations", set()),
    (f"{GPU}.a == 1", {("d", "a")}),
    (f"{GPU}['a'] == 1 || {GPU}.b", {("d", "a"), ("d", "b")}),
    (f"{GPU}.`a` == 1", {("d", "a")}),
    ("device.attributes.d.a == 1", {("d", "a")}),
    ("device.capacity['d'].memory.compareTo(quantity('1')) > 0", {("d", "memory")}),
    (f"has({GPU}.a)", {("d", "a")}),
    (f"'a' in {GPU}", {("d", "a")}),
    (f"{GPU}.?a.orValue(1) == 1", {("d", "a")}),
    (f"{GPU}[?'a'].hasValue()", {("d", "a")}),
    ("device.attributes[?'d'].?a.hasValue()", {("d", "a")}),
    ("device.?attributes['d'].a.hasValue()", {("d", "a")}),
    (f"{GPU}.a.b[0].c", {("d", "a")}),
    (f"{GPU}.?a.optMap(x, x == 1).orValue(false)", {("d", "a")}),
    (f"cel.bind(gpu, {GPU}, gpu.a == 1 && has(gpu.b))", {("d", "a"), ("d", "b")}),
    ("cel.bind(all, device.attributes, cel.bind(gpu, all['d'], gpu.a))", {("d", "a")}),
    ("cel.bind(me, device, me.attributes['d'].a)", {("d", "a")}),
    (f"cel.bind(gpu, {GPU}, true)", set()),
    (f"cel.bind(gpu, {GPU}, gpu).a == 1", {("d", "a")}),
    (f"[1].all(x, {GPU}.a == x)", {("d", "a")}),
    ("[{'a': 1}].all(device, device.a == 1)", set()),
    (f"['x'].all(gpu, cel.bind(x, {GPU}, x.a == gpu))", {("d", "a")}),
    (f"{GPU}.a.exists(x, x == 1)", {("d", "a")}),
    # Not known before.
    (f"{GPU}['a' + 'b'] == 1", None),
    ("device.attributes[device.driver].a == 1", None),
    ("'d' in device.attributes", None),
    ("has(device.attributes.d)", None),
    ("device.attributes[?'d'].hasValue()", None),
    ("device.attributes.exists(d, d == 'd')", None),
    (f"{GPU}.exists(name, name == 'a')", None),
    (f"size({GPU}) > 1", None),
    (f"{GPU} == {{}}", None),
    (f"(true ? {GPU} : {GPU}).a == 1", None),
    (f"[{GPU}].exists(gpu, gpu.a == 1)", None),
    (f"cel.bind(gpu, [{GPU}], true)", None),
    ("device == device", None),
    ("[device].size() == 1", None),
    ("type(device) == kubernetes.DRADevice || true", "refused"),
]


@pytest.mark.parametrize(("expression", "expected"), READS)
def test_what_an_expression_reads(expression: str, expected: Any) -> None:
    if expected == "refused":
        with pytest.raises(cel.CompileError):
            cel.compile(expression, 37)
    else:
        assert cel.compile(expression, 37).reads == expected


def bound(device: dict[str, Any]) -> cel.Device:
    return cel.Device(
        device["driver"],
        device.get("attributes", {}),
        device.get("capacity", {}),
        allow_multiple_allocations=device.get("allowMultipleAllocations", False),
    )


def outcome(program: cel.Program, device: cel.Device) -> bool | str:
    try:
        return program.match(device)
    except cel.EvaluationError as error:
        return str(error)


def with_the_rest_of(
    device: dict[str, Any], other: dict[str, Any], reads: frozenset[tuple[str, str]]
) -> dict[str, Any]:
    """What is read as on the one device, and all else as on the other."""
    mixed = dict(device)
    for kind in ("attributes", "capacity"):
        mixed[kind] = {
            name: value
            for source, is_of_device in ((other, False), (device, True))
            for name, value in source.get(kind, {}).items()
            if (qualified(name, device["driver"]) in reads) == is_of_device
        }
    return mixed


def qualified(name: str, driver: str) -> tuple[str, str]:
    domain, slash, rest = name.partition("/")
    return (domain, rest) if slash else (driver, name)


@settings(max_examples=MANY)
@given(st.integers(0, 2**32), st.integers(0, 2**32), st.sampled_from([36, 37]))
def test_what_is_not_read_does_not_matter(number: int, other: int, minor: int) -> None:
    selector = case(1, number)
    try:
        program = cel.compile(str(selector.tree), minor)
    except cel.CompileError:
        return
    if program.reads is None:
        return
    one = selector.devices[0]
    another = random_device(Random(other), one["driver"])  # noqa: S311 (no secret)
    device, changed = bound(one), bound(with_the_rest_of(one, another, program.reads))
    if device.defect != changed.defect:
        return
    answer, after = outcome(program, device), outcome(program, changed)
    if device.is_within_limits == changed.is_within_limits:
        assert answer == after
    else:
        # Of several errors, code that counts costs may find another one first.
        assert answer == after or (isinstance(answer, str) and isinstance(after, str))
