"""A simulated GPU node at the level of the driver's library, so that unmodified NVML clients run without a GPU."""

from gpusharing.sim.errors import SimError
from gpusharing.sim.models import MODELS, Model
from gpusharing.sim.node import Gpu, Process, SimNode, create
from gpusharing.sim.state import ComputeMode, ProcessKind, Timeslice

__all__ = [
    "MODELS",
    "ComputeMode",
    "Gpu",
    "Model",
    "Process",
    "ProcessKind",
    "SimError",
    "SimNode",
    "Timeslice",
    "create",
]
