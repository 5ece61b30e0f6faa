"""Text and bytes. A text may hold bytes that are no UTF-8, as Go's strings do: what a URL's query unescapes to."""

import re
from typing import Final

# Python keeps such bytes as surrogates from U+DC80 to U+DCFF. No other surrogate is part of any text in Go.
_OTHER_SURROGATE: Final = re.compile("[\ud800-\udc7f\udd00-\udfff]")


def encoded(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return _OTHER_SURROGATE.sub("\ufffd", text).encode("utf-8", "surrogateescape")


def decoded(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")
