"""Text in quotation marks as Go writes it (%q), which is visible wherever Kubernetes puts it into a value."""

from typing import Final

_ESCAPES: Final = {
    "\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v", '"': r"\"", "\\": r"\\",
}  # fmt: skip


_LONGEST_EXCERPT: Final = 100


def excerpt(text: str) -> str:
    """For messages to people."""
    return f'"{text}"' if len(text) <= _LONGEST_EXCERPT else f'"{text[:_LONGEST_EXCERPT]}..."'


def quote(text: str) -> str:
    if not text.isprintable() or '"' in text or "\\" in text:
        text = text.translate({ord(character): _escaped(character) for character in set(text)})
    return f'"{text}"'


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is no UTF-8, as Python's surrogateescape keeps it
        return f"\\x{code - 0xDC00:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
