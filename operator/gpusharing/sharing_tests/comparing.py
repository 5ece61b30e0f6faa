"""Whether what became of a pod is what a test expects, and both in words."""

from collections.abc import Iterable
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
    pods: tuple[str, ...] = ()
    """Of which this is true, as namespace/name."""


def differences(expected: Expectation, observed: Iterable[tuple[str, Observed]]) -> list[Difference]:
    """`observed`: pods. Those with the same difference are told together."""
    found: dict[tuple[str, ...], Difference] = {}
    for pod, one in observed:
        if _is_expected(expected, one):
            continue
        key = (_found_in_words(one), *(finding.sentence for finding in one.findings))
        known = found.setdefault(key, Difference(expected_in_words(expected), key[0], one.findings))
        found[key] = known._replace(pods=(*known.pods, pod))
    return list(found.values())


def _is_expected(expected: Expectation, observed: Observed) -> bool:
    return (
        observed.outcome is expected.outcome
        and (expected.because is None or _is_said(expected.because, observed))
        and (expected.mode is None or set(observed.modes) == {expected.mode})
        and (expected.policy is None or set(observed.policies) == {expected.policy})
        and (expected.node is None or observed.node == expected.node)
    )


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
