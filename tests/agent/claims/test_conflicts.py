"""What prepared claims have together is never more than there is."""

from typing import Any

import pytest

from agent.samples import prepared_claim, prepared_device
from building.boards import board
from gpusharing.agent.claims import conflicts
from gpusharing.agent.state.models import PreparedClaim, PreparedDevice
from gpusharing.api.dra import AllocationResult
from gpusharing.api.sharing.offers import Interval, MpsMemory, MpsOffer, MpsThreads, Offers, TimeSlicingOffer
from gpusharing.core.claims.settings import SettingsError
from gpusharing.core.devices.offered import AS_FOUND, OfferedGpu

SHARE, MPS = "gpu-0-timeslicing", "gpu-0-mps"
MEMORY = MpsMemory(default="8Gi", min="1Gi", max="60Gi")
OFFERS = Offers(
    time_slicing=TimeSlicingOffer(max_clients=2, interval=Interval.MEDIUM),
    mps=MpsOffer(max_clients=8, memory=MEMORY, threads=MpsThreads(default=10, min=5)),
)


def offered(offers: Offers = OFFERS) -> OfferedGpu:
    return OfferedGpu(gpu=board("H100-80GB", 0), offers=offers, policy=None, configured=True)


def result(device: str, consumed: dict[str, str]) -> AllocationResult:
    return AllocationResult(request="r", driver="d", pool="n1", device=device, consumed_capacity=consumed)


def holders(device: str, *consumed: dict[str, str]) -> list[tuple[PreparedClaim, PreparedDevice]]:
    found = [prepared_device(device, consumed=one) for one in consumed]
    return [(prepared_claim(f"c{number}", one), one) for number, one in enumerate(found)]


@pytest.mark.parametrize(
    ("device", "each", "fit", "capacity"),
    [
        (SHARE, {"shares": "1"}, 2, "shares 2"),
        # A record of an agent that did not count.
        (SHARE, {}, 2, "shares 2"),
        # Without a limit, memory is not divided.
        (SHARE, {"shares": "1", "memory": "0"}, 2, "shares 2"),
        (SHARE, {"shares": "1", "memory": "50Gi"}, 1, "memory 81559Mi"),
        (MPS, {"shares": "1", "memory": "1Gi", "threads": "40"}, 2, "threads 100"),
        (MPS, {"shares": "1", "memory": "30Gi", "threads": "10"}, 2, "memory 81559Mi"),
        (MPS, {"shares": "4", "memory": "1Gi", "threads": "5"}, 2, "shares 8"),
    ],
)
def test_shares_of_a_gpu_are_counted(device: str, each: dict[str, str], fit: int, capacity: str) -> None:
    wanted = result(device, each)
    conflicts.refuse_overcommitted(wanted, offered(), holders(device, *[each] * (fit - 1)), [])
    for theirs, own in ((fit, 0), (0, fit), (fit - 1, 1)):
        with pytest.raises(SettingsError) as refused:
            conflicts.refuse_overcommitted(
                wanted, offered(), holders(device, *[each] * theirs), [prepared_device(device, consumed=each)] * own
            )
        assert f"request r: device {device} has {capacity}" in str(refused.value)
        assert not theirs or "default/c0" in str(refused.value)


@pytest.mark.parametrize("device", ["gpu-0", "gpu-0-mig-1g10gb-19-0", SHARE])
def test_what_is_not_shared_or_not_offered_is_not_counted(device: str) -> None:
    many: list[dict[str, Any]] = [{"shares": "1"}] * 9
    conflicts.refuse_overcommitted(result(device, {}), offered(AS_FOUND), holders(device, *many), [])


def test_shares_under_a_former_name_count_as_well() -> None:
    theirs = holders("gpu-0-timeslicing", {"shares": "1"}, {"shares": "1"})
    with pytest.raises(SettingsError, match="shares 2"):
        conflicts.refuse_overcommitted(result("gpu-0r1-timeslicing", {"shares": "1"}), offered(), theirs, [])


def test_another_device_of_the_gpu_takes_nothing() -> None:
    many = holders(MPS, *[{"shares": "1"}] * 8)
    conflicts.refuse_overcommitted(result(SHARE, {"shares": "1"}), offered(), many, [])
