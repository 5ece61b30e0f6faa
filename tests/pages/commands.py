"""Command lines of a block, as a shell would take them apart."""

import re
import shlex
from collections.abc import Iterator
from typing import Final

_SEPARATORS: Final = re.compile(r"[|;&\n]+")
_REDIRECTIONS: Final = {"<", ">", ">>"}
_SUBSTITUTION: Final = re.compile(r"\$\(([^()]*)\)")
_COMMENT: Final = re.compile(r"(?:^|\s+)#(?:\s.*)?$", re.MULTILINE)
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)

Command = list[str]


def of_console(text: str) -> str:
    """What somebody types: lines after `$ `, and `> ` where they go on."""
    return "\n".join(line[2:] for line in text.splitlines() if line.startswith(("$ ", "> ")))


def commands(text: str) -> Iterator[Command]:
    """Simple commands, without redirections and variables."""
    text = _COMMENT.sub("", text.replace("\\\n", " "))
    while found := _SUBSTITUTION.search(text):
        yield from commands(found[1])
        text = text.replace(found[0], "SUBSTITUTED")
    lexer = shlex.shlex(text, posix=True, punctuation_chars="|;&<>\n")
    lexer.whitespace, lexer.commenters, lexer.whitespace_split = " \t", "", True
    command: Command = []
    words = iter(lexer)
    for word in words:
        if _SEPARATORS.fullmatch(word):
            yield from _simple(command)
            command = []
        elif word in _REDIRECTIONS:
            next(words)
        else:
            command.append(word)
    yield from _simple(command)


def _simple(command: Command) -> Iterator[Command]:
    words = list(command)
    while words and _ASSIGNMENT.fullmatch(words[0]):
        words.pop(0)
    if words:
        yield words
