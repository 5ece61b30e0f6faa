"""Which uuids of MIG instances are published, and when."""

import math
from pathlib import Path

import pytest

from agent.samples import prepared_claim, prepared_device
from gpusharing.agent.health.node_health import NodeHealth
from gpusharing.agent.publishing.instance_uuids import InstanceUuids
from gpusharing.agent.state.records import Records
from gpusharing.api.dra import ResourceSlice
from gpusharing.api.meta import WholeMeta
from gpusharing.api.names import MigPlace
from gpusharing.api.sharing.gpu_status import Reason
from gpusharing.core.devices.gpu import MigInstance
from gpusharing.core.publishing.gpu_health import Trouble

GPU = "GPU-n1-0"
PATIENCE = 60.0
FIRST, SECOND = (MigInstance(place=MigPlace(19, start), uuid=f"MIG-{start}") for start in (0, 1))


class Place:
    def __init__(self, directory: Path) -> None:
        self.records = Records(directory)
        self.trouble: Trouble | None = None
        health = NodeHealth(self.records, problem=lambda _: self.trouble)
        self.uuids = InstanceUuids(self.records, health, patience=PATIENCE)
        for instance in (FIRST, SECOND):
            self.prepare(instance, instance.uuid)

    def prepare(self, instance: MigInstance, uuid: str | None) -> None:
        device = f"gpu-0-mig-1g10gb-19-{instance.place.start}"
        self.records.put_claim(prepared_claim(device, prepared_device(device, uuid=GPU, mig_uuid=uuid)))

    def due(self, now: float, *told: MigInstance) -> list[MigInstance]:
        devices = [{"name": "any", "attributes": {"uuid": {"string": one.uuid}}} for one in told]
        slices = [ResourceSlice(metadata=WholeMeta(name="s"), spec={"devices": devices}), _WITHOUT_DEVICES]
        return list(self.uuids.due(self.uuids.made([GPU]), slices, now=now)[GPU])


_WITHOUT_DEVICES = ResourceSlice(metadata=WholeMeta(name="counters"), spec={})


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_uuid_is_due_when_its_claim_has_stayed(place: Place) -> None:
    assert place.due(100) == []
    assert place.uuids.next_due(now=100) == 100 + PATIENCE
    assert place.due(100 + PATIENCE) == [FIRST, SECOND]
    assert place.uuids.next_due(now=100 + PATIENCE) == math.inf


def test_what_is_published_stays_whoever_published_it(place: Place) -> None:
    assert place.due(100, SECOND) == [SECOND]


def test_an_instance_that_is_not_there_yet_has_none(place: Place) -> None:
    place.prepare(FIRST, None)
    assert place.uuids.made([GPU]) == {GPU: (SECOND,)}


def test_an_instance_that_others_have_destroyed_has_none(place: Place) -> None:
    place.trouble = Trouble(reason=Reason.INSTANCE_MISSING, message="gone", parts=("MIG-0",))
    assert place.due(100, FIRST, SECOND) == [SECOND]


def test_with_its_claim_it_is_forgotten(place: Place) -> None:
    place.due(100)
    for uid in list(place.records.claims):
        place.records.drop_claim(uid)
    assert (place.due(200, FIRST), place.uuids.next_due(now=101)) == ([], math.inf)
    # The same instance may be made again, and begins to wait anew.
    place.prepare(FIRST, FIRST.uuid)
    assert place.due(300) == []
