"""Python source under construction: lines, blocks, and names for temporaries, functions and constants.

No name or literal of an expression comes into the source: its variables become temporaries, everything else a constant.
"""

from typing import Any, Final, TypeAlias

from gpusharing.cel.generate.helpers import NAMES
from gpusharing.cel.values.numbers import Uint

_Item: TypeAlias = "str | tuple[str, Lines]"

MESSAGE: Final = "<message>"
"""Stands for the message of an error until there is one. No generated code has it otherwise."""
_NO_STATEMENT: Final = "pass"


_CHARACTERS_PER_WORK: Final = 16


_COMPARED: Final = frozenset((str, int, Uint, bytes))
"""Types of constants of which one is as good as an equal one."""


class Lines:
    """A run of statements. `fails`: one of them may raise; `breaks`: even what nothing absorbs, apart from budgets."""

    __slots__ = ("breaks", "fails", "items")

    def __init__(self, *statements: str, fails: bool = False) -> None:
        self.items: list[_Item] = [*statements]
        self.fails = fails
        self.breaks = False

    def __bool__(self) -> bool:
        return bool(self.items)

    def work(self) -> str:
        """The statement that counts the time that these take."""
        out: list[str] = []
        self.render(out, "")
        text = "".join(out)
        return f"m.work += {len(text) // _CHARACTERS_PER_WORK + text.count('(') + 1}"

    def render(self, out: list[str], indent: str) -> None:
        if not self.items:
            out.append(indent + _NO_STATEMENT)
        for item in self.items:
            if isinstance(item, str):
                out.append(indent + item)
            else:
                header, body = item
                out.append(indent + header)
                body.render(out, indent + " ")


class Source:
    def __init__(self) -> None:
        self.lines = Lines()
        self.constants: dict[str, Any] = {}
        self._names: dict[Any, str] = {}
        self._temporaries = 0
        self._functions = 0
        self.charges = 0
        """Not yet written."""
        self.blocks = 0
        """Loops and `try` around what is being written, in the same function."""

    def constant(self, value: Any) -> str:
        """The name under which the source finds the value."""
        if value is None or value is True or value is False:
            return str(value)
        kind = type(value)
        key = (kind, value) if kind in _COMPARED else id(value)
        name = self._names.get(key) or NAMES.get(id(value))
        if name is None:
            name = self._names[key] = f"c{len(self.constants)}"
            self.constants[name] = value
        return name

    def temporary(self) -> str:
        self._temporaries += 1
        return f"v{self._temporaries}"

    def function(self) -> str:
        self._functions += 1
        return f"g{self._functions}"

    def charge(self, cost: int) -> None:
        """To be counted before the next statement."""
        self.charges += cost

    def line(self, text: str, *, fails: bool = False, breaks: bool = False) -> None:
        self.write_charges()
        self.lines.items.append(text)
        self.lines.fails |= fails
        self.lines.breaks |= breaks

    def block(self, header: str, body: Lines, *, handled: bool = False) -> None:
        """`handled`: what fails in it is caught."""
        self.write_charges()
        self.lines.items.append((header, body))
        self.lines.fails |= body.fails and not handled
        self.lines.breaks |= body.breaks

    def attach(self, lines: Lines) -> None:
        self.write_charges()
        self.lines.items += lines.items
        self.lines.fails |= lines.fails
        self.lines.breaks |= lines.breaks

    def detached(self, *, blocks: int = 0) -> "Detached":
        """What is written inside goes into lines of its own, to be placed later inside so many loops and `try`."""
        return Detached(self, blocks)

    def write_charges(self) -> None:
        if self.charges:
            self.lines.items.append(f"m.cost += {self.charges}")
            self.charges = 0

    def render(self) -> str:
        out: list[str] = []
        self.lines.render(out, "")
        return "\n".join(out)


class Detached:
    __slots__ = ("_blocks", "_outer_charges", "_outer_lines", "_source")

    def __init__(self, source: Source, blocks: int) -> None:
        self._source = source
        self._blocks = blocks

    def __enter__(self) -> Lines:
        source = self._source
        self._outer_lines, self._outer_charges = source.lines, source.charges
        source.lines, source.charges = Lines(), 0
        source.blocks += self._blocks
        return source.lines

    def __exit__(self, *_error: object) -> None:
        source = self._source
        source.write_charges()
        source.lines, source.charges = self._outer_lines, self._outer_charges
        source.blocks -= self._blocks
