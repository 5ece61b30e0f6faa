"""docs/images/concepts-modes.svg: one GPU, from idle over a first claim to idle again."""

from collections.abc import Iterator, Mapping
from typing import Final

from pictures.svg import Arrow, Box, Picture, Words

_WIDTH: Final = 232
_LEFT: Final = (16, 314, 612)
_TOP: Final = 52
_ROW: Final = 52
_INNER: Final = _WIDTH - 24
# Parts of a GPU that each mode offers, in hundredths.
_PARTS: Final[Mapping[str, tuple[int, ...]]] = {
    "Exclusive": (100,),
    "TimeSlicing": (25, 25, 25, 25),
    "MPS": (25, 25, 25, 25),
    "MIG": (50, 25, 25),
}
_CLAIMED: Final = "MPS"


def _gpu(left: float, title: str, claims: int) -> Iterator[Box | Words]:
    """`claims`: on shares by MPS."""
    yield Words(left + _WIDTH / 2, _TOP - 16, title, "title", "middle")
    yield Box(x=left, y=_TOP, width=_WIDTH, height=4 * _ROW + 16, kind="area")
    for row, (mode, parts) in enumerate(_PARTS.items()):
        top = _TOP + 10 + row * _ROW
        is_withdrawn = claims > 0 and mode != _CLAIMED
        state = " - withdrawn" if is_withdrawn else f" - {claims} of {len(parts)} taken" if claims else ""
        yield Words(left + 12, top + 12, mode + state, "faint small" if is_withdrawn else "small")
        x = left + 12.0
        for number, part in enumerate(parts):
            width = _INNER * part / 100
            taken = mode == _CLAIMED and number < claims
            kind = "withdrawn" if is_withdrawn else "taken" if taken else "free"
            words = (f"claim {number + 1}",) if taken else ()
            yield Box(x=x + 1, y=top + 18, width=width - 2, height=24, kind=kind, words=words, look="on-taken claim")
            x += width


_BOTTOM: Final = _TOP + 4 * _ROW + 16
_MIDDLE: Final = _TOP + 2 * _ROW + 8

PICTURE: Final = Picture(
    title="One GPU, four modes",
    description=(
        "While the GPU is idle, it is offered in all modes of its policy: whole, by time-slicing, by MPS and as MIG "
        "instances. The first claim takes a share by MPS. From then on only shares by MPS are offered, and more claims "
        "take them. When the last claim is released, all modes are offered again."
    ),
    width=860,
    height=_BOTTOM + 62,
    parts=[
        *_gpu(_LEFT[0], "Idle: all modes are offered", 0),
        *_gpu(_LEFT[1], "The first claim decides", 1),
        *_gpu(_LEFT[2], "More claims share", 3),
        Arrow(((_LEFT[0] + _WIDTH + 6, _MIDDLE), (_LEFT[1] - 6, _MIDDLE))),
        Words((_LEFT[0] + _WIDTH + _LEFT[1]) / 2, _MIDDLE - 10, "a claim", "small", "middle"),
        Arrow(((_LEFT[1] + _WIDTH + 6, _MIDDLE), (_LEFT[2] - 6, _MIDDLE))),
        Words((_LEFT[1] + _WIDTH + _LEFT[2]) / 2, _MIDDLE - 10, "claims", "small", "middle"),
        Arrow(
            (
                (_LEFT[2] + _WIDTH / 2, _BOTTOM + 6),
                (_LEFT[2] + _WIDTH / 2, _BOTTOM + 30),
                (_LEFT[0] + _WIDTH / 2, _BOTTOM + 30),
                (_LEFT[0] + _WIDTH / 2, _BOTTOM + 8),
            )
        ),
        Words(430, _BOTTOM + 48, "the last claim is released: all modes are offered again", "small", "middle"),
    ],
)
