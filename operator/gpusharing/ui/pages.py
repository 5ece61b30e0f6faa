"""Templates, and the words that they need."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from gpusharing.api.names import Sharing
from gpusharing.ui.bars import STYLES
from gpusharing.ui.rows import IDLE, PROBLEM, gib
from gpusharing.ui.viewing import ALL

_HERE: Final = Path(__file__).parent
STATIC: Final = _HERE / "static"
TYPES: Final[Mapping[str, str]] = {
    "ui.css": "text/css; charset=utf-8",
    "ui.js": "text/javascript; charset=utf-8",
    "htmx.min.js": "text/javascript; charset=utf-8",
    "htmx-sse.min.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
"""What may be read of the directory."""
MODES: Final = {
    STYLES[Sharing.EXCLUSIVE]: "Exclusive",
    STYLES[Sharing.TIME_SLICING]: "TimeSlicing",
    STYLES[Sharing.MPS]: "MPS",
    STYLES[Sharing.MIG]: "MIG",
    IDLE: "Idle",
    PROBLEM: "Unhealthy",
}


_ABBREVIATIONS: Final = frozenset({"GPU", "MPS", "MIG"})


class Pages:
    """Used by several threads."""

    def __init__(self, *, root: str, cluster: str) -> None:
        self.root = root
        self._templates = Environment(
            loader=FileSystemLoader(_HERE / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._templates.filters |= {"gib": gib, "clock": _clock, "heading": _heading}
        self._templates.globals |= {
            "root": root,
            "cluster": cluster,
            "titles": {ALL: "All GPUs", **MODES},
            "viewer": None,
        }

    def page(self, template: str, **values: Any) -> bytes:
        return self._templates.get_template(template).render(**values).encode()

    def part(self, name: str, *values: Any, **more: Any) -> str:
        """A macro of parts.html."""
        macro = getattr(self._templates.get_template("parts.html").module, name)
        return str(macro(*values, **more)).strip()


class Viewer(NamedTuple):
    """Who has signed in, where people have to."""

    name: str
    namespace: str
    """Whose objects are shown if those of all may not be read."""
    may_sign_out: bool
    """Otherwise a proxy has signed it in."""


def static(name: str) -> bytes:
    return (STATIC / name).read_bytes()


def _clock(moment: str) -> str:
    """Of 2026-11-20T12:00:00Z."""
    return f"{moment[11:19]} UTC" if len(moment) >= 19 else moment


def _heading(title: str) -> str:
    """Of IN USE AS: In use as. Abbreviations stay."""
    words = [word if word in _ABBREVIATIONS else word.lower() for word in title.split()]
    return " ".join([words[0][:1].upper() + words[0][1:], *words[1:]]) if words else ""
