"""What the spelling of a literal stands for, as cel-go's parser has it."""

import math
import re
from collections.abc import Callable, Mapping
from typing import Final

from gpusharing.cel.syntax.tokens import Token
from gpusharing.cel.tree import Constant
from gpusharing.cel.tree.writing import shortened
from gpusharing.cel.values.numbers import Uint


class BadLiteral(ValueError):  # noqa: N818 (it is no error in the program)
    """The message is for people."""


def value_of(token: Token) -> Constant:
    return _READERS[token.type](token.text)


def _int(text: str) -> int:
    value = -_natural(text[1:]) if text[0] == "-" else _natural(text)
    if not -(2**63) <= value < 2**63:
        raise BadLiteral(f"the integer {shortened(text)} needs more than 64 bits")
    return value


def _uint(text: str) -> Uint:
    value = _natural(text[:-1])
    if value >= 2**64:
        raise BadLiteral(f"the unsigned integer {shortened(text)} needs more than 64 bits")
    return Uint(value)


def _natural(text: str) -> int:
    if text.startswith("0x"):
        return int(text, 16)
    digits = text.lstrip("0") or "0"
    # Python refuses numbers of thousands of digits. All those of more than twenty are too large.
    return int(digits[:21])


def _double(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise BadLiteral(f"the number {shortened(text)} is too large")
    return value


_ESCAPED: Final = re.compile(r"\\([0-3][0-7][0-7]|[xX]..|u....|U.{8}|.)")
_SIMPLE: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def _string(text: str) -> str:
    content, is_raw = _content(text)
    return content if is_raw else _ESCAPED.sub(_character, content)


def _character(escape: re.Match[str]) -> str:
    code = _code(escape[1])
    if code is None:
        return _SIMPLE.get(escape[1], escape[1])
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise BadLiteral(f"{escape[0]} is no Unicode character")
    return chr(code)


def _code(escaped: str) -> int | None:
    if escaped[0] in "xXuU":
        return int(escaped[1:], 16)
    return int(escaped, 8) if escaped[0] in "0123" else None


def _bytes(text: str) -> bytes:
    content, is_raw = _content(text[1:])
    if is_raw:
        return content.encode()
    parts = []
    end = 0
    for escape in _ESCAPED.finditer(content):
        parts += [content[end : escape.start()].encode(), _byte(escape)]
        end = escape.end()
    return b"".join([*parts, content[end:].encode()])


def _byte(escape: re.Match[str]) -> bytes:
    if escape[1][0] in "uU":
        raise BadLiteral(f"{escape[0]} names a character, and bytes hold none; write its UTF-8 bytes as \\x..")
    code = _code(escape[1])
    return _SIMPLE.get(escape[1], escape[1]).encode() if code is None else bytes([code])


def _content(text: str) -> tuple[str, bool]:
    """What stands between the quotes, and whether backslashes mean nothing in it."""
    is_raw = text[0] in "rR"
    text = text[is_raw:].replace("\r\n", "\n").replace("\r", "\n")
    quotes = 3 if text.startswith(('"""', "'''")) else 1
    return text[quotes:-quotes], is_raw


_READERS: Final[Mapping[str, Callable[[str], Constant]]] = {
    "INT_LIT": _int,
    "UINT_LIT": _uint,
    "FLOAT_LIT": _double,
    "STRING_LIT": _string,
    "BYTES_LIT": _bytes,
    "true": lambda _: True,
    "false": lambda _: False,
    "null": lambda _: None,
}
