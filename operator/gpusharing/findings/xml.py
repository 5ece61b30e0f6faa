"""XML for reports: a few elements, which no parser may choke on."""

import re
from collections.abc import Mapping, Sequence
from typing import Final
from xml.sax.saxutils import escape, quoteattr

_FORBIDDEN: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML cannot have, not even escaped."""


def element(name: str, attributes: Mapping[str, str], children: Sequence[str] = (), *, text: str = "") -> str:
    """`children` are elements."""
    given = "".join(f" {key}={quoteattr(_allowed(value))}" for key, value in attributes.items())
    inner = escape(_allowed(text)) + "".join(f"\n{child}" for child in children)
    if not inner:
        return f"<{name}{given}/>"
    return f"<{name}{given}>{inner}{chr(10) if children else ''}</{name}>"


def _allowed(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)
