"""What is counted of Prepare and Unprepare."""

import asyncio
from pathlib import Path

import pytest

from agent.metrics.pages import samples
from agent.samples import prepared_claim, prepared_device
from gpusharing.agent.claims.reading import ClaimRef, PrepareError
from gpusharing.agent.containers.cdi import UnresolvableError
from gpusharing.agent.metrics.claims import ClaimMeter, Reason
from gpusharing.agent.state.models import PreparedClaim
from gpusharing.agent.state.records import Records
from gpusharing.agent.walls.claim_walls import NoWallError
from gpusharing.core.claims.settings import SettingsError
from gpusharing.kube.transport import ApiError, UnreachableError
from gpusharing.nvidia.errors import DriverHungError, GpuLostError

REF = ClaimRef("uid-one", "default", "one")
REASONS = [
    (ApiError("GET", "/claims", 403, "Forbidden", "no"), Reason.API_SERVER),
    (UnreachableError("no route"), Reason.API_SERVER),
    (None, Reason.STALE),
    (SettingsError("request gpu: no"), Reason.REFUSED),
    (UnresolvableError("no such device"), Reason.CDI),
    (NoWallError("no hook"), Reason.MEMORY_WALL),
    (GpuLostError("it is gone"), Reason.GPU),
    (DriverHungError("no answer"), Reason.DRIVER),
    (PermissionError("read-only"), Reason.FILES),
]


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return Records(tmp_path)


def counted(meter: ClaimMeter, what: str) -> dict[str, float]:
    """Of all claims, and of those that failed, the reasons."""
    found = samples(meter.families)
    failures = {
        name: value for name, value in found.items() if name.startswith(f"gpusharing_agent_{what}_failures") and value
    }
    reasons = {name.partition('reason="')[2].rstrip('"}'): value for name, value in failures.items()}
    return {"all": found[f"gpusharing_agent_{what}s_total"], **reasons}


@pytest.mark.parametrize(("cause", "reason"), REASONS, ids=lambda value: type(value).__name__)
async def test_reasons(records: Records, cause: Exception | None, reason: Reason) -> None:
    async def fails(ref: ClaimRef, within: float) -> PreparedClaim:
        raise PrepareError(f"claim {ref.display_name}") from cause

    async def fails_to_unprepare(ref: ClaimRef, within: float) -> None:
        await fails(ref, within)

    meter = ClaimMeter(records)
    with pytest.raises(PrepareError):
        await meter.metered_prepare(fails)(REF, 45)
    with pytest.raises(PrepareError):
        await meter.metered_unprepare(fails_to_unprepare)(REF, 45)
    assert counted(meter, "prepare") == counted(meter, "unprepare") == {"all": 1, reason: 1}
    assert not [name for name in samples(meter.families) if "duration" in name]


async def test_a_mistake_of_ours_and_a_kubelet_that_does_not_wait(records: Records) -> None:
    async def fails(ref: ClaimRef, within: float) -> PreparedClaim:
        raise RuntimeError(ref.name)

    async def hangs(ref: ClaimRef, within: float) -> PreparedClaim:
        await asyncio.sleep(60)
        raise AssertionError(ref)

    meter = ClaimMeter(records)
    with pytest.raises(RuntimeError):
        await meter.metered_prepare(fails)(REF, 45)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(meter.metered_prepare(hangs)(REF, 45), 0.01)
    assert counted(meter, "prepare") == {"all": 2, Reason.INTERNAL: 1, Reason.ABANDONED: 1}


@pytest.mark.parametrize(
    ("devices", "sharing"),
    [
        (["gpu-0"], "Exclusive"),
        (["gpu-0-timeslicing", "gpu-1-timeslicing"], "TimeSlicing"),
        (["gpu-0-mps"], "MPS"),
        (["gpu-0-mig-1g10gb-19-0"], "MIG"),
        (["gpu-0", "gpu-1-timeslicing"], "Mixed"),
    ],
)
async def test_durations_by_sharing(records: Records, devices: list[str], sharing: str) -> None:
    claim = prepared_claim("one", *(prepared_device(device) for device in devices))

    async def prepare(_: ClaimRef, within: float) -> PreparedClaim:
        await asyncio.sleep(0.03)
        records.put_claim(claim)
        return claim

    async def unprepare(ref: ClaimRef, within: float) -> None:
        records.drop_claim(ref.uid)

    meter = ClaimMeter(records)
    assert await meter.metered_prepare(prepare)(REF, 45) == claim
    # The second time there is nothing to do, of which nobody wants to know how long it took.
    for _ in range(2):
        await meter.metered_unprepare(unprepare)(REF, 45)
    found = samples(meter.families)
    assert counted(meter, "prepare") == {"all": 1}
    assert counted(meter, "unprepare") == {"all": 2}
    prefix, label = "gpusharing_agent", f'{{sharing="{sharing}"}}'
    assert found[f"{prefix}_prepare_duration_seconds_count{label}"] == 1
    assert 0.03 <= found[f"{prefix}_prepare_duration_seconds_sum{label}"] < 5
    assert found[f"{prefix}_unprepare_duration_seconds_count{label}"] == 1
