"""Workflow commands: GitHub shows findings beside the lines of a pull request."""

from collections.abc import Mapping
from typing import Final

from gpusharing.findings.finding import Finding, Severity

_KINDS: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


def command(finding: Finding, place: Mapping[str, str], text: str) -> str:
    """`place`: file, line and col, where they are known."""
    about = {**place, "title": f"{finding.code} {finding.entry.title}"}
    properties = ",".join(f"{name}={_escaped(value, is_property=True)}" for name, value in about.items())
    return f"::{_KINDS[finding.entry.severity]} {properties}::{_escaped(text)}"


def _escaped(value: str, *, is_property: bool = False) -> str:
    value = value.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return value.replace(":", "%3A").replace(",", "%2C") if is_property else value
