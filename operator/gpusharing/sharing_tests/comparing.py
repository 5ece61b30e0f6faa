"""Whether what became of a pod is what a test expects, and both in words."""

from typing import NamedTuple

from gpusharing.core.text import listed
from gpusharing.findings.finding import Finding
from gpusharing.sharing_tests.form import Expectation, Outcome
from gpusharing.sharing_tests.observing import Observed


class Difference(NamedTuple):
    expected: str
    found: str
    findings: tuple[Finding, ...] = ()
    """Why it is so."""
    pod: str = ""


def difference(expected: Expectation, observed: Observed) -> Difference | None:
    is_same = (
        observed.outcome is expected.outcome
        and (expected.because is None or _is_said(expected.because, observed))
        and (expected.mode is None or set(observed.modes) == {expected.mode})
        and (expected.policy is None or set(observed.policies) == {expected.policy})
        and (expected.node is None or observed.node == expected.node)
    )
    if is_same:
        return None
    return Difference(expected_in_words(expected), _found_in_words(observed), observed.findings)


def expected_in_words(expected: Expectation) -> str:
    parts = [expected.outcome.value]
    if expected.mode is not None:
        parts.append(f"in mode {expected.mode}")
    if expected.policy is not None:
        parts.append(f"by policy {expected.policy}" if expected.policy else "by no policy")
    if expected.node is not None:
        parts.append(f"on {expected.node}")
    if expected.because is not None:
        parts.append(f"because of {expected.because}")
    return " ".join(parts)


def _found_in_words(observed: Observed) -> str:
    parts = [observed.outcome.value]
    if observed.outcome is Outcome.FITS:
        if observed.modes:
            parts.append(f"in mode {listed(observed.modes)}")
        if observed.policies:
            parts.append(f"by {listed([f'policy {name}' if name else 'no policy' for name in observed.policies])}")
        parts.append(f"on {observed.node} ({listed(observed.devices)})")
    elif observed.findings:
        parts.append(f"because of {listed([one.code for one in observed.findings])}")
    return " ".join(parts)


def _is_said(because: str, observed: Observed) -> bool:
    """A code, or some of the words."""
    words = because.casefold()
    return any(
        one.code.casefold() == words or words in f"{one.entry.title}. {one.sentence} {one.remedy}".casefold()
        for one in observed.findings
    )
