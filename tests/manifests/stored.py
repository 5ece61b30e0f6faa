"""The definitions of the first release, and objects with statuses as they were stored under them."""

import json
from pathlib import Path
from typing import Any, Final

FIRST_RELEASE: Final = Path(__file__).parent / "first_release"
STORED: Final = json.loads((FIRST_RELEASE / "stored.json").read_text())["items"]


def has_all_of(found: Any, given: Any) -> bool:
    """Beside defaults."""
    if isinstance(given, dict):
        return all(name in found and has_all_of(found[name], value) for name, value in given.items())
    if isinstance(given, list):
        return len(found) == len(given) and all(map(has_all_of, found, given))
    return bool(found == given)
