"""From a checked expression to a function of Python."""

import re
from collections.abc import Callable
from typing import Any, Final

from gpusharing.cel.checked import Checked
from gpusharing.cel.generate.generator import Generator

_CONSTANT: Final = re.compile(r"\bc[0-9]+\b")
_NO_BUILTINS: Final[dict[str, Any]] = {}


def generate(checked: Checked, *, metered: bool = False) -> Callable[..., Any]:
    """Of a device, and if it is metered of a Meter. Raises CompileError for what Kubernetes refuses to plan."""
    source, constants = source_of(checked, metered=metered)
    namespace = {**constants, "__builtins__": _NO_BUILTINS}
    exec(compile(source, "<selector>", "exec"), namespace)  # noqa: S102 (nothing of the expression's text is in it)
    function: Callable[..., Any] = namespace.pop("f")
    return function


def source_of(checked: Checked, *, metered: bool = False) -> tuple[str, dict[str, Any]]:
    """With the constants that it refers to."""
    generator = Generator(checked, metered=metered)
    source = generator.run(checked.root, "def f(d, m):" if metered else "def f(d):")
    # Some were only needed to find out that they are not.
    used = set(_CONSTANT.findall(source))
    return source, {name: value for name, value in generator.source.constants.items() if name in used}
