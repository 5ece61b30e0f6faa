"""What Kubernetes expects calls to cost, by the names of functions, whatever their overloads."""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gpusharing.cel.cost.calls.form import CallEstimate, CallForm, Estimator, for_each, of_pattern
from gpusharing.cel.cost.device_sizes import size_at
from gpusharing.cel.cost.paths import Path
from gpusharing.cel.cost.prices import NEW_LIST, NEW_MESSAGE, PER_CHARACTER, PER_CHARACTER_OF_PATTERN
from gpusharing.cel.cost.ranges import MOST, NOTHING, ONE, UNKNOWN, Range, fixed
from gpusharing.cel.declarations.types import (
    BYTES,
    CIDR,
    IP,
    NAMED_FORMAT,
    NULLABLE,
    QUANTITY,
    SEMVER,
    STRING,
    URL,
    nullable,
)
from gpusharing.cel.tree import EQUALS

_ADDRESS: Final = Range(4, 16)
"""Bytes of an IP address."""
_COMPARE_ADDRESSES: Final = _ADDRESS.plus(_ADDRESS).scaled(PER_CHARACTER)
_LONGEST_PATTERN_OF_FORMAT: Final = 128
_LONGEST_FORMAT: Final = 64
_SIMPLE_OBJECTS: Final = frozenset(kind.name for kind in (IP, CIDR, QUANTITY, SEMVER))
_MOST_INCLUDED: Final = 48


def _one(_call: CallForm) -> CallEstimate:
    return CallEstimate(ONE)


def _check_authorization(_call: CallForm) -> CallEstimate:
    return CallEstimate(fixed(350_000))


def _requirements(call: CallForm) -> CallEstimate:
    """Selectors of an authorization check; the shortest requirement has two characters."""
    text = call.operands[1].size
    making = text.scaled(0.5).scaled(NEW_LIST + NEW_MESSAGE)
    return CallEstimate(fixed(NEW_LIST).plus(text.scaled(PER_CHARACTER)).plus(making))


def _size_of_items(path: Path) -> Range:
    return size_at(path.without_effect_to("@items")) or UNKNOWN


def _scan(call: CallForm) -> CallEstimate:
    """One look at each item of a list, or at each character of a string."""
    if call.overload == "dra_includes_dyn_dyn":  # of 1.36, which allows no more items
        return CallEstimate(Range(0, _MOST_INCLUDED))
    scanned = call.operands[0]
    if not scanned.type.parameters or scanned.type.name == NULLABLE:  # whose parameter is of our making
        return CallEstimate(scanned.size if call.function == "includes" else scanned.size.scaled(PER_CHARACTER))
    per_item = ONE
    if scanned.type.parameters[0] in (STRING, BYTES, nullable(STRING), nullable(BYTES)):
        per_item = per_item.plus(_size_of_items(scanned.path).scaled(PER_CHARACTER))
    return CallEstimate(scanned.size.times(per_item))


def _transform(call: CallForm) -> CallEstimate:
    return CallEstimate(call.first.scaled(PER_CHARACTER), call.first)


def _parse(call: CallForm) -> CallEstimate:
    return CallEstimate(call.first.scaled(PER_CHARACTER))


def _parse_and_compare(call: CallForm) -> CallEstimate:
    return CallEstimate(call.first.scaled(2 * PER_CHARACTER))


def _replace(call: CallForm) -> CallEstimate:
    text, old, new = (operand.size for operand in call.operands[:3])
    shortest = _replaced(text.min, old.max, new.min, has_effect=old.max > new.min)
    longest = _replaced(text.max, old.min, new.max, has_effect=new.max > old.min)
    return CallEstimate(text.scaled(2 * PER_CHARACTER), Range(shortest, longest))


