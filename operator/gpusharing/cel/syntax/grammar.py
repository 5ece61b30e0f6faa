"""The tables of cel-python's grammar as Lark makes them, built once, when the first expression is read."""

import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias


class Production(NamedTuple):
    """`size` values at the end of the stack are one `name`."""

    name: str
    size: int


Action: TypeAlias = int | Production
"""What to do with a token: push it and go to a state, or first make one of the values before it."""


@dataclass(frozen=True, slots=True)
class Grammar:
    """An LALR automaton over the types of tokens"""

    start: int
    end: int
    actions: Mapping[int, Mapping[str, Action]]
    targets: Mapping[int, Mapping[str, int]]
    """The state after a production's name."""
    landings: dict[tuple[int, str, str], int] = field(default_factory=dict)
    """What `land` has found out before."""

    def land(self, state: int, name: str, next_type: str) -> int:
        """The state after `name`, and after all that it is alone when `next_type` follows.

        A name alone is a primary is a member is a unary expression and so on up to the whole: ten productions, none of
        which says anything. They are two thirds of all steps.
        """
        landing = self.landings[state, name, next_type] = self._land(state, name, next_type)
        return landing

    def _land(self, state: int, name: str, next_type: str) -> int:
        while True:
            reached = self.targets[state][name]
            action = self.actions[reached].get(next_type)
            if not isinstance(action, Production) or action.size > 1:
                return reached
            name = action.name


_lock: Final = threading.Lock()
_grammar: Grammar | None = None


def grammar() -> Grammar:
    global _grammar  # noqa: PLW0603 (a quarter of a second, once)
    if _grammar is None:
        with _lock:
            if _grammar is None:
                _grammar = _build()
    return _grammar


def _build() -> Grammar:
    # Lark is needed only by those who read expressions.
    from lark import Lark  # noqa: PLC0415
    from lark.lexer import Lexer, PatternStr  # noqa: PLC0415

    class NoLexer(Lexer):
        """So that Lark compiles no patterns."""

        def __init__(self, _configuration: Any) -> None: ...

        def lex(self, *_: Any) -> Any:
            raise NotImplementedError

    parser = Lark(
        Path(__file__).with_name("selector.lark").read_text(encoding="utf-8"),
        parser="lalr",
        lexer=NoLexer,
        start="expr",
        import_paths=[_directory_of_cel_python()],
        maybe_placeholders=False,
    )
    texts = {term.name: term.pattern.value for term in parser.terminals if isinstance(term.pattern, PatternStr)}
    names = {rule.origin.name for rule in parser.rules}

    def plain(name: str) -> str:
        """Lark's own strings compare slowly."""
        return sys.intern(str(name))

    automaton = parser.parse_interactive("").parser_state.parse_conf
    actions: dict[int, dict[str, Action]] = {}
    targets: dict[int, dict[str, int]] = {}
    for state, steps in automaton.parse_table.states.items():
        actions[state] = {
            plain(texts.get(name, name)): argument
            if isinstance(argument, int)
            else Production(plain(argument.origin.name), len(argument.expansion))
            for name, (_, argument) in steps.items()
            if name not in names
        }
        targets[state] = {plain(name): argument for name, (_, argument) in steps.items() if name in names}
    return Grammar(automaton.start_state, automaton.end_state, actions, targets)


def _directory_of_cel_python() -> str:
    # Where it is, without its code: importing it takes half a second and changes Python's recursion limit.
    package = find_spec("celpy")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("cel-python is not installed")
    return str(Path(package.origin).parent)
