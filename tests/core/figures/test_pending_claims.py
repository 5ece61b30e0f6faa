"""Which claims wait, and the reasons that are certain."""

import itertools
from collections.abc import Mapping, Sequence

import pytest

from building import decided, policy
from gpusharing.api.sharing.node_spec import AllocatedDevice, ClaimSharing, GpuSharing, Verdict
from gpusharing.core.figures.pending_claims import denied, not_allocated
from gpusharing.core.state.cluster_state import WaitingGroup

MINE = "mine-timeslicing"
FOR_ALL = "timeslicing.gpu.nvidia.com"


@pytest.mark.parametrize(
    ("waiting", "reasons", "expected"),
    [
        ({}, {}, {}),
        ({(MINE, "a"): 2}, {}, {("mine", "a", "NotPlaced"): 2}),
        ({(MINE, "a"): 2}, {(MINE, "a"): "NotATenant"}, {("mine", "a", "NotATenant"): 2}),
        (
            {(MINE, "a"): 2, (MINE, "b"): 1},
            {(MINE, "a"): "NotATenant"},
            {("mine", "a", "NotATenant"): 2, ("mine", "b", "NotPlaced"): 1},
        ),
        # Two classes of one policy.
        ({(MINE, "a"): 2, ("mine-mps", "a"): 3}, {}, {("mine", "a", "NotPlaced"): 5}),
        ({(FOR_ALL, "a"): 1}, {}, {("", "a", "NotPlaced"): 1}),
        # Network cards of others, and names that tenants have made up.
        ({("rdma.example.com", "a"): 1, ("no-such-class", "a"): 1}, {}, {}),
    ],
    ids=itertools.count(),
)
def test_not_allocated(
    waiting: Mapping[tuple[str, str], int],
    reasons: Mapping[tuple[str, str], str],
    expected: Mapping[tuple[str, str, str], int],
) -> None:
    groups = {WaitingGroup(*group): range(count) for group, count in waiting.items()}
    certain = {WaitingGroup(*group): reason for group, reason in reasons.items()}
    assert not_allocated(groups, {MINE: "mine", "mine-mps": "mine"}, certain) == expected


def entry(name: str, verdict: Verdict = Verdict.DENIED) -> ClaimSharing:
    return ClaimSharing(uid=name, claim=f"team/{name}", allocation_hash="", verdict=verdict)


def gpu(slot: int, winner: str | None, *claims: str) -> GpuSharing:
    allocated = tuple(AllocatedDevice(claim=claim, device=f"gpu-{slot}-timeslicing") for claim in claims)
    return decided(slot, policy(winner) if winner else None).model_copy(update={"allocated": allocated})


@pytest.mark.parametrize(
    ("claims", "gpus", "expected"),
    [
        ([], [gpu(0, "p", "c")], {}),
        ([entry("c", Verdict.ALLOWED)], [gpu(0, "p", "c")], {}),
        ([entry("c"), entry("d")], [gpu(0, "p", "c", "d", "e")], {("p", "team", "Denied"): 2}),
        ([entry("c")], [gpu(0, "p", "c", "c"), gpu(1, "p", "c")], {("p", "team", "Denied"): 1}),
        (
            [entry("c")],
            [gpu(0, "p", "c"), gpu(1, "q", "c")],
            {("p", "team", "Denied"): 1, ("q", "team", "Denied"): 1},
        ),
        ([entry("c")], [gpu(0, None, "c")], {("", "team", "Denied"): 1}),
        # Of a GPU that its agent does not report any more.
        ([entry("c")], [], {("", "team", "Denied"): 1}),
    ],
    ids=itertools.count(),
)
def test_denied(
    claims: Sequence[ClaimSharing], gpus: Sequence[GpuSharing], expected: Mapping[tuple[str, str, str], int]
) -> None:
    assert denied(claims, gpus) == expected
