"""Results as data, and for programs that show tests."""

from collections.abc import Iterator, Sequence
from typing import Any

from gpusharing.core.text import listed
from gpusharing.findings.xml import element
from gpusharing.sharing_tests.comparing import Difference
from gpusharing.sharing_tests.running import Check, Result


def to_json(results: Sequence[Result]) -> dict[str, Any]:
    return {
        "asExpected": all(one.is_as_expected for one in results),
        "tests": [
            {
                "name": one.name,
                "file": one.file,
                "asExpected": one.is_as_expected,
                "checks": [_check(check) for check in one.checks],
                "findings": [finding.to_json() for finding in one.findings],
            }
            for one in results
        ],
    }


def junit(results: Sequence[Result]) -> str:
    """A suite for each test, a case for each of its expectations."""
    suites = [_suite(one) for one in results]
    tests = sum(len(one.checks) for one in results)
    failures = sum(bool(check.differences) for one in results for check in one.checks)
    attributes = {"name": "gpusharing test", "tests": str(tests), "failures": str(failures)}
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{element("testsuites", attributes, suites)}'


def pods_in_words(difference: Difference) -> str:
    return f"{'pod' if len(difference.pods) == 1 else 'pods'} {listed(difference.pods)}" if difference.pods else ""


def in_words(difference: Difference) -> Iterator[str]:
    pods = f"{pods_in_words(difference)}: " if difference.pods else ""
    yield f"{pods}expected {difference.expected}, found {difference.found}"
    for finding in difference.findings:
        yield f"{finding.code} {finding.sentence} {finding.remedy}".rstrip()


def _check(check: Check) -> dict[str, Any]:
    return {
        "name": check.name,
        **check.mark._asdict(),
        "asExpected": not check.differences,
        "differences": [
            {
                **({"pods": list(one.pods)} if one.pods else {}),
                "expected": one.expected,
                "found": one.found,
                "findings": [finding.to_json() for finding in one.findings],
            }
            for one in check.differences
        ],
    }


def _suite(result: Result) -> str:
    cases = [_case(number, check, result) for number, check in enumerate(result.checks, start=1)]
    failures = sum(bool(check.differences) for check in result.checks)
    attributes = {
        "name": result.name,
        "file": result.file,
        "tests": str(len(cases)),
        "failures": str(failures),
    }
    return element("testsuite", attributes, cases)


def _case(number: int, check: Check, result: Result) -> str:
    attributes = {
        "classname": result.name,
        "name": f"{number}. {check.name}",
        "file": result.file,
        "line": str(check.mark.line),
    }
    if not check.differences:
        return element("testcase", attributes)
    first = check.differences[0]
    text = "\n".join(line for one in check.differences for line in in_words(one))
    message = f"expected {first.expected}, found {first.found}"
    return element("testcase", attributes, [element("failure", {"type": "difference", "message": message}, text=text)])
