"""JUnit reports have the shape that the readers of them expect, whatever the texts are."""

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Final

import pytest

from gpusharing.sharing_tests import reports
from gpusharing.sharing_tests.comparing import Difference
from gpusharing.sharing_tests.running import Check, Result
from gpusharing.validating.reading import Mark

REPORTS: Final = sorted((Path(__file__).parent / "expected").glob("*.xml"))

# As the schema that Jenkins publishes for its plugin: elements with their attributes, and what may be in them.
ATTRIBUTES: Final = {
    "testsuites": ({"name", "tests", "failures"}, set[str]()),
    "testsuite": ({"name", "tests", "failures"}, {"file"}),
    "testcase": ({"name", "classname"}, {"file", "line"}),
    "failure": ({"type", "message"}, set[str]()),
}
INSIDE: Final = {
    "testsuites": {"testsuite"},
    "testsuite": {"testcase"},
    "testcase": {"failure"},
    "failure": set[str](),
}


def check_shape(text: str) -> None:
    root = ET.fromstring(text)  # noqa: S314 (our own)
    assert root.tag == "testsuites"
    for element in root.iter():
        required, allowed = ATTRIBUTES[element.tag]
        assert required <= element.attrib.keys() <= required | allowed
        assert {child.tag for child in element} <= INSIDE[element.tag]
    for counted in (root, *root):
        cases = list(counted.iter("testcase"))
        assert int(counted.attrib["tests"]) == len(cases)
        assert int(counted.attrib["failures"]) == sum(case.find("failure") is not None for case in cases)
    for suite in root:
        names = [case.attrib["name"] for case in suite]
        assert len(set(names)) == len(names)


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.stem)
def test_reports_of_cases(path: Path) -> None:
    text, _, code = path.read_text().rpartition("exit code")
    check_shape(text)
    assert ("<failure" in text) == (code.strip() == "1")


@pytest.mark.parametrize("text", ["]]>", "<failure>", "\x00\x1b[31m", "\ud800", "a\nb", "&amp;", '"'])
def test_no_text_breaks_a_report(text: str) -> None:
    difference = Difference(expected=text, found=text, pods=(text,))
    check = Check(name=text, mark=Mark(1, 1), differences=(difference,))
    check_shape(reports.junit([Result(name=text, file=text, checks=(check, check))]))


def test_a_report_of_nothing() -> None:
    check_shape(reports.junit([]))
