"""Findings in files, in the formats of the tools that show them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final
from urllib.parse import quote

from gpusharing import __version__
from gpusharing.findings.finding import Severity
from gpusharing.findings.github import command
from gpusharing.findings.xml import element
from gpusharing.validating.validation import Located, Validation

_OF_SARIF: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"


def to_json(validation: Validation) -> dict[str, Any]:
    return {
        "checked": validation.checked,
        "others": validation.others,
        "findings": [{"file": one.file, **one.mark._asdict(), **one.finding.to_json()} for one in validation.findings],
    }


def github(findings: Iterable[Located]) -> Iterator[str]:
    for one in findings:
        place = {"file": one.file, "line": str(one.mark.line), "col": str(one.mark.column)}
        yield command(one.finding, place, text(one))


def junit(files: Sequence[str], findings: Sequence[Located]) -> str:
    """A test for each file; one with findings has a test for each of them."""
    by_file = {file: list(found) for file, found in groupby(findings, key=lambda one: one.file)}
    cases = [case for file in files for case in _cases(file, by_file.get(file, ()))]
    failures = sum("<failure" in case for case in cases)
    suite = element(
        "testsuite", {"name": "gpusharing validate", "tests": str(len(cases)), "failures": str(failures)}, cases
    )
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{element("testsuites", {}, [suite])}'


def sarif(findings: Sequence[Located]) -> dict[str, Any]:
    entries = {one.finding.code: one.finding.entry for one in findings}
    rules = [
        {
            "id": code,
            "shortDescription": {"text": entry.title},
            "defaultConfiguration": {"level": _OF_SARIF[entry.severity]},
        }
        for code, entry in sorted(entries.items())
    ]
    driver = {"name": "gpusharing", "version": __version__, "rules": rules}
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": [_result(one) for one in findings]}],
    }


def text(one: Located) -> str:
    return f"{one.finding.object}: {one.finding.sentence} {one.finding.remedy}".rstrip()


def _result(one: Located) -> Mapping[str, Any]:
    place = {
        "artifactLocation": {"uri": quote(one.file)},
        "region": {"startLine": one.mark.line, "startColumn": one.mark.column},
    }
    return {
        "ruleId": one.finding.code,
        "level": _OF_SARIF[one.finding.entry.severity],
        "message": {"text": text(one)},
        "locations": [{"physicalLocation": place}],
    }


def _cases(file: str, found: Sequence[Located]) -> Iterator[str]:
    if not found:
        yield element("testcase", {"classname": "validate", "name": file})
    for one in found:
        name = f"{file}:{one.mark.line}:{one.mark.column} {one.finding.code}"
        failure = element("failure", {"type": one.finding.code, "message": one.finding.sentence}, text=text(one))
        is_error = one.finding.entry.severity is Severity.ERROR
        inner = failure if is_error else element("system-out", {}, text=text(one))
        yield element("testcase", {"classname": "validate", "name": name}, [inner])
