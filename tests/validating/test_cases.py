"""Files of manifests, of which each line says which findings it has."""

import re
from collections import Counter
from pathlib import Path

import pytest

from gpusharing.findings import validating
from gpusharing.validating.validation import Source, validate

CASES = sorted((Path(__file__).parent / "cases").glob("*.yaml"))
FINDING = re.compile(r"GSH\d{4}")


def expected(text: str) -> Counter[tuple[int, str]]:
    """By line and code: those after the mark of a comment."""
    found: Counter[tuple[int, str]] = Counter()
    for number, line in enumerate(text.splitlines(), start=1):
        _, _, comment = line.partition(" # ")
        found.update((number, code) for code in FINDING.findall(comment))
    return found


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_each_finding_is_at_its_line(path: Path) -> None:
    text = path.read_text()
    found = validate([Source(path.name, text.encode())]).findings
    shown = "\n".join(f"{one.mark.line}: {one.finding.code} {one.finding.sentence}" for one in found)
    wanted = expected(text)
    got = Counter((one.mark.line, one.finding.code) for one in found)
    assert got.keys() == wanted.keys(), f"missing {wanted - got}, not expected {got - wanted}\n{shown}"


def test_there_is_a_case_of_each_finding() -> None:
    codes = {code for path in CASES for _, code in expected(path.read_text())}
    assert codes == {entry.code for entry in validating.ENTRIES}
