"""Where the instances of a static MIG layout go, also on GPUs that no vendor ever made."""

import tracemalloc
from typing import Final

import pytest

from gpusharing.core.devices import counters, layout
from gpusharing.core.devices.gpu import Engines, MigProfile, MigSupport
from gpusharing.core.devices.reported_models import Reported


def profile(name: str, *, id_: int, starts: tuple[int, ...], size: int = 1, copy_engines: int = 1) -> MigProfile:
    engines = Engines(copy_engines=copy_engines)
    return MigProfile(id=id_, name=name, slices=size, memory_mib=1, engines=engines, size=size, starts=starts)


def gpu(*profiles: MigProfile) -> Reported:
    return Reported(memory_mib=10**6, mig=MigSupport(profiles=profiles, switch_resets_gpu=False))


STARTS: Final = tuple(range(64))


@pytest.mark.parametrize("wanted", [9, 20, 64])
def test_the_search_ends_whatever_an_agent_reports(wanted: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight copy engines for ever more instances, each of which may begin anywhere."""
    tries = 0
    fit = counters.fit

    def counted(*args: object) -> bool:
        nonlocal tries
        tries += 1
        return fit(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(counters, "fit", counted)
    few = gpu(profile("1g.1gb", id_=1, starts=STARTS), profile("7g.7gb", id_=2, starts=(0,), copy_engines=8))
    assert layout.places({"1g.1gb": wanted}, few) is None
    assert tries <= 10_000
    assert layout.places({"1g.1gb": 8}, few) is not None


def test_a_profile_without_a_place_finds_none() -> None:
    odd = gpu(profile("1g.1gb", id_=1, starts=(0, 1)), profile("3g.3gb", id_=2, starts=(), size=2))
    assert layout.places({"1g.1gb": 1, "3g.3gb": 1}, odd) is None


def test_memory_is_bounded() -> None:
    tracemalloc.start()
    try:
        large = gpu(profile("1g.1gb", id_=1, starts=STARTS), profile("7g.7gb", id_=2, starts=(0,), copy_engines=8))
        layout.places({"1g.1gb": 64}, large)
        assert tracemalloc.get_traced_memory()[1] < 20 * 2**20
    finally:
        tracemalloc.stop()
