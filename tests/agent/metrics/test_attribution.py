"""Who has which part of which GPU, as Prometheus reads it."""

import dataclasses
from pathlib import Path
from random import Random
from typing import Any

import pytest

from agent.metrics.pages import samples_of
from agent.samples import prepared_claim, prepared_device
from building import policy, reference
from building.boards import board
from gpusharing.agent.metrics import catalogue
from gpusharing.agent.metrics.attribution import Attribution
from gpusharing.agent.metrics.exposition import Metric, exposition
from gpusharing.agent.publishing.node_gpus import NodeGpus
from gpusharing.agent.state.records import Records
from gpusharing.agent.steps import InternalErrors, Steps
from gpusharing.api import names
from gpusharing.api.names import MigPlace, Sharing
from gpusharing.api.sharing.gpu_status import NOT_REPORTED
from gpusharing.api.sharing.node_spec import GpuSharing
from gpusharing.api.sharing.offers import (
    ExclusiveOffer,
    MigOffer,
    MpsMemory,
    MpsOffer,
    MpsThreads,
    Offers,
    TimeSlicingOffer,
)
from gpusharing.core.devices.gpu import Board
from gpusharing.nvidia.facts import GpuState, MigMode

GIB = 1024**3
EVERYTHING = Offers(
    exclusive=ExclusiveOffer(),
    time_slicing=TimeSlicingOffer(max_clients=4),
    mps=MpsOffer(max_clients=8, memory=MpsMemory(default="8Gi"), threads=MpsThreads(default=25)),
    mig=MigOffer(profiles=("1g.10gb", "3g.40gb")),
)
HALF = names.mig_device(0, "3g.40gb", MigPlace(9, 4))
SMALL = names.mig_device(0, "1g.10gb", MigPlace(19, 0))
TWO_SLICES = {"shares": "2", "memory": "0"}
AN_EIGHTH = {"shares": "1", "memory": "8Gi", "threads": "25"}
CLAIM = ("gpu_uuid", "device", "claim")


class Place:
    """A node that offers its GPU in every mode."""

    def __init__(self, directory: Path) -> None:
        facts = {field.name: getattr(board("H100-80GB"), field.name) for field in dataclasses.fields(Board)}
        self.board = Board(**facts)
        self.records = Records(directory)
        self.gpus = NodeGpus(self.records, node="n1")
        self.gpus.found(
            [GpuState(board=self.board, mig_mode=MigMode(current=False, pending=False))],
            {self.board.uuid: NOT_REPORTED},
        )
        self.withheld: dict[str, str] = {}
        self.errors = InternalErrors()
        self.attribution = Attribution(
            node="n1",
            records=self.records,
            gpus=self.gpus,
            withheld=lambda _uuid, _devices: self.withheld,
            steps=Steps(self.errors),
        )

    async def offer(self, offers: Offers) -> None:
        self.gpus.told([GpuSharing(uuid=self.board.uuid, policy=reference(policy("shared")), offers=offers)])
        await self.gpus.put_in_force(self.gpus.plan(self.gpus.uuids, shown=(), now=0, answers={}))

    def prepare(self, name: str, device: str, consumed: dict[str, str] | None = None, **changes: Any) -> None:
        made = prepared_device(device, uuid=self.board.uuid, consumed=consumed or {}, **changes)
        self.records.put_claim(prepared_claim(name, made))

    def told(self, metric: Metric, *labels: str) -> dict[tuple[str, ...], float]:
        self.attribution.look()
        found = samples_of(self.attribution.families, metric)
        told = {tuple(sample.labels[label] for label in labels): sample.value for sample in found}
        assert len(told) == len(found)
        return told

    def shares(self) -> dict[str, tuple[float, float]]:
        """Taken and free, by mode."""
        found = self.told(catalogue.GPU_SHARES, "sharing", "state")
        return {mode: (found[mode, "taken"], found[mode, "free"]) for mode in Sharing if (mode, "free") in found}


@pytest.fixture
async def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    await place.offer(EVERYTHING)
    return place


async def test_who_has_what(place: Place) -> None:
    place.prepare("a", HALF, mig_uuid="MIG-1")
    assert place.told(catalogue.CLAIM_DEVICE_INFO, *catalogue.CLAIM_DEVICE_INFO.labels) == {
        ("n1", place.board.uuid, HALF, "default", "a", "uid-a", "n1", "shared", "MIG", "3g.40gb", "MIG-1"): 1
    }
    assert place.told(catalogue.GPU_INFO, *catalogue.GPU_INFO.labels) == {
        ("n1", place.board.uuid, "0", "NVIDIA H100 80GB HBM3", "shared", "Exclusive,MIG,MPS,TimeSlicing"): 1
    }
    assert place.told(catalogue.CLAIM_SHARE_RATIO, "claim_uid") == {("uid-a",): 0.5}


