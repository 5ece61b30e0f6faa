"""In random clusters, the reasons and the search say the same."""

from random import Random

import pytest

from allocating import pods
from allocating.comparison import Ours
from allocating.worlds import world
from gpusharing.core.allocate.allocation import Problem, allocate
from gpusharing.core.allocate.reasons import Reasons, Step
from gpusharing.core.allocate.requests import Claim, read_claim

SEED = 7


@pytest.mark.parametrize("minor", [36, 37])
def test_the_reasons_of_nodes_agree_with_the_search(minor: int) -> None:
    steps: set[Step] = set()
    for number in range(60):
        random = Random(number)  # noqa: S311 (no secret)
        there = world(SEED, number)
        ours = Ours(there, minor)
        for pod in range(8):
            claims = [read_claim(one) for one in pods.claims(random, pod, pods.suitable_classes(there.slices))]
            for node in ours.nodes:
                outcome = allocate(claims, [node], ours.cluster, with_reasons=True)
                found = outcome.nodes.get(node.metadata.name)
                if outcome.stop or found is None or found.problem is not Problem.NO_DEVICES:
                    continue
                assert all(one.looked_at == one.fell_out.total() + one.left for one in found.reasons)
                steps.update(step for one in found.reasons for step, count in one.fell_out.items() if count)
                assert not _would_fit(claims, found.reasons), (number, pod, found.reasons)
    assert steps == set(Step) - {Step.GUARD}


def _would_fit(claims: list[Claim], reasons: tuple[Reasons, ...]) -> bool:
    """Whether the reasons leave none: one device is asked for, and there is one."""
    if len(claims) != 1 or len(claims[0].requests) != 1 or any(one.is_distinct for one in claims[0].constraints):
        return False
    return any(one.needed == 1 and one.left for one in reasons)
