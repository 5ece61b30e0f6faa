"""A cluster whose driver can hold containers to a part of a GPU's memory, with NVIDIA's hook and ours on the node."""

from dataclasses import dataclass
from pathlib import Path

from gpusharing import sim
from harness.gpu_cluster import GpuCluster
from harness.node import Node
from toolkit.machine import machine
from toolkit.toolkit import Toolkit


@dataclass(kw_only=True, eq=False, repr=False)
class WalledCluster(GpuCluster):
    """Its last GPU cannot."""

    nvidia_tools: Path
    gpus: str = "H100-80GB:3"
    with_cgroup2: bool = True

    def _simulate(self, node: Node) -> sim.SimNode:
        simulated = sim.create(node.directory / "gpus", self.gpus, seed=node.name, driver="615")
        simulated.set_memory_limits_supported(simulated.gpus()[-1].uuid, supported=False)
        with machine(simulated) as where:
            Toolkit(self.nvidia_tools, where, simulated).generate(node.cdi_dirs[0] / "nvidia.json")
        # The agent runs on the node, by whose paths its driver knows cgroups.
        (simulated.sys / "fs").mkdir()
        (simulated.sys / "fs/cgroup").symlink_to("/sys/fs/cgroup")
        return simulated
