"""What was checked, in the formats of scripts and of the tools that show test results."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from gpusharing.diagnosing.check import Check, State
from gpusharing.findings.finding import Finding, Severity
from gpusharing.findings.printable import printable
from gpusharing.findings.xml import element

_MARKS: Final = {Severity.ERROR: "✗", Severity.WARNING: "!", Severity.INFO: "·"}


def is_well(checks: Iterable[Check], *, strict: bool) -> bool:
    fails = {State.ERROR, State.WARNING} if strict else {State.ERROR}
    return all(check.state not in fails for check in checks)


def summary(checks: Sequence[Check]) -> str:
    """Such as "15 checks: 13 well, 1 warning, 1 not checked"."""
    words = {
        State.WELL: "well",
        State.INFO: "well with a remark",
        State.WARNING: "with a warning",
        State.ERROR: "with an error",
        State.NOT_CHECKED: "not checked",
    }
    counts = [(sum(check.state is state for check in checks), text) for state, text in words.items()]
    return f"{len(checks)} checks: " + ", ".join(f"{count} {text}" for count, text in counts if count)


def to_json(checks: Sequence[Check], *, strict: bool) -> dict[str, Any]:
    return {"well": is_well(checks, strict=strict), "checks": [_check_to_json(check) for check in checks]}


def _check_to_json(check: Check) -> dict[str, Any]:
    return {
        "section": check.section.value,
        "name": check.name,
        "state": check.state.value,
        **({} if check.findings else {"message": check.well}),
        "findings": [finding.to_json() for finding in check.findings],
    }


def short(checks: Iterable[Check]) -> Iterator[str]:
    """A line for each finding, and none for what is well."""
    for check in checks:
        for finding in check.findings:
            sentence = " ".join(printable(finding.sentence).split())
            yield f"{_MARKS[finding.entry.severity]} {finding.code} {sentence}"


def junit(checks: Sequence[Check]) -> str:
    """A test for each check."""
    states = [check.state for check in checks]
    counts = {
        "tests": str(len(checks)),
        "failures": str(states.count(State.ERROR)),
        "skipped": str(states.count(State.NOT_CHECKED)),
    }
    suite = element("testsuite", {"name": "gpusharing doctor", **counts}, [_case(check) for check in checks])
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{element("testsuites", {}, [suite])}'


def _case(check: Check) -> str:
    return element("testcase", {"classname": f"doctor.{check.section}", "name": check.name}, list(_results(check)))


def _results(check: Check) -> Iterator[str]:
    if not check.findings:
        return
    text = "\n".join(_text(finding) for finding in check.findings)
    first = check.findings[0]
    match check.state:
        case State.ERROR:
            yield element("failure", {"type": first.code, "message": first.sentence}, text=text)
        case State.NOT_CHECKED:
            yield element("skipped", {"message": first.sentence})
        case _:
            yield element("system-out", {}, text=text)


def _text(finding: Finding) -> str:
    return f"{finding.code} {finding.sentence} {finding.remedy} ({finding.docs})"
