"""How large values are to those who charge for them."""

import math
from typing import Any

from gpusharing.cel.cost.prices import PER_CHARACTER
from gpusharing.cel.runtime import maps
from gpusharing.cel.values.network import Cidr, Ip
from gpusharing.cel.values.optional import NONE, Optional


def size_of(value: Any) -> int:
    """1 for everything without a size, errors too."""
    if isinstance(value, str | bytes | list | dict):
        return len(value)
    if isinstance(value, Ip):
        return value.bits // 8
    if isinstance(value, Cidr):
        return math.ceil(value.prefix_length / 8)
    return 1


def size_of_content(value: Any) -> int:
    """As cel-go's own functions see it, to which an optional is as large as what it holds."""
    while isinstance(value, Optional) and value is not NONE:
        value = value.value
    return size_of(value)


def price_of_all_inside(value: Any) -> int:
    """Of looking at all that is in a value, however deep. Here a character is a byte, and what is left over is free."""
    total = 0
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            total += int(len(part.encode("utf-8", "surrogateescape")) * PER_CHARACTER)
        elif isinstance(part, bytes):
            total += int(len(part) * PER_CHARACTER)
        elif isinstance(part, list):
            waiting.extend(part)
        elif isinstance(part, dict):
            for entry in maps.items(part):
                waiting.extend(entry)
        else:
            total += 1
    return total
