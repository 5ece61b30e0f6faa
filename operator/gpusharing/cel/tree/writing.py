"""Short expressions as people write them, for messages."""

import json
from typing import Final

from gpusharing.cel.tree import Call, Constantly, Name, Node, Select

_LONGEST_WORD: Final = 40
_DEEPEST: Final = 8
_LONGEST: Final = 100
_ELSE: Final = "..."


def shortened(word: str) -> str:
    return word if len(word) <= _LONGEST_WORD else f"{word[: _LONGEST_WORD - 3]}..."


def written(node: Node) -> str:
    text = _written(node, _DEEPEST)
    return text if len(text) <= _LONGEST else _ELSE


def _written(node: Node, depth: int) -> str:
    if depth == 0:
        return _ELSE
    match node:
        case Constantly(value=str() as text):
            return json.dumps(text, ensure_ascii=False)
        case Constantly(value=bool() as value):
            return str(value).lower()
        case Constantly(value=int() | float() as value):
            return str(value)
        case Name(name=name):
            return name
        case Select(operand=operand, field=field, test=False):
            return f"{_written(operand, depth - 1)}.{field}"
        case Call(function="_[_]", arguments=(operand, index)):
            return f"{_written(operand, depth - 1)}[{_written(index, depth - 1)}]"
        case Call(function=function, target=target, arguments=arguments) if function[0].isalpha():
            values = ", ".join(_written(argument, depth - 1) for argument in arguments)
            before = f"{_written(target, depth - 1)}." if target else ""
            return f"{before}{function}({values})"
    return _ELSE
