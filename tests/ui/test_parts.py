"""Bars, rows, views and history: tables of cases."""

import tomllib
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import pytest

from gpusharing.api.names import Sharing
from gpusharing.occupancy.fleet import Fleet, GpuUse, Holder, NodeUse
from gpusharing.ui.bars import bar
from gpusharing.ui.charts import chart
from gpusharing.ui.history import DAY, EVERY, History, Sample
from gpusharing.ui.pages import STATIC
from gpusharing.ui.rows import gpu_row
from gpusharing.ui.sections import summary
from gpusharing.ui.viewing import NODES, View

VENDORED: Final = [
    (directory, name)
    for directory in (STATIC, Path(__file__).parent / "vendored")
    for name in tomllib.loads((directory / "vendored.toml").read_text())
]


def holder(name: str, mode: Sharing = Sharing.TIME_SLICING, **more: Any) -> Holder:
    return Holder(namespace="ml", claim=name, uid=name, device="gpu-0", mode=mode, **more)


def gpu(*holders: Holder, total: int | None = 4, hidden: int = 0, **more: Any) -> GpuUse:
    modes = tuple(dict.fromkeys(one.mode for one in holders)) or ((Sharing.TIME_SLICING,) if hidden else ())
    taken = sum(one.shares for one in holders) + hidden
    claims = tuple(f"hidden-{number}" for number in range(hidden))
    values = {"modes": modes, "shares_taken": taken, "shares_total": total, "hidden_claims": claims, **more}
    return GpuUse(node="n", slot=0, holders=holders, **values)


def fleet_of_nodes(count: int, first: Holder) -> Fleet:
    """With an idle GPU each, but for the first."""
    names = sorted(f"node-{number}" for number in range(count))
    return Fleet(
        nodes=tuple(
            NodeUse(name=name, gpus=(replace(gpu(*([] if number else [first])), node=name),))
            for number, name in enumerate(names)
        )
    )


@pytest.mark.parametrize(
    ("more", "free"),
    [
        ({"offers": None}, "free for claims"),
        ({"offers": tuple(Sharing)}, "free for any mode"),
        ({"offers": (Sharing.EXCLUSIVE, Sharing.MPS)}, "free for Exclusive, MPS"),
        ({"offers": (Sharing.EXCLUSIVE,), "restricted": True}, "reserved, free for Exclusive"),
        ({"offers": ()}, "not offered now"),
        ({"offers": (), "health": "FatalXid"}, "not usable"),
    ],
)
def test_for_what_a_gpu_is_free(more: dict[str, Any], free: str) -> None:
    assert gpu_row(gpu(**more)).free == free


@pytest.mark.parametrize(
    ("one", "segments", "cells"),
    [
        (gpu(), [], ()),
        (gpu(holder("a")), [(0, 25, "timeslicing")], (50, 75)),
        (gpu(holder("a", shares=2), holder("b")), [(0, 50, "timeslicing"), (50, 25, "timeslicing")], ()),
        (gpu(holder("a"), hidden=2), [(0, 25, "timeslicing"), (25, 50, "others")], ()),
        (gpu(hidden=1), [(0, 25, "others")], (50, 75)),
        (gpu(holder("a", Sharing.EXCLUSIVE), total=1), [(0, 100, "exclusive")], ()),
        (gpu(holder("a", Sharing.MIG, shares=3), total=7), [(0, 42.86, "mig")], (57.14, 71.43, 85.71)),
        # While a change drains, shares of several modes are not added up.
        (
            gpu(holder("a", ratio=0.25), holder("b", Sharing.MPS, ratio=0.5), total=None),
            [(0, 25, "timeslicing"), (25, 50, "mps")],
            (),
        ),
        # What was promised when the policy had more shares does not go beyond the bar.
        (gpu(*(holder(str(number)) for number in range(5))), [(25 * n, 25, "timeslicing") for n in range(4)], ()),
        (gpu(holder("a"), total=60), [(0, 1.67, "timeslicing")], ()),
        (gpu(holder("a", ratio=None), total=None), [], ()),
    ],
)
def test_bars(one: GpuUse, segments: list[tuple[float, float, str]], cells: tuple[float, ...]) -> None:
    found = bar(one)
    assert [(one.start, one.width, one.style) for one in found.segments] == segments
    assert found.cells == cells


