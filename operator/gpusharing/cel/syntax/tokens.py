"""Words of the language, as cel-go's lexer cuts them: always the longest that fits."""

import re
from collections.abc import Iterator
from typing import Final

from gpusharing.cel.errors import CompileError

END: Final = "$END"


class Token:
    """`type` is the name of a kind of token, or the text itself for operators, brackets and keywords."""

    __slots__ = ("at", "text", "type")

    def __init__(self, type: str, text: str, at: int) -> None:  # noqa: A002
        self.type = type
        self.text = text
        self.at = at


_KEYWORDS: Final = frozenset({"in", "true", "false", "null"})
_NUMBERS: Final = frozenset({"INT_LIT", "FLOAT_LIT"})
_END_OF_OPERAND: Final = frozenset(
    {*_NUMBERS, "UINT_LIT", "STRING_LIT", "BYTES_LIT", "IDENT", "ESCAPED_IDENT", "true", "false", "null", ")", "]", "}"}
)
_SIGN: Final = "sign"

_ESCAPE: Final = r"""\\(?:[abfnrtv"'\\?`]|[0-3][0-7][0-7]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"""
_STRING: Final = (
    r"(?:"
    r'[rR](?:"""(?s:.)*?"""|\'\'\'(?s:.)*?\'\'\'|"[^"\n\r]*+"|\'[^\'\n\r]*+\')'
    rf'|"""(?:{_ESCAPE}|[^\\])*?"""'
    rf"|'''(?:{_ESCAPE}|[^\\])*?'''"
    rf'|"(?:{_ESCAPE}|[^\\"\n\r])*+"'
    rf"|'(?:{_ESCAPE}|[^\\'\n\r])*+'"
    r")"
)
_HEXADECIMAL: Final = "0x[0-9a-fA-F]+"
_EXPONENT: Final = r"[eE][+-]?[0-9]+"
_SPACE: Final = r"(?:[\t\n\f\r ]++|//[^\n]*+)*+"

# In this order, the first alternative that fits is also the longest.
_NEXT: Final = re.compile(
    rf"{_SPACE}(?:"
    rf"(?P<BYTES_LIT>[bB]{_STRING})"
    rf"|(?P<STRING_LIT>{_STRING})"
    r"|(?P<IDENT>[a-zA-Z_][a-zA-Z0-9_]*+)"
    rf"|(?P<FLOAT_LIT>[0-9]+\.[0-9]+(?:{_EXPONENT})?|[0-9]+{_EXPONENT}|\.[0-9]+(?:{_EXPONENT})?)"
    rf"|(?P<UINT_LIT>(?:{_HEXADECIMAL}|[0-9]+)[uU])"
    rf"|(?P<INT_LIT>{_HEXADECIMAL}|[0-9]+)"
    r"|(?P<ESCAPED_IDENT>`[a-zA-Z0-9_.\-/ ]+`)"
    r"|(?P<OPERATOR>&&|\|\||[=!<>]=|[-.,:?+*/%<>!()\[\]{}])"
    r"|(?P<END>\Z)"
    r"|(?P<NOTHING>)"
    r")"
)
_OPENING: Final = re.compile(r"""[bB]?(?P<raw>[rR]?)(?P<quote>\"{3}|'{3}|"|')""")
_CONTENT: Final = {
    quote: re.compile(rf"(?:{_ESCAPE}|{character})*+")
    for quote, character in (('"', r'[^\\"\n\r]'), ("'", r"[^\\'\n\r]"), ('"""', r"[^\\]"), ("'''", r"[^\\]"))
}
_ADVICE: Final = {"=": "; equality is written ==", "&": "; 'and' is written &&", "|": "; 'or' is written ||"}


def tokens(text: str) -> Iterator[Token]:
    """The last one is END. A minus belongs to the number after it if it is the only sign there: -1.includes(-1) is a
    call on -1, and --1 twice the negative of 1.
    """
    sign: Token | None = None
    previous = ""
    for match in _NEXT.finditer(text):
        kind = str(match.lastgroup)
        word = match[kind]
        begin = match.end() - len(word)
        if sign is not None:
            if kind in _NUMBERS:
                previous = kind
                yield Token(kind, f"-{word}", sign.at)
                sign = None
                continue
            previous = _SIGN
            yield sign
            sign = None
        if word == "-" and kind == "OPERATOR" and previous not in _END_OF_OPERAND:
            if previous != _SIGN:
                sign = Token(word, word, begin)
            else:
                yield Token(word, word, begin)
            continue
        if kind == "NOTHING":
            raise _no_token(text, begin)
        if kind == "END":
            yield Token(END, "", begin)
            return
        previous = word if kind == "OPERATOR" or word in _KEYWORDS else kind
        yield Token(previous, word, begin)


def _no_token(text: str, begin: int) -> CompileError:
    opening = _OPENING.match(text, begin)
    if opening is not None:
        return _bad_string(text, begin, opening)
    character = text[begin]
    return CompileError(f"unexpected {character!r}{_ADVICE.get(character, '')}", text, begin)


def _bad_string(text: str, begin: int, opening: re.Match[str]) -> CompileError:
    quote = opening["quote"]
    content = _CONTENT[quote].match(text, opening.end())
    end = content.end() if content else begin
    if text[end : end + 1] == "\\" and not opening["raw"]:
        return CompileError(f"unknown escape sequence {text[end : end + 2]}; a backslash is written \\\\", text, end)
    return CompileError(f"string without a closing {quote}", text, begin)
