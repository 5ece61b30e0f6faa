"""How large the parts of `device` can be: the limits of the ResourceSlice API, as Kubernetes declares them for CEL."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gpusharing.cel.cost.paths import Path
from gpusharing.cel.cost.ranges import Range


@dataclass(frozen=True, slots=True)
class _Declared:
    max_size: int = 0
    fields: Mapping[str, "_Declared"] = field(default_factory=dict)
    keys: "_Declared | None" = None
    values: "_Declared | None" = None
    any_field: "_Declared | None" = None
    """What each field is whose name is not known before."""


_DRIVER: Final = _Declared(63)
_DOMAIN: Final = _Declared(63)
_ID: Final = _Declared(32)
_ATTRIBUTE: Final = _Declared(64)  # characters of a string, and more than the items that a list may have
_QUANTITY: Final = _Declared()
_PER_DEVICE: Final = 32  # attributes and capacities together, so no map has more entries
_DEVICE: Final = _Declared(
    fields={
        "driver": _DRIVER,
        "allowMultipleAllocations": _Declared(1),
        "attributes": _Declared(
            _PER_DEVICE,
            keys=_DOMAIN,
            values=_Declared(_PER_DEVICE, keys=_ID, values=_ATTRIBUTE, any_field=_ATTRIBUTE),
        ),
        # No `any_field`: Kubernetes knows the size of capacity["domain"]["name"], not that of capacity["domain"].name.
        "capacity": _Declared(
            _PER_DEVICE,
            keys=_DOMAIN,
            values=_Declared(_PER_DEVICE, keys=_ID, values=_QUANTITY),
        ),
    }
)


def size_at(path: Path) -> Range | None:
    """None if Kubernetes knows nothing about that part."""
    part = _DEVICE if path.variable == "device" else None
    for step in path.steps[1:]:
        if part is None:
            return None
        part = _part(part, step)
    return Range(0, part.max_size) if part else None


def _part(whole: _Declared, step: str) -> _Declared | None:
    match step:
        case "@items" | "@values":
            return whole.values
        case "@keys":
            return whole.keys
    return whole.fields.get(step, whole.any_field)
