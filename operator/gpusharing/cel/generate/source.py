"""Python source under construction: lines, blocks, and names for temporaries, functions and constants.

No name or literal of an expression comes into the source: its variables become temporaries, everything else a constant.
"""

from typing import Any, Final, TypeAlias

_Item: TypeAlias = "str | tuple[str, Lines]"

MESSAGE: Final = "<message>"
"""Stands for the message of an error until there is one. No generated code has it otherwise."""
CAUGHT: Final = "e0"
"""The name of the error that is being handled."""
_NO_STATEMENT: Final = "pass"


_CHARACTERS_PER_WORK: Final = 16


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
        self._charges = 0
        self.blocks = 0
        """Loops and `try` around what is being written, in the same function."""

    def constant(self, value: Any) -> str:
        """The name under which the source finds the value."""
        if value is None or value is True or value is False:
            return str(value)
        key = (type(value), value) if isinstance(value, str | int | bytes) else id(value)
        name = self._names.get(key)
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
        self._charges += cost

    def line(self, text: str, *, fails: bool = False, breaks: bool = False) -> None:
        self._write_charges()
        self.lines.items.append(text)
        self.lines.fails |= fails
        self.lines.breaks |= breaks

    def block(self, header: str, body: Lines, *, handled: bool = False) -> None:
        """`handled`: what fails in it is caught."""
        self._write_charges()
        self.lines.items.append((header, body))
        self.lines.fails |= body.fails and not handled
        self.lines.breaks |= body.breaks

    def attach(self, lines: Lines) -> None:
        self._write_charges()
        self.lines.items += lines.items
        self.lines.fails |= lines.fails
        self.lines.breaks |= lines.breaks

    def detached(self, *, blocks: int = 0) -> "Detached":
        """What is written inside goes into lines of its own, to be placed later inside so many loops and `try`."""
        return Detached(self, blocks)

    def begin(self, lines: Lines, blocks: int) -> tuple[Lines, int]:
        outer = self.lines, self._charges
        self.lines, self._charges = lines, 0
        self.blocks += blocks
        return outer

    def end(self, outer: tuple[Lines, int], blocks: int) -> None:
        self._write_charges()
        self.lines, self._charges = outer
        self.blocks -= blocks

    def _write_charges(self) -> None:
        if self._charges:
            self.lines.items.append(f"m.cost += {self._charges}")
            self._charges = 0

    def render(self) -> str:
        out: list[str] = []
        self.lines.render(out, "")
        return "\n".join(out)


class Detached:
    __slots__ = ("_blocks", "_outer", "_source")

    def __init__(self, source: Source, blocks: int) -> None:
        self._source = source
        self._blocks = blocks

    def __enter__(self) -> Lines:
        lines = Lines()
        self._outer = self._source.begin(lines, self._blocks)
        return lines

    def __exit__(self, *_error: object) -> None:
        self._source.end(self._outer, self._blocks)
