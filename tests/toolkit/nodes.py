"""Simulated nodes with GPUs of all kinds, whole, cut and half cut."""

from dataclasses import dataclass
from pathlib import Path

import pynvml

from gpusharing import sim
from gpusharing.sim import faults
from nvidia.nodes import driver_of
from sim import calls


@dataclass(frozen=True)
class Instance:
    """A GPU instance with compute instances, by NVML's numbers for how large they are; without any, a remnant."""

    profile: str
    start: int
    compute_instances: tuple[int, ...]


ONE, TWO, THREE, FOUR, SEVEN = range(5)

# For each GPU its model and, where MIG is on, what it is cut into.
LAYOUTS: dict[str, tuple[tuple[str, tuple[Instance, ...] | None], ...]] = {
    "whole": (("A100-40GB", None), ("H100-80GB", None), ("L4", None), ("T4", None)),
    "one of each model": tuple((model, None) for model in sim.MODELS),
    "cut": (
        ("A100-40GB", (Instance("3g.20gb", 4, (THREE,)), Instance("1g.5gb+me", 0, (ONE,)))),
        ("L4", None),
        ("H100-80GB", tuple(Instance("1g.10gb", start, (ONE,)) for start in range(7))),
        ("H100-80GB", None),
    ),
    "with GPUs in MIG mode that have no MIG device": (
        ("H100-80GB", ()),
        ("A30", (Instance("2g.12gb", 2, ()),)),
        ("H200", (Instance("4g.71gb", 0, ()), Instance("1g.18gb", 6, (ONE,)))),
    ),
    "cut in parts of parts": (
        ("L4", None),
        ("H100-80GB", (Instance("3g.40gb", 0, (TWO, ONE)), Instance("2g.20gb", 4, (ONE,)))),
    ),
    "without any whole GPU": (
        ("RTX-PRO-6000", (Instance("2g.48gb-me", 0, (TWO,)), Instance("1g.24gb+me.all", 6, (ONE,)))),
        ("RTX-PRO-6000", (Instance("2g.48gb+gfx", 6, (TWO,)), Instance("1g.24gb+me", 0, (ONE,)))),
        ("B200", (Instance("7g.180gb", 0, (SEVEN,)),)),
        ("H100-NVL", (Instance("4g.47gb", 0, (FOUR,)), Instance("1g.24gb", 4, (ONE,)))),
    ),
}


def create(directory: Path, layout: str, *, driver: str = "615") -> sim.SimNode:
    gpus = LAYOUTS[layout]
    node = sim.create(directory, ",".join(model for model, _ in gpus), driver=driver)
    with driver_of(node):
        pynvml.nvmlInit()
        for index, (_, instances) in enumerate(gpus):
            if instances is not None:
                gpu = calls.enable_mig(index)
                for instance in instances:
                    _make(node, gpu, instance)
        pynvml.nvmlShutdown()
    return node


def _make(node: sim.SimNode, gpu: calls.Handle, instance: Instance) -> None:
    if not instance.compute_instances:
        uuid = pynvml.nvmlDeviceGetUUID(gpu)
        node.inject(faults.LoneGpuInstance(uuid, instance.profile, instance.start))
        return
    gpu_instance = calls.place(gpu, instance.profile, instance.start)
    for profile in instance.compute_instances:
        pynvml.nvmlGpuInstanceCreateComputeInstance(gpu_instance, profile)