def _replaced(text: int, old: int, new: int, *, has_effect: bool) -> int:
    """The length after a replacement at as many places as there can be, if it leads towards the extreme looked for."""
    if old == 0:  # stands before, between and after all characters
        return min(min(text + 1, MOST) * new + text, MOST)
    if not has_effect:
        return text
    return min(_as_go_converts(math.ceil(float(text) / float(old))) * new, MOST)


def _as_go_converts(value: int) -> int:
    """What Go on x86 makes of a float that does not fit into 64 bits."""
    return value if value <= MOST else 2**63


def _split(call: CallForm) -> CallEstimate:
    limit = call.operands[2].literal_integer if len(call.operands) > 2 else None
    parts = call.first.max if limit is None else limit % (MOST + 1)
    return CallEstimate(call.first.scaled(2 * PER_CHARACTER), Range(0, parts))


def _join(call: CallForm) -> CallEstimate:
    items, *separator = call.operands
    size = items.size.times(_size_of_items(items.path)) if items.type.parameters else NOTHING
    if separator:
        separators = Range(max(items.size.min - 1, 0), max(items.size.max - 1, 0))
        size = size.plus(separator[0].size.times(separators))
    return CallEstimate(size.scaled(PER_CHARACTER), size)


def _find(call: CallForm) -> CallEstimate:
    return CallEstimate(of_pattern(call.first, call.operands[1].size), Range(0, call.first.max))


def _ip(call: CallForm) -> CallEstimate:
    return CallEstimate(ONE) if call.overload == "cidr_ip" else _parse(call)


def _contains_ip(call: CallForm) -> CallEstimate:
    return CallEstimate(_COMPARE_ADDRESSES.plus(_parsing_address(call)))


def _contains_cidr(call: CallForm) -> CallEstimate:
    masking = _ADDRESS.scaled(PER_CHARACTER).plus(ONE)
    return CallEstimate(_COMPARE_ADDRESSES.plus(masking).plus(_parsing_address(call)))


def _parsing_address(call: CallForm) -> Range:
    is_text = call.overload in ("cidr_contains_ip_string", "cidr_contains_cidr_string")
    return call.operands[1].size.scaled(PER_CHARACTER) if is_text else NOTHING


def _validate(call: CallForm) -> CallEstimate:
    per_character = _LONGEST_PATTERN_OF_FORMAT * PER_CHARACTER_OF_PATTERN
    return CallEstimate(call.operands[1].size.scaled(PER_CHARACTER).scaled(per_character))


def _equal_objects(call: CallForm) -> CallEstimate | None:
    left, right = call.operands
    kind = left.type.name
    if kind != right.type.name:
        return None
    if kind in _SIMPLE_OBJECTS or kind.startswith("kubernetes.authorization."):
        return CallEstimate(ONE)
    if kind == NAMED_FORMAT.name:
        return CallEstimate(Range(1, _LONGEST_FORMAT).scaled(PER_CHARACTER))
    if kind == URL.name:
        size = right.known_size or ONE  # Kubernetes means both sides, but looks at this one twice
        return CallEstimate(Range(1, size.max).scaled(PER_CHARACTER))
    return None


BY_FUNCTION: Final[Mapping[str, Estimator]] = MappingProxyType(
    {
        "check": _check_authorization,
        **for_each(("serviceAccount", "path", "group", "resource", "subresource", "namespace", "name"), _one),
        **for_each(("allowed", "reason", "error", "errored"), _one),
        **for_each(("fieldSelector", "labelSelector"), _requirements),
        **for_each(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf", "includes"), _scan),
        **for_each(("url", "lowerAscii", "upperAscii", "substring", "trim"), _transform),
        "replace": _replace,
        "split": _split,
        "join": _join,
        **for_each(("find", "findAll"), _find),
        **for_each(("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _parse),
        "ip": _ip,
        "ip.isCanonical": _parse_and_compare,
        "containsIP": _contains_ip,
        "containsCIDR": _contains_cidr,
        "validate": _validate,
        EQUALS: _equal_objects,
    }
)