def test_a_row_names_some_and_counts_the_rest() -> None:
    row = gpu_row(gpu(*(holder(f"c{number}", pods=("p", "q")) for number in range(9)), total=16, hidden=3))
    assert [one.name for one in row.who] == ["ml/p +1"] * 6
    assert (row.more, row.hidden, row.shares) == (3, 3, "12 of 16 shares")


@pytest.mark.parametrize(
    ("one", "details"),
    [
        (holder("a"), ""),
        (holder("a", memory_promised=20 * 1024), "20 GiB"),
        (holder("a", memory_promised=20 * 1024, memory_used=17_500), "17 of 20 GiB"),
        (holder("a", memory_used=1536), "1.5 GiB used"),
        (holder("a", shares=2), "2 shares"),
        (holder("a", Sharing.MIG, profile="1g.10gb", shares=1, memory_promised=9984), "1g.10gb, 9.8 GiB"),
    ],
)
def test_what_a_claim_has(one: Holder, details: str) -> None:
    assert gpu_row(gpu(one)).who[0].details == details


@pytest.mark.parametrize(
    ("query", "nodes", "page"),
    [
        ({}, NODES, 1),
        ({"page": "3"}, 5, 3),
        ({"page": "9"}, 5, 3),
        ({"page": "0"}, NODES, 1),
        ({"q": "NODE-17"}, 1, 1),
        ({"q": "ml/train"}, 1, 1),
        ({"q": "some-pod"}, 1, 1),
        ({"show": "timeslicing"}, 1, 1),
        ({"show": "problem"}, 0, 1),
        ({"show": "idle", "page": "3"}, 4, 3),
        ({"show": "idle", "q": "train"}, 0, 1),
    ],
)
def test_views(query: dict[str, str], nodes: int, page: int) -> None:
    fleet = fleet_of_nodes(45, holder("train", pods=("some-pod",)))
    shown = View.of_query(query).shown(fleet)
    assert (len(shown.nodes), shown.page) == (nodes, page)


def test_the_history_does_not_grow() -> None:
    history = History()
    for number in range(3 * DAY // EVERY):
        history.add(Sample(float(number * EVERY), (1, 0, 0, 0, 1, 0), 1.0, 0))
    samples = history.samples()
    assert samples[-1].at - samples[0].at == DAY - EVERY


def test_charts() -> None:
    assert chart([]) is None
    assert chart([Sample(0.0, (1, 0, 0, 0, 3, 0), 1.0, 0)]) is None
    found = chart([Sample(60.0 * n, (n % 3, 0, 1, 0, 3, 0), 1.0, n % 2) for n in range(1000)])
    assert found is not None
    assert [one.style for one in found.areas] == ["exclusive", "mps"]
    assert (found.first, found.last, found.top, found.most_waiting) == ("00:00", "16:39", 6, 1)
    assert len(found.rows) == 17
    assert len(found.areas[0].path) < 10_000


def test_an_empty_fleet_has_nothing_to_divide_by() -> None:
    assert summary(Fleet()).bar == ()


@pytest.mark.parametrize(("directory", "name"), VENDORED)
def test_scripts_of_others_are_unchanged(directory: Path, name: str) -> None:
    entry = tomllib.loads((directory / "vendored.toml").read_text())[name]
    assert sha256((directory / name).read_bytes()).hexdigest() == entry["sha256"]
    assert (directory / f"{name.removesuffix('.min.js')}.LICENSE").read_text()
    assert {"package", "version", "path", "licence"} <= entry.keys()


def test_every_script_of_others_is_listed() -> None:
    listed = {name for path, name in VENDORED if path == STATIC}
    assert {path.name for path in STATIC.glob("*.min.js")} == listed
