"""Which MPS daemons claims want, and with which limits."""

import itertools

import pytest

from agent.samples import prepared_device
from gpusharing.agent.settling.mps import _joined
from gpusharing.api.sharing.device_settings import MpsSettings
from gpusharing.nvidia.mps.daemon import MpsLimits

A, B = "GPU-a", "GPU-b"


@pytest.mark.parametrize(
    ("wanted", "limits"),
    [
        ([(A, 20, 1024)], MpsLimits(threads=20, memory_mib={A: 1024})),
        ([(A, 20, 1024), (A, 50, 512)], MpsLimits(threads=50, memory_mib={A: 1024})),
        ([(A, 20, 1024), (B, 50, 512), (B, 30, 700)], MpsLimits(threads=50, memory_mib={A: 1024, B: 700})),
        ([(A, 100, None), (B, 10, 512)], MpsLimits(threads=100, memory_mib={B: 512})),
    ],
)
def test_limits_of_a_daemon_do_not_depend_on_the_order_of_claims(
    wanted: list[tuple[str, int, int | None]], limits: MpsLimits
) -> None:
    for order in itertools.permutations(wanted):
        joined = None
        for uuid, threads, memory in order:
            device = prepared_device("gpu-0", uuid=uuid)
            mps = MpsSettings(most_threads=threads, most_memory=memory)
            settings = device.settings.model_copy(update={"mps": mps})
            joined = _joined(joined, device.model_copy(update={"settings": settings}))
        assert joined == limits
