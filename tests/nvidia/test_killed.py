"""Agents that are killed while they cut a GPU: the next one sees what is left, and can put it right."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpusharing import sim
from gpusharing.nvidia.facts import MigPlace
from nvidia.nodes import opened, uuid

PROGRAM = Path(__file__).parent / "programs/cut.py"


def killed_agent(node: sim.SimNode, *, after: float) -> None:
    with subprocess.Popen([sys.executable, PROGRAM, node.directory], stdout=subprocess.PIPE, text=True) as agent:
        assert agent.stdout is not None
        assert agent.stdout.readline() == "begins\n"
        time.sleep(after)
        agent.kill()


@pytest.mark.slow
async def test_kill_minus_nine(tmp_path: Path) -> None:
    node = sim.create(tmp_path / "node", "H100-80GB")
    gpu = uuid(node)
    async with opened(node) as hardware:
        await hardware.set_mig_mode(gpu, enabled=True)
    seen = set()
    for number in range(12):
        killed_agent(node, after=number * 0.0037)
        async with opened(node) as hardware:
            instances = (await hardware.inventory()).gpus[0].instances
            real = node.gpus()[0].gpu_instances
            assert [(one.id, one.is_remnant) for one in instances] == [
                (one.id, not one.compute_instances) for one in real
            ]
            seen.add(tuple(one.is_remnant for one in instances))
            for one in instances:
                # Either way: to its end, or back.
                if number % 2:
                    assert (await hardware.create_mig_instance(gpu, one.place)).now is not None
                assert (await hardware.destroy_mig_instance(gpu, one.place)).found is not None
            assert node.gpus()[0].gpu_instances == ()
            assert (await hardware.create_mig_instance(gpu, MigPlace(0, 0))).changed
            assert (await hardware.destroy_mig_instance(gpu, MigPlace(0, 0))).changed
    # They were killed at different moments.
    assert len(seen) > 1