@pytest.mark.parametrize(
    ("held", "ratios", "memory", "shares"),
    [
        pytest.param([], [], 0, {"Exclusive": (0, 1), "TimeSlicing": (0, 4), "MPS": (0, 8), "MIG": (0, 8)}, id="idle"),
        pytest.param(
            [("gpu-0", {})],
            [1],
            81559 * 1024**2,
            {"Exclusive": (1, 0), "TimeSlicing": (0, 0), "MPS": (0, 0), "MIG": (0, 0)},
            id="whole",
        ),
        pytest.param(
            [("gpu-0-timeslicing", TWO_SLICES), ("gpu-0r1-timeslicing", {"shares": "1", "memory": "4Gi"})],
            [0.5, 0.25],
            4 * GIB,
            {"Exclusive": (0, 0), "TimeSlicing": (3, 1), "MPS": (0, 0), "MIG": (0, 0)},
            id="time-sliced, and under another name",
        ),
        pytest.param(
            [("gpu-0-mps", AN_EIGHTH)],
            [pytest.approx(8192 / 81559)],
            8 * GIB,
            {"Exclusive": (0, 0), "TimeSlicing": (0, 0), "MPS": (1, 7), "MIG": (0, 0)},
            id="MPS",
        ),
        pytest.param(
            [(HALF, {}), (SMALL, {})],
            [0.5, 0.125],
            (40448 + 9984) * 1024**2,
            # Of the four slices that are left of the first half, one is taken.
            {"Exclusive": (0, 0), "TimeSlicing": (0, 0), "MPS": (0, 0), "MIG": (5, 3)},
            id="MIG",
        ),
    ],
)
async def test_shares_and_memory(
    place: Place, held: list[tuple[str, dict[str, str]]], ratios: list[float], memory: float, shares: dict[str, Any]
) -> None:
    for number, (device, consumed) in enumerate(held):
        place.prepare(f"c{number}", device, consumed)
    assert list(place.told(catalogue.CLAIM_SHARE_RATIO, *CLAIM).values()) == ratios
    assert place.told(catalogue.GPU_MEMORY_PROMISED, "gpu_uuid") == {(place.board.uuid,): memory}
    assert sum(place.told(catalogue.CLAIM_MEMORY_PROMISED, *CLAIM).values()) == memory
    assert place.shares() == shares


async def test_nothing_of_a_gpu_that_is_not_well_is_free(place: Place) -> None:
    place.prepare("a", "gpu-0-timeslicing", {"shares": "1", "memory": "0"})
    place.withheld = {"gpu-0-timeslicing": "GpuLost"}
    assert place.shares()["TimeSlicing"] == (1, 0)


async def test_what_is_not_offered_any_more_is_taken_and_not_free(place: Place) -> None:
    place.prepare("a", "gpu-0-timeslicing", {"shares": "1", "memory": "0"})
    await place.offer(Offers(exclusive=ExclusiveOffer()))
    assert place.shares() == {"Exclusive": (0, 0), "TimeSlicing": (1, 0)}
    # As it was published: the claim keeps the quarter that it was promised.
    assert place.told(catalogue.CLAIM_SHARE_RATIO, "claim") == {("a",): 0.25}


async def test_several_shares_of_a_device_are_one_series(place: Place) -> None:
    device = prepared_device("gpu-0-timeslicing", uuid=place.board.uuid, consumed=TWO_SLICES)
    place.records.put_claim(prepared_claim("a", device, device.model_copy(update={"request": "more"})))
    assert place.told(catalogue.CLAIM_SHARE_RATIO, "claim") == {("a",): 1}
    assert len(place.told(catalogue.CLAIM_DEVICE_INFO, "claim")) == 1


async def test_whoever_only_looks_has_no_series(place: Place) -> None:
    place.prepare("admin", "gpu-0", admin=True)
    assert place.told(catalogue.CLAIM_DEVICE_INFO, "claim") == {}
    assert place.shares()["Exclusive"] == (0, 1)


async def test_a_gpu_that_cannot_be_described_takes_the_page_of_nobody(place: Place) -> None:
    """A damaged record: a device of another GPU's slot."""
    place.prepare("a", "gpu-7-timeslicing")
    assert place.told(catalogue.CLAIM_SHARE_RATIO, "claim") == {}
    assert place.errors.counts == {"describe GPU in metrics": 1}


async def test_names_of_others_break_no_line(place: Place) -> None:
    """The API server takes no such names; a damaged file or another server might have them."""
    name = 'a"\n} 1\nforged_metric{x="\\\ud800'
    claim = prepared_claim("a", prepared_device("gpu-0", uuid=place.board.uuid))
    place.records._claims["uid-a"] = claim.model_copy(update={"name": name})
    place.records._index(place.records._claims["uid-a"])
    assert list(place.told(catalogue.CLAIM_SHARE_RATIO, "claim")) == [(name.replace("\ud800", "?"),)]
    assert b"\nforged" not in exposition(place.attribution.families)


@pytest.mark.parametrize("seed", range(5))
async def test_through_churn_a_gpu_is_promised_once(place: Place, seed: int) -> None:
    """Policies change under claims that stay; agents prepare only what goes together."""
    random = Random(seed)  # noqa: S311 (no secret)
    device = random.choice(["gpu-0-timeslicing", "gpu-0-mps"])
    for number in range(12):
        if random.random() < 0.3:
            await place.offer(
                random.choice(
                    [EVERYTHING, Offers(time_slicing=TimeSlicingOffer(max_clients=2)), Offers(mps=EVERYTHING.mps)]
                )
            )
        if random.random() < 0.7:
            consumed = {"shares": str(random.randint(1, 2)), "memory": random.choice(["0", "6Gi", "40Gi"])}
            place.prepare(f"c{number}", device, consumed)
        elif place.records.claims:
            place.records.drop_claim(random.choice(list(place.records.claims)))
        ratios = place.told(catalogue.CLAIM_SHARE_RATIO, "claim_uid")
        assert sum(ratios.values()) <= 1 + 1e-9
        assert ratios.keys() == {(uid,) for uid in place.records.claims}
        assert all(0 < ratio <= 1 for ratio in ratios.values())
