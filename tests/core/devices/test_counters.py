"""Which MIG instances can be there together: our counters say what NVIDIA's tables say."""

from collections import Counter
from collections.abc import Iterator, Sequence

import pytest

from building.boards import ALL, MIG_CAPABLE, board, most_instances
from gpusharing.core.devices import counters
from gpusharing.core.devices.gpu import Gpu, MigProfile

Placement = tuple[MigProfile, int]


def is_valid(model: str, placements: Sequence[Placement]) -> bool:
    """By the rules of the tables: no overlap, and of each profile no more than allowed."""
    slices = [number for profile, start in placements for number in range(start, start + profile.size)]
    counts = Counter(profile.id for profile, _ in placements)
    most = most_instances(model)
    return len(slices) == len(set(slices)) and all(count <= most[id_] for id_, count in counts.items())


def fits(gpu: Gpu, placements: Sequence[Placement]) -> bool:
    return counters.fit([counters.mig_instance(*placement) for placement in placements], counters.supply(gpu))


def combinations(model: str, gpu: Gpu) -> Iterator[Sequence[Placement]]:
    """All that are valid, and all that become wrong by one more."""
    assert gpu.mig is not None
    placements = [(profile, start) for profile in gpu.mig.profiles for start in profile.starts]

    def extended(chosen: list[Placement], index: int) -> Iterator[Sequence[Placement]]:
        for position in range(index, len(placements)):
            more = [*chosen, placements[position]]
            yield more
            if is_valid(model, more) and fits(gpu, more):
                yield from extended(more, position + 1)

    return extended([], 0)


def shares_a_media_engine(placements: Sequence[Placement]) -> bool:
    """Two instances that both want the only engine of its kind, or one that wants all."""
    return any("+me" in profile.name for profile, _ in placements)


@pytest.mark.parametrize("model", MIG_CAPABLE)
def test_counters_allow_what_the_tables_allow(model: str) -> None:
    gpu = board(model)
    for placements in combinations(model, gpu):
        if fits(gpu, placements):
            assert is_valid(model, placements), placements
        elif is_valid(model, placements):
            # The tables tell these rules in words.
            assert model in {"A30", "RTX-PRO-6000"}, placements
            assert shares_a_media_engine(placements), placements


@pytest.mark.parametrize("model", ALL)
def test_beside_all_of_a_gpu_there_is_nothing(model: str) -> None:
    gpu = board(model)
    whole = counters.whole(gpu)
    assert counters.fit([whole], counters.supply(gpu))
    assert not counters.fit([whole, whole], counters.supply(gpu))
    for profile in gpu.mig.profiles if gpu.mig else ():
        assert not counters.fit([whole, counters.mig_instance(profile, profile.starts[0])], counters.supply(gpu))


def test_a_gpu_that_reports_no_memory_is_given_once() -> None:
    """Or everybody would fit into nothing."""
    gpu = board("L4", memory_mib=0)
    supply = counters.supply(gpu)
    assert counters.fit([counters.whole(gpu)], supply)
    assert not counters.fit([counters.whole(gpu), counters.whole(gpu)], supply)
