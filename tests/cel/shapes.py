"""Trees as text, for tables of expectations."""

from collections.abc import Iterator

from gpusharing.cel.tree import (
    Call,
    Comprehension,
    Constantly,
    Entry,
    MakeList,
    MakeMap,
    MakeMessage,
    Name,
    Node,
    Select,
)


def shape(node: Node) -> str:
    """(function arguments), target.(function arguments), and so on: nothing is left out but ids and places."""
    match node:
        case Constantly(value=value):
            return repr(value) if type(value) in (str, bytes, float, int) else f"{type(value).__name__}:{value!r}"
        case Name(name=name):
            return name
        case Select(operand=operand, field=field, test=test):
            return f"{shape(operand)}.{field}{'!' if test else ''}"
        case Call(function=function, target=target, arguments=arguments):
            before = "" if target is None else f"{shape(target)}."
            return f"{before}({' '.join([function, *map(shape, arguments)])})"
        case MakeList(elements=elements, optional=optional):
            return f"[{' '.join(_marked(shape(each), at in optional) for at, each in enumerate(elements))}]"
        case MakeMap(entries=entries):
            return "{" + " ".join(map(shape, entries)) + "}"
        case Entry(key=key, value=value, optional=optional):
            return _marked(f"{shape(key)}:{shape(value)}", optional)
        case MakeMessage(type_name=name, fields=fields, optional=optional):
            inside = (_marked(f"{field}={shape(each)}", at in optional) for at, (field, each) in enumerate(fields))
            return f"{name}{{{' '.join(inside)}}}"
        case Comprehension():
            return _loop(node)
    raise TypeError(node)


def _loop(node: Comprehension) -> str:
    variables = f"{node.variable},{node.second_variable}" if node.second_variable else node.variable
    return (
        f"<{node.macro} {variables} in {shape(node.range)}; {node.accumulator} = {shape(node.initial)};"
        f" {shape(node.condition)}; {shape(node.step)}; {shape(node.result)}>"
    )


def _marked(text: str, is_optional: bool) -> str:
    return f"?{text}" if is_optional else text


def nodes(root: Node) -> Iterator[Node]:
    """All of the tree, with the entries of maps."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += parts(node)


def parts(node: Node) -> list[Node]:
    match node:
        case Select(operand=operand):
            return [operand]
        case Call(target=None, arguments=arguments):
            return [*arguments]
        case Call(target=Node() as target, arguments=arguments):
            return [target, *arguments]
        case MakeList(elements=elements):
            return [*elements]
        case MakeMap(entries=entries):
            return [*entries]
        case Entry(key=key, value=value):
            return [key, value]
        case MakeMessage(fields=fields):
            return [value for _, value in fields]
        case Comprehension():
            return [node.range, node.initial, node.condition, node.step, node.result]
    return []
