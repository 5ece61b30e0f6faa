"""Inputs as people have them, with what becomes of them: the manifests, and what is said.

To accept what is printed now: `python -m converting.accept`.
"""

from pathlib import Path
from typing import Final

import pytest

from gpusharing.converting.conversion import File, convert
from gpusharing.findings.finding import Finding

INPUTS: Final = sorted((Path(__file__).parent / "inputs").iterdir())
EXPECTED: Final = Path(__file__).parent / "expected"


def read(path: Path) -> str:
    """With its line ends as they are."""
    return path.read_bytes().decode()


def converted(path: Path) -> tuple[str, str]:
    """The manifests, and the remarks as lines."""
    conversion = convert([File(path.name, read(path))])
    return conversion.files[0].text, "".join(line(remark.finding) for remark in conversion.remarks)


def line(finding: Finding) -> str:
    remedy = f" → {finding.remedy}" if finding.remedy else ""
    return f"{finding.entry.severity.value} {finding.object.name}: {finding.sentence}{remedy}\n"


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: path.name)
def test_it_becomes_what_is_expected(path: Path) -> None:
    text, remarks = converted(path)
    assert text == read(EXPECTED / path.name)
    assert remarks == read(EXPECTED / f"{path.name}.remarks")


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: path.name)
def test_what_was_converted_does_not_change(path: Path) -> None:
    text, _ = converted(path)
    assert convert([File(path.name, text)]).files == (File(path.name, text),)


def test_there_are_no_other_expectations() -> None:
    names = {path.name for path in INPUTS}
    assert {path.name for path in EXPECTED.iterdir()} == names | {f"{name}.remarks" for name in names}
    assert len(names) >= 40


def test_all_inputs_together_become_the_same_manifests() -> None:
    """But only one policy can have an extended resource, and a ClusterPolicy says something of all MIG layouts."""
    together = convert([File(path.name, read(path)) for path in INPUTS])
    alone = {path.name: converted(path)[0] for path in INPUTS}
    different = [file.name for file in together.files if file.text != alone[file.name]]
    assert different == ["mig-parted.yaml", "time-slicing-of-nodes.yaml"]
