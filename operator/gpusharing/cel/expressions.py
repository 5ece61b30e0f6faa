"""Expressions over values of any shape, as CRDs and admission policies have them: `self`, `object`, `variables`.

They are read as selectors are, whose device has these values as attributes.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from gpusharing.cel.checking.check import check
from gpusharing.cel.cost.meter import Meter
from gpusharing.cel.declarations import NEWEST_MINOR
from gpusharing.cel.device import Device
from gpusharing.cel.errors import EvaluationError
from gpusharing.cel.generate import generate
from gpusharing.cel.runtime.maps import AttributeMap

_DOMAIN: Final = "variables"


class Expression:
    def __init__(self, expression: str, variables: Sequence[str]) -> None:
        """Raises CompileError."""
        # Most programs never compile anything: the parser alone is 200 ms.
        from gpusharing.cel.syntax.parse import parse  # noqa: PLC0415

        # A selector must be true or false, and these may be anything.
        text = f"dyn({expression})"
        for name in variables:
            text = f'cel.bind({name}, device.attributes["{_DOMAIN}"].{name}, {text})'
        self._variables: Final = tuple(variables)
        self._function: Final = generate(check(parse(text, NEWEST_MINOR), text, NEWEST_MINOR), metered=True).function

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """`values`: JSON, by the names of the variables. Raises EvaluationError."""
        device = Device("", {}, {})
        device.attributes[_DOMAIN] = AttributeMap((name, values[name]) for name in self._variables)
        try:
            return self._function(device, Meter())
        except RecursionError:
            raise EvaluationError("values nested too deeply") from None


@lru_cache(512)
def expression(text: str, variables: tuple[str, ...]) -> Expression:
    """Remembered. Raises CompileError."""
    return Expression(text, variables)
