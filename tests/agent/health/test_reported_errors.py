"""Errors that GPUs report, between one inspection and the next."""

from pathlib import Path

import pytest

from gpusharing import sim
from gpusharing.agent.health.node_health import NodeHealth
from gpusharing.agent.state.records import Records
from gpusharing.api.sharing.gpu_status import Reason
from gpusharing.sim import faults
from nvidia.nodes import opened


# An older driver does not say itself that the GPU has to be recovered: what is forgotten, nobody learns again.
@pytest.mark.parametrize("driver", ["580", "550"])
async def test_an_error_just_after_the_driver_was_loaded_anew_is_remembered(
    tmp_path: Path, records: Records, driver: str
) -> None:
    node = sim.create(tmp_path / "node", "H100-80GB:2", driver=driver)
    uuid, neighbour = (gpu.uuid for gpu in node.gpus())
    health = NodeHealth(records, problem=lambda _: None)

    def reasons(gpu: str) -> list[Reason]:
        return [finding.reason for finding in health.findings(gpu)]

    async with opened(node) as hardware:
        health.record_inspection(await hardware.inventory(), [uuid, neighbour])
        await hardware.events()
        node.inject(faults.Xid(neighbour, 48))
        health.record_events(await hardware.events())
        assert Reason.FATAL_XID in reasons(neighbour)

        node.reload_driver()
        # The watch breaks with the driver, and begins again.
        assert await hardware.events() == ()
        node.inject(faults.Xid(uuid, 48))
        health.record_events(await hardware.events())
        health.record_inspection(await hardware.inventory(), [uuid, neighbour])
        assert Reason.FATAL_XID in reasons(uuid)
        assert reasons(neighbour) == []

        node.reload_driver()
        health.record_inspection(await hardware.inventory(), [uuid, neighbour])
        assert reasons(uuid) == []
