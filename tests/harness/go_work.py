"""How much a build by Go has to do, and how much of it is done: from what `go list`, `go build -v` and go.sum say."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

LISTED: Final = '{{.ImportPath}}\t{{.Stale}}\t{{.StaleReason}}\t{{.Dir}}\t{{join .GoFiles " "}}'
"""What `go list` is to say of each package, for `uncompiled`."""

# Go calls every program stale that is not installed, also one whose code it has.
_CACHED: Final = "not installed but available in build cache"
# To link a program takes about as long as to compile so many bytes.
_LINK: Final = 1_500_000
# How long a rate of before counts as much as what was seen since.
_TRUST_SECONDS: Final = 60.0


def uncompiled(listing: str) -> dict[str, list[Path]]:
    """The packages that are to be compiled, with their files."""
    found = {}
    for line in listing.splitlines():
        path, stale, reason, directory, files = line.split("\t")
        if stale == "true" and reason != _CACHED:
            found[path] = [Path(directory, file) for file in files.split()]
    return found


def module_archives(go_sum: str) -> list[str]:
    """Where Go keeps the modules that a build may need, below its cache of modules."""
    archives = []
    for line in go_sum.splitlines():
        path, version, _ = line.split()
        if not version.endswith("/go.mod"):
            archives.append(f"cache/download/{_escaped(path)}/@v/{_escaped(version)}.zip")
    return archives


def _escaped(name: str) -> str:
    return "".join(f"!{letter.lower()}" if letter.isupper() else letter for letter in name)


def downloads(lines: Iterable[str]) -> int:
    """How many modules Go began to fetch."""
    return sum(line.startswith("go: downloading ") for line in lines)


@dataclass
class Work:
    sizes: Mapping[str, int]
    """Of the packages that are to be compiled."""
    programs: int
    """That are to be linked."""

    _begun: set[str] = field(default_factory=set)
    _linked: int = 0

    @property
    def packages(self) -> int:
        return len(self.sizes)

    @property
    def packages_done(self) -> int:
        return len(self._begun)

    @property
    def done(self) -> int:
        return sum(self.sizes[path] for path in self._begun) + self._linked * _LINK

    @property
    def left(self) -> int:
        return sum(self.sizes.values()) + self.programs * _LINK - self.done

    def note(self, lines: Iterable[str]) -> None:
        """Of `go build -v`, which names each package as it begins to compile it."""
        self._begun.update(line for line in lines if line in self.sizes)

    def note_linked(self) -> None:
        self._linked += 1


def seconds_left(work: Work, *, elapsed: float, expected_rate: float) -> float:
    """`expected_rate`: bytes in a second. The longer it takes, the more what was seen counts."""
    rate = (expected_rate * _TRUST_SECONDS + work.done) / (_TRUST_SECONDS + elapsed)
    return work.left / rate
