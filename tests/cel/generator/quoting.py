"""String and bytes literals in every spelling of CEL."""

from random import Random

_ESCAPES = {"\n": r"\n", "\t": r"\t", "\r": r"\r", "\\": r"\\", "\x07": r"\a", "\b": r"\b", "\f": r"\f", "\v": r"\v"}
_QUOTES = ('"', "'", '"""', "'''")


def quoted(random: Random, text: str) -> str:
    if random.random() < 0.7:
        return plain(text)
    quote = random.choice(_QUOTES)
    if random.random() < 0.4 and _fits_raw(text, quote):
        return random.choice("rR") + quote + text + quote
    return quote + "".join(_character(random, character, quote) for character in text) + quote


def plain(text: str) -> str:
    return '"' + "".join(_escaped(character, '"') for character in text) + '"'


def quoted_bytes(random: Random, content: bytes) -> str:
    quote = random.choice(_QUOTES)
    return random.choice("bbbB") + quote + "".join(_byte(random, byte, quote) for byte in content) + quote


def _fits_raw(text: str, quote: str) -> bool:
    if "\r" in text or ("\n" in text and len(quote) == 1):
        return False  # CEL reads a carriage return as a line feed
    return quote[0] not in text and not text.endswith("\\")


def _character(random: Random, character: str, quote: str) -> str:
    code = ord(character)
    roll = random.random()
    if roll < 0.05 and code < 0x100:
        return random.choice((f"\\x{code:02x}", f"\\X{code:02X}", f"\\{code:03o}"))
    if roll < 0.1 and code < 0x10000:
        return f"\\u{code:04x}"
    if roll < 0.13:
        return f"\\U{code:08x}"
    if character in "\n\t" and len(quote) == 3:
        return character
    if character in "?`\"'" and roll < 0.5:
        return f"\\{character}"
    return _escaped(character, quote[0])


def _escaped(character: str, quote: str) -> str:
    if character == quote:
        return f"\\{quote}"
    if character in _ESCAPES:
        return _ESCAPES[character]
    return f"\\x{ord(character):02x}" if ord(character) < 0x20 else character


def _byte(random: Random, byte: int, quote: str) -> str:
    character = chr(byte)
    if 0x20 <= byte < 0x7F and random.random() < 0.8:
        return _escaped(character, quote[0])
    return random.choice((f"\\x{byte:02x}", f"\\{byte:03o}"))
