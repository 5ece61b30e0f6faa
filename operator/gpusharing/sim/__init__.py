"""A simulated GPU node at the level of the driver's library, so that unmodified NVML clients run without a GPU."""

from gpusharing.sim import faults
from gpusharing.sim.errors import SimError
from gpusharing.sim.gpus import ComputeInstance, Gpu, GpuInstance, MigMode, Process
from gpusharing.sim.models import MODELS, Model
from gpusharing.sim.node import SimNode, create
from gpusharing.sim.quirks import Quirk
from gpusharing.sim.state import ComputeMode, ProcessKind, Timeslice

__all__ = [
    "MODELS",
    "ComputeInstance",
    "ComputeMode",
    "Gpu",
    "GpuInstance",
    "MigMode",
    "Model",
    "Process",
    "ProcessKind",
    "Quirk",
    "SimError",
    "SimNode",
    "Timeslice",
    "create",
    "faults",
]
