"""Pods come and go on the real kube-scheduler, with all that is around its allocator, and each gets what we say.

`make fuzz-scheduler` does so with as many pods as wanted, in lanes side by side, and shrinks what differs.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any, Final

from allocating import pods
from allocating.comparison import GAVE_UP, Answer, Ours, their_answer
from allocating.fuzz import Difference, Findings, question, report
from allocating.lanes import CLAIMS, PODS, Lane, bed, is_bound, numbers
from allocating.oracle_process import NEWEST
from allocating.worlds import Json
from gpusharing.core.allocate.extended_resources import IMPLICIT, ExtendedResources
from gpusharing.core.allocate.pod_claims import claims_of_pod
from gpusharing.core.allocate.requests import Claim

IN_EACH_CLUSTER: Final = 12
"""Pods, one after the other."""

_SECOND_THOUGHTS: Final = 5.0
"""Seconds in which the scheduler hears of what has gone, and tries a pod again."""
_TIMED_OUT: Final = "timed out trying to allocate devices"
_SAY_EACH: Final = 30.0


async def compare(seed: int, count: int, *, lanes: int, minor: int = NEWEST, says: bool = False) -> Findings:
    """So many pods, in clusters after each other in each of the lanes."""
    findings = Findings()
    clusters = iter(range(-(-count // IN_EACH_CLUSTER)))
    async with bed(minor) as there, asyncio.TaskGroup() as tasks:
        working = []
        for number in range(lanes):
            lane = await Lane.made(there, f"l{number}", is_alone=lanes == 1)
            working.append(tasks.create_task(_work(lane, seed, clusters, findings)))
        if says:
            await _say(working, findings)
    return findings


async def _work(lane: Lane, seed: int, clusters: Iterator[int], findings: Findings) -> None:
    for number in clusters:
        await live(lane, seed, number, findings)


async def _say(working: Sequence[asyncio.Task[None]], findings: Findings) -> None:
    started, said = time.monotonic(), 0
    while not all(one.done() for one in working):
        await asyncio.wait(working, timeout=_SAY_EACH)
        took, total = time.monotonic() - started, findings.outcomes.total()
        print(f"{took:.0f} s: {total} pods, {len(findings.differences)} differences", flush=True)
        for found in findings.differences[said:]:
            print(f"{found.what} (seed {found.seed}, cluster {found.number}, pod {found.pod})", flush=True)
        said = len(findings.differences)


async def live(lane: Lane, seed: int, number: int, findings: Findings) -> None:
    """In one cluster, until something differs."""
    random = Random(f"{seed}/{number}/scheduler")  # noqa: S311 (no secret)
    there = lane.world(seed, number)
    classes = pods.suitable_classes(there.slices)
    await lane.publish(there.slices)
    ours = Ours(there, NEWEST, rules=lane.bed.rules)
    living: list[Running] = []
    for count in range(IN_EACH_CLUSTER):
        name = f"pod-{next(numbers)}"
        pod = Running(lane, name, _some(random, name, classes))
        mine = ours.answers_to(pod.asked(ours))
        if any(answer["kind"] == GAVE_UP for answer in mine):
            # The scheduler would take its time, too, and all the others would wait.
            findings.given_up += 1
            continue
        fitting = _fitting(lane, mine)
        node, its = await pod.outcome(fits=bool(fitting))
        if its.get("kind") == GAVE_UP:
            findings.outcomes[GAVE_UP] += 1
            await pod.end()
            continue
        findings.outcomes["fits" if node else "does not fit"] += 1
        findings.fitting[f"1.{lane.bed.minor}"] += node is not None
        if what := _difference(node, its, fitting):
            asked = question(there, pod.claims) | {"pod": pod.value, "kubernetes": its.get("raw")}
            findings.differences.append(Difference(what, NEWEST, seed, number, count, asked))
            living.append(pod)
            break
        if node:
            for claim, allocation in zip(pod.names, its["raw"], strict=True):
                results = allocation["devices"].get("results") or []
                ours.add(claim, results)
                there.allocated[claim] = results
            living.append(pod)
        else:
            await pod.end()
        if living and random.random() < 0.3:
            gone = living.pop(random.randrange(len(living)))
            await gone.end()
            for claim in gone.names:
                ours.remove(claim)
                del there.allocated[claim]
    await asyncio.gather(*(pod.end() for pod in living))


def _fitting(lane: Lane, mine: Sequence[Answer]) -> Mapping[str, Answer]:
    """By node; none if one of them stops the pod."""
    if any(answer["kind"] == "stops" for answer in mine):
        return {}
    named = zip(lane.nodes, mine, strict=True)
    return {node["metadata"]["name"]: answer for node, answer in named if answer["kind"] == "fits"}


def _difference(node: str | None, its: Answer, fitting: Mapping[str, Answer]) -> str | None:
    """In the words of `comparison.difference`, so that it can be looked for with the allocator alone."""
    if node is None:
        return f"{', '.join(fitting)}: Kubernetes: does not fit, ours: fits" if fitting else None
    if node not in fitting:
        return f"{node}: Kubernetes: fits, ours: does not fit"
    return None if its["claims"] == fitting[node]["claims"] else f"{node}: other devices"


def _some(random: Random, name: str, classes: pods.Classes) -> list[Json]:
    """Claims, or for some pods a class whose devices the pod asks for as extended resources."""
    if random.random() < 0.2:
        return [{"class": random.choice(random.choice(list(classes.values()))), "count": random.choice([1, 1, 2])}]
    claims = pods.claims(random, 0, classes)
    for index, claim in enumerate(claims):
        claim["metadata"] = {"name": f"{name}-{index}", "namespace": "default"}
    return claims


class Running:
    """A pod that was made."""

    def __init__(self, lane: Lane, name: str, asked: list[Json]) -> None:
        self._lane = lane
        self._name = name
        self._is_extended = any("class" in one for one in asked)
        self.claims = [one for one in asked if "class" not in one]
        refs = [{"name": f"c{index}"} for index in range(len(self.claims))]
        extended = {f"{IMPLICIT}{one['class']}": str(one["count"]) for one in asked if "class" in one}
        resources = {"claims": refs, "requests": extended, "limits": extended}
        claims = [
            {"name": f"c{index}", "resourceClaimName": claim["metadata"]["name"]}
            for index, claim in enumerate(self.claims)
        ]
        containers = [{"name": "main", "image": "none", "resources": resources}]
        spec = {"resourceClaims": claims, "containers": containers, **lane.placing()}
        self.value: Json = {"metadata": {"name": name, "namespace": "default"}, "spec": spec}
        self.names = [claim["metadata"]["name"] for claim in self.claims]

    def asked(self, ours: Ours) -> list[Claim]:
        extended = ExtendedResources(ours.cluster.classes).claim(self.value, {})
        claims = {("default", one["metadata"]["name"]): one for one in self.claims}
        return claims_of_pod(self.value, claims) + ([extended] if extended else [])

    async def outcome(self, *, fits: bool) -> tuple[str | None, Answer]:
        """The node, and what the claims have; None: the scheduler has tried, and has found none. One that should fit
        is given the time to be tried again: the scheduler may have heard of what has gone a moment later."""
        bed = self._lane.bed
        for claim in self.claims:
            await bed.admin.call("POST", CLAIMS, claim)
        await bed.admin.call("POST", PODS, {key: self.value[key] for key in ("metadata", "spec")})
        pod = await bed.pods.until(self._name, _is_decided)
        if _gave_up(pod):
            return None, {"kind": GAVE_UP}
        if fits and not is_bound(pod):
            try:
                pod = await bed.pods.until(self._name, is_bound, within=_SECOND_THOUGHTS)
            except TimeoutError:
                pod = await bed.pods.until(self._name, _is_decided)
        if _gave_up(pod):
            return None, {"kind": GAVE_UP}
        if pod is None or not is_bound(pod):
            return None, {}
        if self._is_extended:
            self.names = [pod["status"]["extendedResourceClaimStatus"]["resourceClaimName"]]
        claims = [await bed.claims.until(name, _is_allocated) for name in self.names]
        allocations = [claim["status"]["allocation"] for claim in claims if claim]
        return pod["spec"]["nodeName"], their_answer({"allocations": allocations})

    async def end(self) -> None:
        """The claim that comes after it is proof for the scheduler that these have gone: it hears of all in turn."""
        await self._lane.remove(self._name, self.names)


def _is_decided(pod: Mapping[str, Any] | None) -> bool:
    if pod is None or is_bound(pod):
        return True
    return any(one["type"] == "PodScheduled" for one in pod["status"].get("conditions", ()))


def _gave_up(pod: Mapping[str, Any] | None) -> bool:
    conditions = pod["status"].get("conditions", ()) if pod else ()
    return any(_TIMED_OUT in one.get("message", "") for one in conditions)


def _is_allocated(claim: Mapping[str, Any] | None) -> bool:
    return claim is None or "allocation" in claim.get("status", {})


def main() -> int:
    arguments = argparse.ArgumentParser(prog="allocating.on_scheduler", description=__doc__)
    arguments.add_argument("--count", type=int, default=2_000, help="how many pods")
    arguments.add_argument("--seed", type=int, default=int(time.time()))
    arguments.add_argument("--lanes", type=int, default=12, help="how many clusters side by side; 1: all in one")
    arguments.add_argument("--minor", type=int, default=NEWEST, help="36: kube-scheduler and the others emulate 1.36")
    given = arguments.parse_args()
    print(f"seed {given.seed}, Kubernetes 1.{given.minor}, {given.count} pods in {given.lanes} lanes", flush=True)
    started = time.monotonic()
    found = asyncio.run(compare(given.seed, given.count, lanes=given.lanes, minor=given.minor, says=True))
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in found.outcomes.most_common())
    print(f"{found.outcomes.total()} pods in {time.monotonic() - started:.0f} s: {outcomes}")
    print(f"Kubernetes ran out of time for {found.outcomes[GAVE_UP]}; {found.given_up} were left out because we do")
    print(f"{len(found.differences)} differences")
    print(report(found))
    return 1 if found.differences else 0


if __name__ == "__main__":
    sys.exit(main())
