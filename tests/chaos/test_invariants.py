"""What must not be is found, and what may be is not."""

from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Final

import pytest

from chaos import hardware
from chaos.churn import STRANGERS, Churn, Witness
from chaos.faults import FAULTS
from chaos.invariants import Device, Invariant, Look, Program, Violation, violations
from chaos.run import draw
from gpusharing import sim
from gpusharing.api.names import Sharing
from gpusharing.sim import ComputeMode, Gpu, MigMode

A, B = (
    Gpu(
        index=minor,
        uuid=f"GPU-{name}",
        minor=minor,
        name="H100",
        memory=80,
        compute_mode=ComputeMode.DEFAULT,
        timeslice=None,
        processes=(),
        mig_mode=MigMode(current=False, pending=False),
    )
    for minor, name in enumerate("ab")
)
WHOLE = Program("default/whole", 10, 100, A.uuid, Sharing.EXCLUSIVE, frozenset({0}))
SHARE = Program("default/share", 11, 101, B.uuid, Sharing.TIME_SLICING, frozenset({1}))
MPS = replace(SHARE, witness="default/mps", pid=12, sharing=Sharing.MPS)
OF_SHARE = Device("default/share", B.uuid, Sharing.TIME_SLICING)


def look(*programs: Program, gpus: tuple[Gpu, ...] = (A, B), records: tuple[Device, ...] = ()) -> Look:
    return Look(gpus, frozenset(programs), frozenset(records))


GOOD: Final = {
    "nobody": look(),
    "each on its own": look(WHOLE, SHARE, records=(OF_SHARE,)),
    "two shares of one": look(SHARE, replace(SHARE, witness="default/other", pid=13)),
    "MPS": look(MPS, gpus=(A, replace(B, compute_mode=ComputeMode.EXCLUSIVE_PROCESS))),
    "its GPU has gone, and nothing has its number": look(WHOLE, gpus=(B,)),
}
BAD: Final = {
    "sees another's GPU": (look(replace(WHOLE, minors=frozenset({1}))), Invariant.OWN_GPU),
    "sees two": (look(replace(WHOLE, minors=frozenset({0, 1}))), Invariant.OWN_GPU),
    "sees none": (look(replace(WHOLE, minors=frozenset())), Invariant.OWN_GPU),
    "its GPU has gone, and another has its number": (
        look(WHOLE, gpus=(replace(B, minor=0),)),
        Invariant.OWN_GPU,
    ),
    "two owners": (look(WHOLE, replace(WHOLE, witness="default/other", pid=13)), Invariant.ONE_MODE),
    "too many clients": (
        look(*(replace(SHARE, witness=f"default/{number}", pid=number) for number in range(5))),
        Invariant.ONE_MODE,
    ),
    "programs in two modes": (look(SHARE, MPS), Invariant.ONE_MODE),
    "a record of another mode": (look(WHOLE, records=(replace(OF_SHARE, uuid=A.uuid),)), Invariant.ONE_MODE),
    "MIG below a whole GPU": (look(WHOLE, gpus=(replace(A, mig_mode=MigMode(True, True)), B)), Invariant.ONE_MODE),
    "no MPS without its compute mode": (look(MPS), Invariant.ONE_MODE),
    "compute mode below a share": (
        look(SHARE, gpus=(A, replace(B, compute_mode=ComputeMode.PROHIBITED))),
        Invariant.ONE_MODE,
    ),
    "a stranger runs": (look(replace(WHOLE, witness=f"{STRANGERS}/x")), Invariant.DENIED),
    "a stranger is prepared": (look(records=(replace(OF_SHARE, claim=f"{STRANGERS}/x"),)), Invariant.DENIED),
}


@pytest.mark.parametrize("seen", GOOD.values(), ids=GOOD)
def test_what_may_be(seen: Look) -> None:
    assert list(violations(seen, strangers=STRANGERS)) == []


@pytest.mark.parametrize(("seen", "invariant"), BAD.values(), ids=BAD)
def test_what_must_not_be_is_found(seen: Look, invariant: Invariant) -> None:
    assert {violation.invariant for violation in violations(seen, strangers=STRANGERS)} == {invariant}


def followed(*looks: Look, may_end: bool = False, is_deleted: bool = False) -> None:
    churn = Churn.__new__(Churn)
    witness = Witness("default", "whole", "whole", may_end=may_end, is_deleted=is_deleted)
    churn.witnesses = {witness.id: witness}
    for seen in looks:
        churn.follow(seen)


AGAIN: Final = replace(WHOLE, pid=20, started=200)


@pytest.mark.parametrize("later", [look(), look(AGAIN)], ids=["ends", "begins again"])
def test_a_program_ends_only_where_something_may_end_it(later: Look) -> None:
    followed(look(), look(WHOLE), look(WHOLE))
    followed(look(WHOLE), later, may_end=True)
    followed(look(WHOLE), later, is_deleted=True)
    with pytest.raises(Violation, match="default/whole"):
        followed(look(WHOLE), later)


def test_a_pod_stays_on_its_gpu() -> None:
    elsewhere = replace(AGAIN, device=B.uuid, minors=frozenset({1}))
    with pytest.raises(Violation, match="had GPU-a, and has GPU-b now"):
        followed(look(WHOLE), look(elsewhere), may_end=True)


def test_a_seed_draws_the_same_faults_in_the_same_order() -> None:
    def drawn(seed: int) -> list[tuple[str, float]]:
        faults = [*FAULTS.values()]
        return [(fault.name, dice.random()) for fault, dice in islice(draw(seed, faults), 2 * len(faults))]

    assert drawn(7) == drawn(7) != drawn(8)
    assert {name for name, _ in drawn(7)[: len(FAULTS)]} == set(FAULTS)


@pytest.mark.parametrize("place", range(4))
def test_a_gpu_that_is_taken_out_comes_back(tmp_path: Path, place: int) -> None:
    node = sim.create(tmp_path / "node", "H100-80GB:4")
    before = node.gpus()
    absence = hardware.take_out(node, place)
    assert [gpu.uuid for gpu in node.gpus()] == [gpu.uuid for gpu in before if gpu.index != place]
    assert [gpu.minor for gpu in node.gpus()] == [0, 1, 2]
    hardware.put_back(node, absence)
    assert node.gpus() == before
