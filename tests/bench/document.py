"""Where figures are kept: each command has a place of its own in docs/performance.md."""

from pathlib import Path

DOCUMENT = Path(__file__).parents[2] / "docs" / "performance.md"


def write(command: str, text: str) -> None:
    begin, end = f"<!-- begin: {command} -->", f"<!-- end: {command} -->"
    before, rest = DOCUMENT.read_text().split(begin)
    _, after = rest.split(end)
    DOCUMENT.write_text(f"{before}{begin}\n{text}\n{end}{after}")
