"""`make fuzz-allocate`: compares our allocator with kube-scheduler's on random clusters, pod after pod, and shrinks
what differs.
"""

import argparse
import json
import sys
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any, Final

from allocating import pods
from allocating.comparison import GAVE_UP, Ours, difference, theirs
from allocating.oracle_process import AllocatorOracle
from allocating.shrinking import shrink
from allocating.worlds import Json, World, world
from harness.shares import each_by_itself, shares

MINORS: Final = (38, 37, 36)
PODS: Final = 16
"""In each cluster, one after the other."""

_SHARE: Final = 50
_MOST_SHRUNK: Final = 5


@dataclass(frozen=True, slots=True)
class Difference:
    what: str
    minor: int
    seed: int
    number: int
    pod: int
    question: Json

    def __str__(self) -> str:
        where = f"Kubernetes 1.{self.minor}, seed {self.seed}, cluster {self.number}, pod {self.pod}"
        return f"{self.what} ({where})\n{json.dumps(self.question)}"


@dataclass(slots=True)
class Findings:
    outcomes: Counter[str] = field(default_factory=Counter)
    """Of Kubernetes, by node."""
    fitting: Counter[str] = field(default_factory=Counter)
    """Pods that fit somewhere."""
    given_up: int = 0
    """Nodes on which we stop trying, and Kubernetes has an answer."""
    differences: list[Difference] = field(default_factory=list)

    def add(self, other: "Findings") -> None:
        self.outcomes += other.outcomes
        self.fitting += other.fitting
        self.given_up += other.given_up
        self.differences += other.differences


def fuzz(seed: int, clusters: int) -> Findings:
    findings = Findings()
    for found in each_by_itself(partial(_compare_share, seed), shares(clusters, size=_SHARE)):
        findings.add(found)
    return findings


def _compare_share(seed: int, numbers: range) -> Findings:
    findings = Findings()
    for minor in MINORS:
        with AllocatorOracle(minor) as oracle:
            for number in numbers:
                live(oracle, seed, number, findings)
    return findings


def live(oracle: AllocatorOracle, seed: int, number: int, findings: Findings) -> None:
    """Pods come and go in one cluster."""
    random = Random(f"{seed}/{number}/pods")  # noqa: S311 (no secret)
    there = world(seed, number)
    ours = Ours(there, oracle.minor)
    oracle.set_world(there)
    allocated: dict[str, list[Json]] = dict(there.allocated)
    classes = pods.suitable_classes(there.slices)
    for pod in range(PODS):
        claims = pods.claims(random, pod, classes)
        everything = [result for some in allocated.values() for result in some]
        mine, its = ours.answers(claims), theirs(oracle, claims, everything)
        findings.outcomes.update(answer["kind"] for answer in its)
        pairs = zip(mine, its, strict=True)
        findings.given_up += sum(one["kind"] == GAVE_UP != other["kind"] for one, other in pairs)
        if what := difference(mine, its):
            asked_ = question(replace(there, allocated=allocated), claims)
            findings.differences.append(Difference(what, oracle.minor, seed, number, pod, asked_))
            return
        fitting = [answer for answer in its if answer["kind"] == "fits"]
        findings.fitting[f"1.{oracle.minor}"] += bool(fitting)
        if fitting and random.random() < 0.9:
            for claim, allocation in zip(claims, random.choice(fitting)["raw"], strict=True):
                name, results = claim["metadata"]["name"], allocation["devices"].get("results") or []
                allocated[name] = results
                ours.add(name, results)
        if allocated and random.random() < 0.35:
            gone = random.choice(sorted(allocated))
            del allocated[gone]
            ours.remove(gone)


def question(there: World, claims: list[Json]) -> Json:
    return {
        "nodes": there.nodes,
        "slices": there.slices,
        "classes": there.classes,
        "allocated": there.allocated,
        "claims": claims,
    }


def asked(oracle: AllocatorOracle, question: Json) -> tuple[Any, Any]:
    """Our answers, and Kubernetes'."""
    there = World(question["nodes"], question["slices"], question["classes"], question["allocated"])
    oracle.set_world(there)
    everything = [result for some in there.allocated.values() for result in some]
    return Ours(there, oracle.minor).answers(question["claims"]), theirs(oracle, question["claims"], everything)


def report(findings: Findings) -> str:
    """Some of what differs, shrunk."""
    unlike: dict[str, Difference] = {}
    for found in findings.differences:
        unlike.setdefault(f"{found.what.partition(':')[2]} 1.{found.minor}", found)
    return "\n".join(str(_shrunk(found)) for found in list(unlike.values())[:_MOST_SHRUNK])


def _shrunk(found: Difference) -> Difference:
    oracle = AllocatorOracle(found.minor)

    def still_differs(question: Json) -> bool:
        nonlocal oracle
        try:
            what = difference(*asked(oracle, question))
        except Exception:  # noqa: BLE001 (whatever it is, the question makes no sense any more)
            oracle.close()
            oracle = AllocatorOracle(found.minor)
            return False
        return what is not None and what.partition(":")[2] == found.what.partition(":")[2]

    # What only the whole scheduler does otherwise stays as it was found.
    smaller = shrink(found.question, still_differs) if still_differs(found.question) else found.question
    oracle.close()
    return replace(found, question=smaller)


def main() -> int:
    arguments = argparse.ArgumentParser(prog="allocating.fuzz", description=__doc__)
    arguments.add_argument("--count", type=int, default=2_000, help="how many clusters")
    arguments.add_argument("--seed", type=int, default=int(time.time()))
    given = arguments.parse_args()
    print(f"seed {given.seed}, {given.count} clusters, {PODS} pods in each", flush=True)
    started = time.monotonic()
    findings = fuzz(given.seed, given.count)
    total = findings.outcomes.total()
    print(f"{total} allocations on one node in {time.monotonic() - started:.0f} s")
    print(", ".join(f"{outcome} {count / total:.1%}" for outcome, count in findings.outcomes.most_common()))
    print(", ".join(f"{count} pods fit ({minor})" for minor, count in findings.fitting.items()))
    print(f"Kubernetes ran out of time for {findings.outcomes[GAVE_UP]}; we gave up {findings.given_up} that it knows")
    print(f"{len(findings.differences)} differences")
    print(report(findings))
    return 1 if findings.differences else 0


if __name__ == "__main__":
    sys.exit(main())
