"""What a scalar without quotes means to Kubernetes, which reads YAML as version 1.1 had it, and then as JSON."""

import re
from typing import Any, Final

_NULLS: Final = frozenset(("", "~", "null", "Null", "NULL"))
_TRUE: Final = frozenset(("y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "true", "True", "TRUE"))
_FALSE: Final = frozenset(("n", "N", "no", "No", "NO", "off", "Off", "OFF", "false", "False", "FALSE"))
_INTEGER: Final = re.compile(r"[-+]?(?:0[bB][01]+|0[oO]?[0-7]+|0[xX][0-9a-fA-F]+|0|[1-9][0-9]*)", re.ASCII)
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_OCTAL: Final = re.compile(r"[-+]?0[0-7]+", re.ASCII)
_LONGEST_NUMBER: Final = 300
"""Characters. Python takes long to read longer ones, and no field has one."""


def resolve(text: str) -> Any:
    if text in _NULLS:
        return None
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    if len(text) > _LONGEST_NUMBER or not (text[0].isdigit() or text[0] in "+-."):
        return text
    plain = text.replace("_", "")
    if _INTEGER.fullmatch(plain):
        number = int(plain, 8) if _OCTAL.fullmatch(plain) else int(plain, 0)
        return number if -(2**63) <= number < 2**64 else float(number)
    if _FLOAT.fullmatch(plain):
        amount = float(plain)
        # JSON has one kind of number: 4.0 is written as 4.
        return int(amount) if amount.is_integer() and abs(amount) < 2**53 else amount
    return text
