"""Pages that show commands: what they print is what the pages say.

A YAML block after a line such as "`claim.yaml`:" is a file; in a console block, the lines after `$ ` are the output.
`python tests/test_command_documents.py` writes the outputs of now into the pages.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import pytest

DOCS: Final = Path(__file__).parent.parent / "docs"
PAGES: Final = ("convert.md", "export.md", "forecast.md", "migrate.md", "test.md")
_FILE: Final = re.compile(r"^`([\w./-]+)`[^\n]*:\n\n```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CONSOLE: Final = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run(command: str, directory: Path) -> str:
    """What a person sees."""
    name, *arguments = shlex.split(command)
    assert name == "gpusharing"
    done = subprocess.run(
        [sys.executable, "-m", "gpusharing", *arguments],
        cwd=directory,
        env=os.environ | {"COLUMNS": "100"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


def with_outputs(page: str) -> str:
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        for name, content in _FILE.findall(page):
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)

        def shown(block: re.Match[str]) -> str:
            commands = [line for line in block[1].splitlines() if line.startswith("$ ")]
            return "```console\n" + "".join(f"{line}\n{run(line[2:], directory)}" for line in commands) + "```"

        return _CONSOLE.sub(shown, page)


@pytest.mark.parametrize("name", PAGES)
def test_commands_print_what_the_page_says(name: str) -> None:
    page = (DOCS / name).read_text()
    assert len(_CONSOLE.findall(page)) > 0
    assert with_outputs(page) == page


if __name__ == "__main__":
    for page_name in PAGES:
        path_of_page = DOCS / page_name
        path_of_page.write_text(with_outputs(path_of_page.read_text()))
