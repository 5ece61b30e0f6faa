"""docs/simulation.md: its examples do what they say, and it has one for everything."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpusharing import sim
from gpusharing.sim import faults
from sim import console
from sim.console import Example
from sim.mps_daemons import kill_programs_of

PAGE = (Path(__file__).parents[2] / "docs/simulation.md").read_text()


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "reader"
    path.mkdir()
    yield path
    kill_programs_of(sim.SimNode.open(path / "node"))


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a reader has installed."""
    directory = tmp_path / "bin"
    directory.mkdir()
    for name, arguments in (("gpusharing", ["-m", "gpusharing"]), ("python3", [])):
        program = directory / name
        program.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, *arguments])} "$@"\n')
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(directory), prepend=":")


@pytest.mark.slow
@pytest.mark.usefixtures("root", "programs")
def test_examples(directory: Path) -> None:
    with console.shell(directory) as shell:
        for example in console.examples(PAGE):
            output = shell.run(example.command)
            assert example.allows(output), f"$ {example.command}\n{output}"


def test_every_fault_has_an_example() -> None:
    commands = "\n".join(example.command for example in console.examples(PAGE))
    assert set(re.findall(r"sim inject node ([\w-]+)", commands)) == set(faults.FAULTS)


def test_models_and_programs_are_named() -> None:
    models = re.search(r"^Models: ([^.]*)\.", PAGE, re.MULTILINE)
    assert models is not None
    assert models[1].split(", ") == list(sim.MODELS)


class TestConsole:
    """The reader of examples itself."""

    PAGE = """
```console
$ echo one; echo two
one
...
$ cat <<EOF
> inner
> EOF
inner
```

```sh
$ not this
```
"""

    def test_examples(self) -> None:
        assert list(console.examples(self.PAGE)) == [
            Example("echo one; echo two", "one\n...\n"),
            Example("cat <<EOF\ninner\nEOF", "inner\n"),
        ]

    @pytest.mark.parametrize(
        ("expected", "output", "allowed"),
        [
            ("", "", True),
            ("", "something\n", False),
            ("one\n", "one\n", True),
            ("one\n", "two\n", False),
            ("pid ...\n", "pid 12\n", True),
            ("one\n", "one\ntwo\n", False),
        ],
    )
    def test_comparison(self, expected: str, output: str, *, allowed: bool) -> None:
        assert Example("", expected).allows(output) == allowed

    def test_shell(self, tmp_path: Path) -> None:
        with console.shell(tmp_path) as shell:
            assert shell.run("x=1; pwd") == f"{tmp_path}\n"
            assert shell.run("echo $x; echo error >&2; false") == "1\nerror\n"
            assert shell.run("echo $?; printf partial") == "1\npartial"
