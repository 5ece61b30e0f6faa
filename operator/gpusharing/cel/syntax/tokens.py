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
    r")"
)
_SKIPPED: Final = re.compile(_SPACE)
_OPENING: Final = re.compile(r"""[bB]?(?P<raw>[rR]?)(?P<quote>\"{3}|'{3}|"|')""")
_CONTENT: Final = {
    quote: re.compile(rf"(?:{_ESCAPE}|{character})*+")
    for quote, character in (('"', r'[^\\"\n\r]'), ("'", r"[^\\'\n\r]"), ('"""', r"[^\\]"), ("'''", r"[^\\]"))
}
_ADVICE: Final = {"=": "; equality is written ==", "&": "; 'and' is written &&", "|": "; 'or' is written ||"}


def tokens(text: str) -> Iterator[Token]:
    """The last one is END."""
    match_next = _NEXT.match
    position = 0
    while True:
        match = match_next(text, position)
        if match is None:
            raise _no_token(text, position)
        kind = match.lastgroup
        begin, position = match.span(kind or 0)
        word = text[begin:position]
        if kind == "IDENT":
            yield Token(word if word in _KEYWORDS else "IDENT", word, begin)
        elif kind == "OPERATOR":
            yield Token(word, word, begin)
        elif kind == "END":
            yield Token(END, "", begin)
            return
        else:
            yield Token(str(kind), word, begin)


def _no_token(text: str, position: int) -> CompileError:
    skipped = _SKIPPED.match(text, position)
    begin = skipped.end() if skipped else position
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
