"""From a checked expression to a function of Python."""

from collections.abc import Callable
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any, Final, NamedTuple

from gpusharing.cel.checking.checked import Checked
from gpusharing.cel.generate.generator import Generator
from gpusharing.cel.generate.helpers import HELPERS

_REMEMBERED: Final = 256
_LONGEST_REMEMBERED: Final = 2048
"""Characters: selectors of people are shorter, and others shall not fill the memory."""


class _Compiled(NamedTuple):
    code: CodeType
    names: frozenset[str]
    """All that it refers to, and attributes."""


class Generated(NamedTuple):
    function: Callable[..., Any]
    """Of a device, and if it is metered of a Meter."""
    is_as_expected: bool
    """Whether its regular expressions take no more time than their lengths say."""


def generate(checked: Checked, *, metered: bool = False) -> Generated:
    """Raises CompileError for what Kubernetes refuses to plan."""
    generator = Generator(checked, metered=metered)
    source, constants = _source(generator, checked)
    compiled = _remembered(source) if len(source) <= _LONGEST_REMEMBERED else _compiled(source)
    # Some constants were only needed to find out that they are not.
    namespace = {name: value for name, value in constants.items() if name in compiled.names}
    # In place of Python's own, which it shall not see.
    namespace["__builtins__"] = HELPERS
    # Nobody reads tracebacks of generated code, and a fifth of the program would be there for them. Besides, a copy
    # for each program: code adapts itself to the constants that it runs with.
    function = FunctionType(compiled.code.replace(co_linetable=b""), namespace)
    return Generated(function, generator.patterns.are_as_expected)


def source_of(checked: Checked, *, metered: bool = False) -> tuple[str, dict[str, Any]]:
    """With the constants that it may refer to."""
    return _source(Generator(checked, metered=metered), checked)


def _source(generator: Generator, checked: Checked) -> tuple[str, dict[str, Any]]:
    source = generator.run(checked.root, "def f(d, m):" if generator.is_metered else "def f(d):")
    return source, generator.source.constants


def _compiled(source: str) -> _Compiled:
    module = compile(source, "<selector>", "exec", dont_inherit=True)
    (function,) = _functions_in(module)
    names: set[str] = set()
    pending = [function]
    while pending:
        code = pending.pop()
        names.update(code.co_names)
        pending += _functions_in(code)
    return _Compiled(function, frozenset(names))


_remembered: Final = lru_cache(_REMEMBERED)(_compiled)
"""Selectors that differ in their constants only have the same source. Python's compiler takes as long as all the rest
of the way there from the text."""


def _functions_in(code: CodeType) -> list[CodeType]:
    return [constant for constant in code.co_consts if isinstance(constant, CodeType)]
