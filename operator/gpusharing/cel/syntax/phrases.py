"""The loop of the parser: tokens to phrases, by the tables of the grammar."""

from collections.abc import Collection
from typing import Final, TypeAlias

from gpusharing.cel.errors import CompileError
from gpusharing.cel.syntax.grammar import grammar
from gpusharing.cel.syntax.tokens import END, Token, tokens
from gpusharing.cel.tree.writing import shortened


class Phrase:
    """What a production of the grammar has put together. One that is a single part is that part."""

    __slots__ = ("name", "parts")

    def __init__(self, name: str, parts: "list[Part]") -> None:
        self.name = name
        self.parts = parts


Part: TypeAlias = Token | Phrase


def read(text: str) -> Part:
    # Lark has such a loop too. It takes four times as long, most of it for productions of one part.
    rules = grammar()
    actions, landings, end = rules.actions, rules.landings, rules.end
    state = rules.start
    states = [state]
    parts: list[Part] = []
    for token in tokens(text):
        following = token.type
        while True:
            action = actions[state].get(following)
            if isinstance(action, int):
                state = action
                states.append(state)
                parts.append(token)
                break
            if action is None:
                raise _unexpected(token, text, actions[state], parts)
            name, size = action
            if size > 1:
                parts[-size:] = [Phrase(name, parts[-size:])]
            del states[-size:]
            before = states[-1]
            state = landings.get((before, name, following)) or rules.land(before, name, following)
            if state == end and following == END:
                return parts[0]
            states.append(state)
    raise AssertionError(text)


_CLOSING: Final = {"(": ")", "[": "]", "{": "}"}
_IN_CEL: Final = {"and": "&&", "or": "||", "not": "!"}


def _unexpected(token: Token, text: str, expected: Collection[str], parts: list[Part]) -> CompileError:
    found = f"unexpected {shortened(token.text)!r}" if token.text else "the expression ends"
    last = parts[-1].text if parts and isinstance(parts[-1], Token) else ""
    for word in (token.text, last):
        if word.lower() in _IN_CEL:
            return CompileError(f"{found}; {word!r} is written {_IN_CEL[word.lower()]}", text, token.at)
    if last == ".":
        wanted = "the name of a field"
    elif "IDENT" in expected:
        wanted = "a value"
    else:
        follower = _follower(parts)
        wanted = f"an operator or {follower!r}" if follower else "an operator or the end"
    return CompileError(f"{found} where {wanted} should be", text, token.at)


def _follower(parts: list[Part]) -> str:
    """What ends the expression that has just been read, going by what is still open."""
    after_colon = False
    for position, part in reversed([*enumerate(parts)]):
        if not isinstance(part, Token):
            continue
        if part.type in ("(", "["):
            return _CLOSING[part.type]
        if part.type == "{":
            return "}" if after_colon else ":"
        if part.type == ":":
            after_colon = True
        elif part.type == "?" and not _is_punctuation(parts[position - 1]):
            if not after_colon:
                return ":"
            after_colon = False
    return ""


def _is_punctuation(part: Part) -> bool:
    return isinstance(part, Token) and part.type in "([{.,"
