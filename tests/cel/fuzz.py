"""`make fuzz-cel`: compares our CEL with kube-scheduler's on random selectors and devices, and shrinks what differs.

A pre-release of Kubernetes is asked as well. What it does in another way is no mistake of ours yet, so it is only told.
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice, zip_longest

from cel.comparison import OVER_OUR_LIMIT, Comparison, difference
from cel.generator.cases import Case, case, costly_case, is_told, telling_case
from cel.generator.text import Piece
from cel.oracle_process import Device, Kubernetes, Verdict
from cel.shrinking import shrink
from harness.shares import each_by_itself, shares
from harness.toolchain import next_kubernetes

_RELEASES: Mapping[Kubernetes, int] = {37: 1, 36: 4}
"""Every which case is compared with each."""
_PRE_RELEASE: Mapping[Kubernetes, int] = {"next": 4}

_EVERY_COSTLY = 1_000  # they take a second each
_TELLING = (1, 2)  # of five
_EVERY_MEASURED = 4  # of the batches
_BATCH = 500
_SHARE = 5_000
_MOST_SHRUNK = 20


@dataclass(frozen=True, slots=True)
class Difference:
    seed: int
    number: int
    kubernetes: Kubernetes
    what: str
    tree: Piece
    device: Device
    ours: Verdict
    theirs: Verdict

    def __str__(self) -> str:
        return (
            f"{self.what} (Kubernetes {_named(self.kubernetes)}, seed {self.seed}, case {self.number})\n"
            f"  {self.tree}\n  on {json.dumps(self.device)}\n  Kubernetes: {self.theirs}\n  ours:       {self.ours}"
        )


@dataclass(slots=True)
class Findings:
    outcomes: Counter[str] = field(default_factory=Counter)
    """Of Kubernetes."""
    unsettled: int = 0
    """Evaluations on which Kubernetes disagrees with itself."""
    over_our_limit: int = 0
    differences: list[Difference] = field(default_factory=list)

    def add(self, other: "Findings") -> None:
        self.outcomes += other.outcomes
        self.unsettled += other.unsettled
        self.over_our_limit += other.over_our_limit
        self.differences += other.differences


def _named(kubernetes: Kubernetes) -> str:
    return next_kubernetes() if kubernetes == "next" else f"1.{kubernetes}"


def fuzz(seed: int, count: int, versions: Mapping[Kubernetes, int] = _RELEASES) -> Findings:
    findings = Findings()
    for found in each_by_itself(partial(_compare_share, versions, seed), shares(count, size=_SHARE)):
        findings.add(found)
    return findings


def _compare_share(versions: Mapping[Kubernetes, int], seed: int, numbers: range) -> Findings:
    findings = Findings()
    for kubernetes, every in versions.items():
        with Comparison(kubernetes) as comparison:
            some = [number for number in numbers if number % every == 0]
            for start in range(0, len(some), _BATCH):
                measured = start % (_EVERY_MEASURED * _BATCH) == 0
                _compare(comparison, seed, some[start : start + _BATCH], findings, measured=measured)
    return findings


def _compare(comparison: Comparison, seed: int, numbers: Sequence[int], findings: Findings, *, measured: bool) -> None:
    cases = list(_cases(comparison, seed, numbers))
    pairs = comparison.verdicts([(str(each.tree), each.devices) for each in cases], measured=measured)
    suspects = []
    for number, each, verdicts in zip(numbers, cases, pairs, strict=True):
        told: set[str] = set()
        for device, (ours, theirs) in zip(each.devices, verdicts, strict=True):
            findings.outcomes[theirs.outcome] += 1
            findings.over_our_limit += ours.outcome == OVER_OUR_LIMIT
            if (what := difference(ours, theirs)) and what not in told:
                told.add(what)
                suspects.append(Difference(seed, number, comparison.kubernetes, what, each.tree, device, ours, theirs))
    for suspect in suspects:
        if comparison.is_settled(str(suspect.tree), suspect.device):
            findings.differences.append(suspect)
        else:
            findings.unsettled += 1


def _cases(comparison: Comparison, seed: int, numbers: Sequence[int]) -> Iterator[Case]:
    telling = {number: telling_case(seed, number) for number in numbers if number % 5 in _TELLING}
    values = comparison.values([(str(each.tree), each.devices) for each in telling.values()])
    for number in numbers:
        if number in telling:
            (value,) = next(values)
            yield is_told(telling[number], value or "")
        elif number % _EVERY_COSTLY == 0:
            yield costly_case(seed, number, comparison.price)
        else:
            yield case(seed, number)


def report(findings: Findings) -> str:
    """How many differences there are of each sort, and some of each, shrunk."""
    by_sort: dict[str, list[Difference]] = {}
    for found in findings.differences:
        by_sort.setdefault(f"{found.what} ({_named(found.kubernetes)})", []).append(found)
    counts = [f"{len(found)} x {sort}" for sort, found in by_sort.items()]
    in_turns = (found for one_of_each in zip_longest(*by_sort.values()) for found in one_of_each if found)
    examples = (_shrunk(found) for found in islice(in_turns, _MOST_SHRUNK))
    unlike = {(example.what, example.kubernetes, str(example.tree)): str(example) for example in examples}
    return "\n".join((*counts, *unlike.values()))


def _shrunk(found: Difference) -> Difference:
    with Comparison(found.kubernetes) as comparison:

        def verdicts(expression: str, device: Device) -> tuple[Verdict, Verdict]:
            ((pair,),) = comparison.verdicts([(expression, [device])])
            return pair

        def still_differs(expression: str, device: Device) -> bool:
            return difference(*verdicts(expression, device)) == found.what

        tree, device = shrink(found.tree, found.device, still_differs)
        ours, theirs = verdicts(str(tree), device)
        return replace(found, tree=tree, device=device, ours=ours, theirs=theirs)


def main() -> int:
    arguments = argparse.ArgumentParser(prog="cel.fuzz", description=__doc__)
    arguments.add_argument("--count", type=int, default=200_000, help="how many selectors")
    arguments.add_argument("--seed", type=int, default=int(time.time()))
    asked = arguments.parse_args()
    print(f"seed {asked.seed}, {asked.count} selectors", flush=True)
    started = time.monotonic()
    findings = fuzz(asked.seed, asked.count)
    seconds = time.monotonic() - started
    total = findings.outcomes.total()
    print(f"{total} evaluations in {seconds:.0f} s: {asked.count / seconds:.0f} selectors a second")
    print(", ".join(f"{outcome} {count / total:.1%}" for outcome, count in findings.outcomes.most_common()))
    print(f"{findings.unsettled} on which Kubernetes disagrees with itself, {findings.over_our_limit} over our limits")
    print(f"{len(findings.differences)} differences")
    print(report(findings))
    coming = fuzz(asked.seed, asked.count, _PRE_RELEASE)
    print(f"{coming.outcomes.total()} evaluations by Kubernetes {next_kubernetes()} as well")
    print(f"{len(coming.differences)} differences: what will change")
    print(report(coming))
    return 1 if findings.differences else 0


if __name__ == "__main__":
    sys.exit(main())
