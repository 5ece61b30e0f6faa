"""The table of findings: its codes, its templates, and what suppresses a finding."""

import re

import pytest

from gpusharing.api import names
from gpusharing.findings import document
from gpusharing.findings.finding import Entry, Finding, Reference, ignored_by, without_ignored
from gpusharing.findings.table import AREAS, TABLE

LONGEST = 200
POD = Reference("Pod", "train-7", "ml")


def some_finding(entry: Entry, object_: Reference = POD) -> Finding:
    return entry.found(object_, **dict.fromkeys(entry.fields, "something"))


def test_each_code_stands_once_and_in_its_area() -> None:
    assert sum(len(area.entries) for area in AREAS) == len(TABLE)
    for area in AREAS:
        for entry in area.entries:
            assert re.fullmatch(rf"GSH{area.number:02}\d\d", entry.code)


@pytest.mark.parametrize("entry", TABLE.values(), ids=TABLE)
def test_templates_are_short_sentences_with_named_fields(entry: Entry) -> None:
    assert all(field.isidentifier() for field in entry.fields)
    for text in (entry.sentence, entry.remedy):
        assert len(text) <= LONGEST
        assert text == "" or text.endswith((".", "}"))
    assert not entry.title.endswith(".")


@pytest.mark.parametrize("entry", TABLE.values(), ids=TABLE)
def test_a_finding_has_its_place_in_the_page(entry: Entry) -> None:
    finding = some_finding(entry)
    assert f"### {entry.code}\n" in document.page()
    assert finding.docs == f"docs/findings.md#{entry.code.lower()}"
    assert not re.search(r"\{\w*\}", finding.sentence + finding.remedy)


def test_a_finding_without_a_value_is_a_mistake_of_ours() -> None:
    entry = next(entry for entry in TABLE.values() if entry.fields)
    with pytest.raises(ValueError, match=f"{entry.code} without {min(entry.fields)}"):
        entry.found(POD)


def test_as_json() -> None:
    entry = next(iter(TABLE.values()))
    value = some_finding(entry).to_json()
    assert value["object"] == {"kind": "Pod", "name": "train-7", "namespace": "ml"}
    assert (value["code"], value["severity"]) == (entry.code, entry.severity.value)


@pytest.mark.parametrize(
    ("annotation", "codes"),
    [("GSH0101", {"GSH0101"}), (" gsh0101 , GSH0102,", {"GSH0101", "GSH0102"}), ("", set()), (",,", set())],
)
def test_an_annotation_lists_codes(annotation: str, codes: set[str]) -> None:
    assert ignored_by({names.IGNORED_FINDINGS: annotation}) == codes


def test_findings_are_suppressed_by_flag_and_by_their_own_object_only() -> None:
    first, second = list(TABLE.values())[:2]
    other = Reference("Pod", "other", "ml")
    findings = [some_finding(entry, about) for entry in (first, second) for about in (POD, other)]
    assert without_ignored(findings, codes=[first.code], annotations={}) == findings[2:]
    annotations = {POD: {names.IGNORED_FINDINGS: second.code}}
    assert without_ignored(findings, annotations=annotations) == [findings[0], findings[1], findings[3]]
