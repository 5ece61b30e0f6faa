"""Where the syntax of Go's regular expressions differs from that of RE2."""

import re
from typing import Final

from gpusharing.cel.errors import EvaluationError

_QUOTED: Final = r"\\Q.*?(?:\\E|\Z)"
_PROPERTY: Final = r"\\(?P<sign>[pP])(?:\{(?P<name>[^}]*)\}|(?P<letter>[A-Za-z]))"
_ESCAPE: Final = r"\\."
_GROUP: Final = r"\(\?P?<(?P<group>[^>]*)>"
_REPEAT: Final = r"\{(?P<least>[0-9]+)(?:,(?P<most>[0-9]*))?\}"
_CLASS: Final = r"\[\^?\]?(?:\[:[^\]]*:\]|\\[pP]\{[^}]*\}|\\.|[^\]\\])*\]"
_TOKEN: Final = re.compile(f"{_QUOTED}|{_PROPERTY}|{_ESCAPE}|{_GROUP}|{_REPEAT}|{_CLASS}", re.DOTALL)
_IN_CLASS: Final = re.compile(f"{_PROPERTY}|{_ESCAPE}", re.DOTALL)
_PARENTHESIS: Final = re.compile(f"{_QUOTED}|{_ESCAPE}|{_CLASS}|[()]", re.DOTALL)
_UNUSUAL: Final = re.compile(r"\\[CpP]|\?P?<|\{[0-9,]{10}")

_OVERFLOWING_DIGITS: Final = 10
_TOO_DEEP: Final = 1000
_ALIASES: Final = {
    "Closepunctuation": "Pe", "Combiningmark": "M", "Connectorpunctuation": "Pc", "Control": "Cc",
    "Currencysymbol": "Sc", "Dashpunctuation": "Pd", "Decimalnumber": "Nd", "Enclosingmark": "Me",
    "Finalpunctuation": "Pf", "Format": "Cf", "Initialpunctuation": "Pi", "Letter": "L", "Letternumber": "Nl",
    "Lineseparator": "Zl", "Lowercaseletter": "Ll", "Mark": "M", "Mathsymbol": "Sm", "Modifierletter": "Lm",
    "Modifiersymbol": "Sk", "Nonspacingmark": "Mn", "Number": "N", "Openpunctuation": "Ps", "Other": "C",
    "Otherletter": "Lo", "Othernumber": "No", "Otherpunctuation": "Po", "Othersymbol": "So",
    "Paragraphseparator": "Zp", "Privateuse": "Co", "Punctuation": "P", "Separator": "Z", "Spaceseparator": "Zs",
    "Spacingmark": "Mc", "Surrogate": "Cs", "Symbol": "S", "Titlecaseletter": "Lt", "Uppercaseletter": "Lu",
    "Cntrl": "Cc", "Digit": "Nd", "Punct": "P",
}  # fmt: skip


def translated(pattern: str) -> str:
    """The pattern for RE2. Raises for what RE2 takes and Go refuses; the rest is left to RE2."""
    if pattern.count("(") >= _TOO_DEEP:
        _check_depth(pattern)
    return _TOKEN.sub(_translate, pattern) if _UNUSUAL.search(pattern) else pattern


def _check_depth(pattern: str) -> None:
    depth = 0
    for match in _PARENTHESIS.finditer(pattern):
        depth += {"(": 1, ")": -1}.get(match[0], 0)
        if depth >= _TOO_DEEP:
            raise EvaluationError("error parsing regexp: expression nests too deeply")


def _translate(match: re.Match[str]) -> str:
    token = match[0]
    if token.startswith("["):
        return _IN_CLASS.sub(_translate_escape, token)
    if token.startswith("(") and not re.fullmatch("[A-Za-z0-9_]+", match["group"]):
        raise _refused("invalid named capture", token)
    if token.startswith("{") and _overflows(match["least"], match["most"] or "0"):
        raise _refused("invalid repeat count", token)
    return _translate_escape(match) if token.startswith("\\") else token


def _translate_escape(match: re.Match[str]) -> str:
    if match[0] == r"\C":
        raise _refused("invalid escape sequence", match[0])
    if match["sign"] is None:
        return match[0]
    name = match["name"] or match["letter"] or ""
    negation = "^" if name.startswith("^") else ""
    return rf"\{match['sign']}{{{negation}{_property(name.removeprefix('^'))}}}"


def _property(name: str) -> str:
    """Go looks a name up by its letters alone, the first of which is a capital."""
    letters = re.sub("[-_ ]", "", name)
    canonical = letters[:1].upper() + letters[1:].lower() if letters.isascii() else letters
    return _ALIASES.get(canonical, canonical)


def _overflows(*numbers: str) -> bool:
    """A number with leading zeros makes the braces stand for themselves."""
    are_numbers = all(number == "0" or not number.startswith("0") for number in numbers)
    return are_numbers and any(len(number) >= _OVERFLOWING_DIGITS for number in numbers)


def _refused(problem: str, token: str) -> EvaluationError:
    return EvaluationError(f"error parsing regexp: {problem}: `{token}`")
