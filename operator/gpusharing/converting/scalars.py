"""Texts that are written as YAML: Kubernetes reads YAML 1.1, in which some words are no texts."""

import re
from typing import Final

from ruamel.yaml.scalarstring import DoubleQuotedScalarString

# This library writes YAML 1.2, and quotes only what is no text there.
_WORDS: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "~"})
_NUMBER_OR_DATE: Final = re.compile(r"[-+.]?[0-9][0-9a-fA-FxXoO_:.+-]*")


def scalar(text: str) -> str:
    if text.lower() in _WORDS or _NUMBER_OR_DATE.fullmatch(text):
        quoted: str = DoubleQuotedScalarString(text)
        return quoted
    return text
