"""What is built of a directory with a go.mod."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


class ToolchainError(Exception):
    pass


@dataclass(frozen=True)
class GoModule:
    """A directory with a go.mod, and what is built from it."""

    directory: Path
    packages: Mapping[str, str]  # by the program's name
    version_of: str  # the module whose version the programs report
    version_variables: Mapping[str, str]  # Go variables; the values are templates
    tags: str = ""
    sources: Path | None = None  # our own Go
    cgo: bool = False  # has C, and calls functions of libraries that it only loads when it runs

    def flags(self) -> list[str]:
        version = self.version()
        major, minor, _ = version.removeprefix("v").split(".", 2)
        variables = " ".join(
            f"-X {variable}={template.format(version=version, major=major, minor=minor)}"
            for variable, template in self.version_variables.items()
        )
        linker = " -extldflags=-Wl,-z,lazy" if self.cgo else ""
        return ["-trimpath", "-tags", self.tags, "-ldflags", f"-s -w {variables}{linker}"]

    def go_version(self) -> tuple[int, ...]:
        return numbers(_found_in(self.directory, r"^go (\S+)$"))

    def version(self) -> str:
        return version_in(self.directory, self.version_of)


def version_in(directory: Path, path: str) -> str:
    return _found_in(directory, rf"^(?:require|\t)\s*{re.escape(path)} (\S+)(?: // indirect)?$")


def _found_in(directory: Path, pattern: str) -> str:
    found = re.search(pattern, (directory / "go.mod").read_text(), re.MULTILINE)
    if found is None:
        raise ToolchainError(f"{directory}/go.mod has nothing like {pattern}")
    return found[1]


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])
