"""Tests of policies, with what the command prints of them.

To accept what is printed now: `PYTHONPATH=tests python -m sharing_tests.accept`.
"""

import contextlib
import io
from pathlib import Path
from typing import Final

import pytest

from gpusharing.cli.main import main

HERE: Final = Path(__file__).parent
CASES: Final = sorted((HERE / "cases").glob("*.yaml"))
EXPECTED: Final = HERE / "expected"
FORMATS: Final = {"table": "txt", "json": "json", "junit": "xml"}


def printed(path: Path, output: str) -> str:
    """With the exit code in the last line."""
    stdout = io.StringIO()
    with contextlib.chdir(path.parent), contextlib.redirect_stdout(stdout), pytest.raises(SystemExit) as ended:
        main(["test", "-o", output, path.name])
    return f"{stdout.getvalue()}exit code {ended.value.code}\n"


@pytest.fixture(autouse=True)
def _width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
@pytest.mark.parametrize("output", FORMATS)
def test_it_prints_what_is_expected(path: Path, output: str) -> None:
    assert printed(path, output) == (EXPECTED / f"{path.stem}.{FORMATS[output]}").read_text()


def test_there_are_no_other_expectations() -> None:
    assert {path.name for path in EXPECTED.iterdir()} == {
        f"{path.stem}.{suffix}" for path in CASES for suffix in FORMATS.values()
    }
