"""Examples of a page of documentation: what stands behind `$ ` in console blocks is run, what follows is awaited.

`...` stands for anything, as in doctest. Commands of all blocks run in one shell, as a reader would type them; a
command goes on in lines that begin with `> `.
"""

from __future__ import annotations

import doctest
import itertools
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_END = "end-of-command"
_OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class Example:
    command: str
    output: str

    def allows(self, output: str) -> bool:
        return doctest.OutputChecker().check_output(self.output, output, _OPTIONS)


def examples(page: str) -> Iterator[Example]:
    for block in _BLOCK.findall(page):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            first, *rest = part.splitlines()
            continued = list(itertools.takewhile(lambda line: line.startswith("> "), rest))
            command = "\n".join([first, *(line.removeprefix("> ") for line in continued)])
            yield Example(command, "".join(f"{line}\n" for line in rest[len(continued) :]))


class Shell:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, command: str) -> str:
        """What it writes, also to standard error. Its exit code is in `$?` for the next one."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        # The code is handed on past our own words.
        self._process.stdin.write(f"{command}\ncode=$?; echo {_END}; (exit $code)\n")
        self._process.stdin.flush()
        lines = iter(self._process.stdout.readline, "")
        output: list[str] = []
        for line in lines:
            if line.endswith(f"{_END}\n"):
                return "".join([*output, line.removesuffix(f"{_END}\n")])
            output.append(line)
        raise AssertionError(f"the shell ended with {command!r}: {''.join(output)}")


@contextmanager
def shell(directory: Path) -> Iterator[Shell]:
    with subprocess.Popen(
        ["bash"],
        cwd=directory,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield Shell(process)
        finally:
            process.kill()
