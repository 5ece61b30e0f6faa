"""Versions after semver.org, as Kubernetes reads and orders them."""

import re
from typing import Final, TypeAlias

from gpusharing.cel.errors import BudgetError, EvaluationError
from gpusharing.cel.values.bounds import check_numeral
from gpusharing.cel.values.quoting import excerpt

_IDENTIFIER: Final = re.compile(r"[0-9A-Za-z-]+")
_DIGITS: Final = re.compile(r"[0-9]*")
_LARGEST: Final = (1 << 64) - 1

# A number stands before any name, and names are in the order of their ASCII characters.
_PreRelease: TypeAlias = tuple[int, int, str]
_Order: TypeAlias = tuple[int, int, int, bool, tuple[_PreRelease, ...]]


class Semver:
    """Immutable. Build metadata has no part in any comparison."""

    __slots__ = ("build", "order")

    def __init__(self, major: int, minor: int, patch: int, pre_release: tuple[_PreRelease, ...], build: str) -> None:
        self.order: _Order = (major, minor, patch, not pre_release, pre_release)
        self.build = build

    def __str__(self) -> str:
        major, minor, patch, _, pre_release = self.order
        identifiers = ".".join(name if is_name else str(number) for is_name, number, name in pre_release)
        text = f"{major}.{minor}.{patch}"
        if identifiers:
            text += f"-{identifiers}"
        return f"{text}+{self.build}" if self.build else text

    @property
    def major(self) -> int:
        return _int64(self.order[0])

    @property
    def minor(self) -> int:
        return _int64(self.order[1])

    @property
    def patch(self) -> int:
        return _int64(self.order[2])

    def compare(self, other: "Semver") -> int:
        """-1, 0 or 1."""
        mine, its = self.order, other.order
        return (mine > its) - (mine < its)

    def is_greater(self, other: "Semver") -> bool:
        return self.order > other.order

    def is_less(self, other: "Semver") -> bool:
        return self.order < other.order

    def equals(self, other: "Semver") -> bool:
        return self.order == other.order


def is_semver(text: str, *, normalize: bool = False) -> bool:
    try:
        parse(text, normalize=normalize)
    except BudgetError:
        raise
    except EvaluationError:
        return False
    return True


def parse(text: str, *, normalize: bool = False) -> Semver:
    """`normalize` allows a leading v, leading zeros, and to leave out minor and patch."""
    check_numeral(text)
    if normalize:
        text = _normalized(text)
    if not text:
        raise EvaluationError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise EvaluationError("No Major.Minor.Patch elements found")
    major = _number(parts[0], "Major number")
    minor = _number(parts[1], "Minor number")
    rest, has_build, build = parts[2].partition("+")
    rest, has_pre_release, pre_release = rest.partition("-")
    patch = _number(rest, "Patch number")
    identifiers = tuple(map(_pre_release, pre_release.split("."))) if has_pre_release else ()
    if has_build:
        _check_build(build)
    return Semver(major, minor, patch, identifiers, build)


def _normalized(text: str) -> str:
    parts = [_without_leading_zeros(part) for part in text.removeprefix("v").split(".", 2)]
    if len(parts) < 3:
        if "+" in parts[-1] or "-" in parts[-1]:
            raise EvaluationError("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)


def _without_leading_zeros(part: str) -> str:
    if len(part) <= 1:
        return part
    stripped = part.lstrip("0")
    return stripped if stripped and stripped[0] in "0123456789" else "0" + stripped


def _number(text: str, what: str) -> int:
    if not _DIGITS.fullmatch(text):
        raise EvaluationError(f"Invalid character(s) found in {what.lower()} {excerpt(text)}")
    if len(text) > 1 and text[0] == "0":
        raise EvaluationError(f"{what} must not contain leading zeroes {excerpt(text)}")
    if not text:
        raise EvaluationError(f"{what} is empty")
    if len(text) > 20 or (number := int(text)) > _LARGEST:
        raise EvaluationError(f"{what} is out of range: {excerpt(text)}")
    return number


def _pre_release(text: str) -> _PreRelease:
    if text and _DIGITS.fullmatch(text):
        return 0, _number(text, "Numeric PreRelease version"), ""
    if not _IDENTIFIER.fullmatch(text):
        raise EvaluationError(
            f"Invalid character(s) found in prerelease {excerpt(text)}" if text else "Prerelease is empty"
        )
    return 1, 0, text


def _check_build(build: str) -> None:
    for text in build.split("."):
        if not text:
            raise EvaluationError("Build meta data is empty")
        if not _IDENTIFIER.fullmatch(text):
            raise EvaluationError(f"Invalid character(s) found in build meta data {excerpt(text)}")


def _int64(number: int) -> int:
    """Kubernetes hands out unsigned numbers as CEL's signed ones."""
    return number if number < 1 << 63 else number - (1 << 64)
