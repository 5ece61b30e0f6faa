"""From a checked expression to a function of Python."""

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from gpusharing.cel.checked import Checked
from gpusharing.cel.generate.generator import Generator

_CONSTANT: Final = re.compile(r"\bc[0-9]+\b")
_NO_BUILTINS: Final[dict[str, Any]] = {}


class Generated(NamedTuple):
    function: Callable[..., Any]
    """Of a device, and if it is metered of a Meter."""
    is_as_expected: bool
    """Whether its regular expressions take no more time than their lengths say."""


def generate(checked: Checked, *, metered: bool = False) -> Generated:
    """Raises CompileError for what Kubernetes refuses to plan."""
    generator = Generator(checked, metered=metered)
    source, constants = _source(generator, checked)
    namespace = {**constants, "__builtins__": _NO_BUILTINS}
    made: dict[str, Any] = {}
    exec(compile(source, "<selector>", "exec"), namespace, made)  # noqa: S102 (nothing of the text is in it)
    function = made["f"]
    # Nobody reads tracebacks of generated code, and a fifth of the program would be there for them.
    function.__code__ = function.__code__.replace(co_linetable=b"")
    return Generated(function, generator.patterns.are_as_expected)


def source_of(checked: Checked, *, metered: bool = False) -> tuple[str, dict[str, Any]]:
    """With the constants that it refers to."""
    return _source(Generator(checked, metered=metered), checked)


def _source(generator: Generator, checked: Checked) -> tuple[str, dict[str, Any]]:
    source = generator.run(checked.root, "def f(d, m):" if generator.is_metered else "def f(d):")
    # Some were only needed to find out that they are not.
    used = set(_CONSTANT.findall(source))
    return source, {name: value for name, value in generator.source.constants.items() if name in used}
