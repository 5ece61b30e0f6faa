"""Selection and indexing.

As in cel-go, a chain of them is one path from its beginning: once a step is optional, or the value at the beginning,
all later steps are, and where a step leads nowhere the keys after it are not even computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gpusharing.cel.declarations.messages import CONSTANTS, USABLE_AS_VALUES
from gpusharing.cel.declarations.types import BOOL, DEVICE, DYN, INT, STRING, optional_of
from gpusharing.cel.generate import logic
from gpusharing.cel.generate.code import (
    ATTRIBUTE,
    ATTRIBUTES,
    ATTRIBUTES_OF_DOMAIN,
    CAPACITIES,
    CAPACITIES_OF_DOMAIN,
    Code,
    is_map,
    is_unknown,
    values_of,
)
from gpusharing.cel.runtime import faults, indexing, lists, optionals
from gpusharing.cel.runtime.indexing import KEY_TYPES, Walk
from gpusharing.cel.runtime.maps import MISSING
from gpusharing.cel.tree import (
    CONDITIONAL,
    INDEX,
    OPTIONAL_INDEX,
    OPTIONAL_SELECT,
    Call,
    Constantly,
    Name,
    Node,
    Select,
)
from gpusharing.cel.values.type_values import TypeValue

if TYPE_CHECKING:
    from gpusharing.cel.generate.generator import Generator

INDEXING: Final = frozenset((INDEX, OPTIONAL_INDEX, OPTIONAL_SELECT))

_DEVICE: Final = "device"
_DEVICE_FIELDS: Final = {
    "driver": Code("d.driver", STRING),
    "allowMultipleAllocations": Code("d.allow_multiple_allocations", BOOL),
    "attributes": Code("d.attributes", ATTRIBUTES),
    "capacity": Code("d.capacity", CAPACITIES),
}
_MOST_STEPS: Final = 20
_LAST_TO_REREAD: Final = 36


class Step(NamedTuple):
    key: str | Node
    is_optional: bool = False
    is_test: bool = False


def attribute(g: Generator, node: Node, *, raw: bool = False) -> Code:
    return _attribute(g, node, [], raw=raw)


def side(g: Generator, node: Node, later: list[Step], *, raw: bool) -> Code:
    """One side of a conditional. Kubernetes looks at it before it is a value: names and paths in it cost less."""
    if _is_attribute(g, node):
        return _attribute(g, node, later, raw=True)
    if later:
        return _follow(g, g.value(node), later, raw=raw)
    return _reread(g, g.value(node))


def _attribute(g: Generator, node: Node, later: list[Step], *, raw: bool) -> Code:
    """`raw`: an optional presence test remains what it is inside, an optional value."""
    root, steps = _unrolled(g, node)
    steps += later
    if isinstance(root, Call) and root.function == CONDITIONAL:
        if raw or not steps or not steps[-1].is_test:
            return logic.conditional(g, root, steps, raw=raw)
        # Kubernetes takes back here what it charges elsewhere for a test.
        g.charge(-1)
        return _whether_present(g, logic.conditional(g, root, steps, raw=raw))
    if isinstance(root, Name | Select):
        constant = _constant_name(g, root)
        if constant is not None and not steps:
            return constant
        if not raw and not (steps and steps[-1].is_test):
            g.charge(1)
        if constant is None and g.names[root.id].startswith("."):
            return _follow_from_outside(g, root, steps, raw=raw)
        return _follow(g, constant or _variable(g, root), steps, raw=raw)
    if not raw and not steps[-1].is_test:
        g.charge(1)
    return _follow(g, g.value(root), steps, raw=raw)


def _whether_present(g: Generator, code: Code) -> Code:
    """Of a test whose sides may have led to an optional value."""
    if code.type == BOOL:
        return code
    return Code(f"{g.refer(optionals.whether_present)}({code.text})", DYN, code.fails, code.breaks)


def _is_attribute(g: Generator, node: Node) -> bool:
    if isinstance(node, Name):
        return _constant_name(g, node) is None
    if isinstance(node, Select):
        return node.id not in g.names or _constant_name(g, node) is None
    return isinstance(node, Call) and node.function in (CONDITIONAL, *INDEXING)


def _unrolled(g: Generator, node: Node) -> tuple[Node, list[Step]]:
    """Where the path begins, and its steps."""
    steps: list[Step] = []
    while True:
        if isinstance(node, Select) and node.id not in g.names:
            steps.append(Step(node.field, is_test=node.test))
            node = node.operand
        elif isinstance(node, Call) and node.function in INDEXING:
            steps.append(Step(node.arguments[1], is_optional=node.function != INDEX))
            node = node.arguments[0]
        else:
            return node, steps[::-1]


# --- Where a path begins ----------------------------------------------------------------------------------------------


def _constant_name(g: Generator, node: Name | Select) -> Code | None:
    """A constant or a type, which no variable may stand for."""
    if g.names[node.id] in CONSTANTS:
        return g.constant(0)
    if g.types[node.id].name != "type":
        return None
    name = g.names[node.id]
    if name not in USABLE_AS_VALUES:
        raise g.fail(node, f"reference to undefined type: {name}")
    return g.constant(TypeValue(USABLE_AS_VALUES[name].name))


def _variable(g: Generator, node: Name | Select) -> Code:
    name = g.names[node.id]
    if name in g.scope:
        return g.scope[name]
    if name.removeprefix(".") == _DEVICE:
        return Code("d", DEVICE)
    return Code(f"{g.refer(faults.fail)}({g.refer(f'no such attribute: {name}')})", fails=True)


def _follow_from_outside(g: Generator, node: Name | Select, steps: list[Step], *, raw: bool) -> Code:
    """`.device` in a macro with a variable `device`: to the whole path the macros around it do not exist, neither their
    variables nor the meter."""
    scope, is_metered = g.scope, g.is_metered
    g.scope, g.is_metered = {}, False
    code = _follow(g, _variable(g, node), steps, raw=raw)
    g.scope, g.is_metered = scope, is_metered
    return code


def _reread(g: Generator, code: Code) -> Code:
    """Kubernetes used to lose the type of what an optional value contains, where it passed by a name."""
    if g.minor > _LAST_TO_REREAD or (not is_unknown(code.type) and code.type.name != "optional_type"):
        return code
    return Code(f"{g.refer(optionals.reread)}({code.text})", DYN, code.fails, code.breaks)


# --- Along the path ---------------------------------------------------------------------------------------------------


def _follow(g: Generator, code: Code, steps: list[Step], *, raw: bool) -> Code:
    if not steps:
        return _reread(g, Code("d.as_map()", DYN) if code.type is DEVICE else code)
    if g.is_metered:
        code = g.settled(code)
    if is_unknown(code.type):
        return _follow_unknown(g, code, steps, raw=raw)
    if code.type.name == "optional_type":
        content = Code(f"{_entered(g)}({code.text})", code.type.parameters[0], code.fails, code.breaks)
        return _follow_optional(g, content, steps, raw=raw)
    is_of_device = code.type is DEVICE
    for number, step in enumerate(steps):
        if step.is_optional:
            return _follow_optional(g, code, steps[number:], raw=raw, is_there=True)
        g.charge(1)
        code = _tested(g, code, step) if step.is_test else _stepped(g, code, step)
        code = g.settled(code) if g.is_metered else _shortened(g, code, number)
    if code.type is DEVICE:
        return Code("d.as_map()")
    if is_of_device and code.type is ATTRIBUTE and g.tells_lists_apart:
        return code._replace(text=f"{g.refer(lists.fetched)}({code.text})")
    return code


def _shortened(g: Generator, code: Code, number: int) -> Code:
    """A name for every so many steps: CPython refuses 200 levels of parentheses."""
    return g.named(code) if number % _MOST_STEPS == _MOST_STEPS - 1 else code


def _entered(g: Generator) -> str:
    return g.refer(indexing.entered if g.minor > _LAST_TO_REREAD else indexing.entered_rereading)


def _key(g: Generator, step: Step) -> Code:
    if isinstance(step.key, str):
        return g.constant(step.key)
    node = step.key
    if isinstance(node, Constantly):
        key = g.constant(node.value)
    elif _is_attribute(g, node):
        key = g.branch(lambda: attribute(g, node, raw=True))
    else:
        key = g.value(node)
    if key.is_constant and type(key.constant) not in KEY_TYPES:
        raise g.fail(step.key, f"invalid qualifier type: {type(key.constant).__name__}")
    return key


def _stepped(g: Generator, code: Code, step: Step) -> Code:
    if code.type is DEVICE:
        field = _DEVICE_FIELDS.get(step.key) if isinstance(step.key, str) else None
        if field is not None:
            return field
        code = Code("d.as_map()")
    key = _key(g, step)
    fails, breaks = code.fails or key.fails, code.breaks or key.breaks
    kind = values_of(code.type)
    if is_map(code.type) and code.type.name != "map" and key.type == STRING:
        leads_anywhere = code.type is not ATTRIBUTES and code.type is not CAPACITIES
        return Code(f"{code.text}[{key.text}]", kind, fails or leads_anywhere, breaks)
    return Code(f"{g.refer(indexing.index)}({code.text}, {key.text})", kind, fails=True, breaks=breaks)


def _tested(g: Generator, code: Code, step: Step) -> Code:
    key = _key(g, step)
    if code.type is DEVICE:
        code = Code("d.as_map()")
    if code.type is ATTRIBUTES or code.type is CAPACITIES:
        return Code(f"({code.text} is not None)", BOOL, code.fails, code.breaks)
    if code.type is ATTRIBUTES_OF_DOMAIN or code.type is CAPACITIES_OF_DOMAIN:
        return Code(f"({key.text} in {code.text})", BOOL, code.fails, code.breaks)
    return Code(f"{g.refer(indexing.has)}({code.text}, {key.text})", BOOL, fails=True, breaks=code.breaks)


def _follow_optional(g: Generator, code: Code, steps: list[Step], *, raw: bool, is_there: bool = False) -> Code:
    """`is_there`: the value is not MISSING. The result is a new optional value, or a bool at the end of a test."""
    for number, step in enumerate(steps):
        if code.type is DEVICE:
            code = Code("d.as_map()")
        code = _shortened(g, code, number)
        code = _found(g, code, step, is_there=is_there)
        is_there = False
    if steps[-1].is_test and not raw:
        return Code(f"({code.text} is not {g.refer(MISSING)})", BOOL, code.fails, code.breaks)
    return Code(f"{g.refer(indexing.optional)}({code.text})", optional_of(code.type), code.fails, code.breaks)


def _found(g: Generator, code: Code, step: Step, *, is_there: bool) -> Code:
    with g.source.detached() as lines:
        key = _key(g, step)
    if not lines and not key.fails and not g.is_metered:
        return _find(g, code, key, is_there=is_there)
    code = g.named(code)
    found = g.source.temporary()
    g.source.line(f"{found} = {code.text}")
    with g.source.detached() as inner:
        g.source.attach(lines)
        found_code = _find(g, code, key, is_there=True)
        g.line(f"{found} = {found_code.text}", found_code)
        if g.is_metered:
            g.source.line(f"m.cost += {found} is not {g.refer(MISSING)}")
    g.source.block(f"if {code.text} is not {g.refer(MISSING)}:", inner)
    return Code(found, found_code.type)


def _find(g: Generator, code: Code, key: Code, *, is_there: bool) -> Code:
    kind = values_of(code.type)
    is_of_device = is_map(code.type) and code.type.name != "map" and key.type == STRING
    if is_of_device and is_there:
        if code.type is ATTRIBUTES or code.type is CAPACITIES:
            return Code(f"{code.text}[{key.text}]", kind, code.fails or key.fails, code.breaks or key.breaks)
        text = f"{code.text}.get({key.text}, {g.refer(MISSING)})"
        return Code(text, kind, code.fails or key.fails, code.breaks or key.breaks)
    fails = code.fails or key.fails or not (is_map(code.type) and key.type in (STRING, INT, BOOL))
    text = f"{g.refer(indexing.find)}({code.text}, {key.text})"
    return Code(text, kind, fails, code.breaks or key.breaks)


def _follow_unknown(g: Generator, code: Code, steps: list[Step], *, raw: bool) -> Code:
    """Only at run time it turns out whether the value at the beginning is optional."""
    constant_steps = _constant_steps(steps)
    if constant_steps is not None and not g.is_metered and g.minor > _LAST_TO_REREAD:
        walk = Walk(constant_steps)
        if not steps[-1].is_test:
            return Code(f"{g.refer(walk)}({code.text})", DYN, fails=True, breaks=code.breaks)
        if not raw:
            return Code(f"{g.refer(walk.has)}({code.text})", BOOL, fails=True, breaks=code.breaks)
    start = g.named(code)
    value, optionally = g.source.temporary(), g.source.temporary()
    g.source.line(f"{optionally} = {g.refer(indexing.is_optional)}({start.text})")
    g.source.line(f"{value} = {_entered(g)}({start.text})")
    for step in steps:
        _step_at_run_time(g, value, optionally, step)
    if steps[-1].is_test:
        return _test_at_run_time(g, value, optionally, raw=raw)
    text = f"({g.refer(indexing.optional)}({value}) if {optionally} else {value})"
    return Code(text, DYN)


def _constant_steps(steps: list[Step]) -> tuple[indexing.Step, ...] | None:
    constant_steps = []
    for step in steps:
        key: Any = step.key.value if isinstance(step.key, Constantly) else step.key
        if type(key) not in KEY_TYPES:
            return None
        constant_steps.append(indexing.Step(key, step.is_optional))
    return tuple(constant_steps)


def _step_at_run_time(g: Generator, value: str, optionally: str, step: Step) -> None:
    if step.is_optional:
        g.source.line(f"{optionally} = True")
    with g.source.detached() as lines:
        if g.is_metered:
            # Only an optional step is free if it leads nowhere.
            g.source.line(f"m.cost += not {optionally}")
        key = _key(g, step)
        if step.is_test:
            take = f"{g.refer(indexing.find)}({value}, {key.text})"
        else:
            take = f"{g.refer(indexing.step)}({value}, {key.text}, {optionally})"
        g.source.line(f"{value} = {take}", fails=True, breaks=key.breaks)
        if g.is_metered:
            g.source.line(f"m.cost += {optionally} and {value} is not {g.refer(MISSING)}")
    g.source.block(f"if {value} is not {g.refer(MISSING)}:", lines)


def _test_at_run_time(g: Generator, value: str, optionally: str, *, raw: bool) -> Code:
    is_found = f"({value} is not {g.refer(MISSING)})"
    if not raw:
        return Code(is_found, BOOL)
    return Code(f"({g.refer(indexing.optional)}({value}) if {optionally} else {is_found})", DYN)
