"""Device selectors in CEL, read and evaluated exactly as kube-scheduler does.

    program = cel.compile('device.attributes["gpu.nvidia.com"].architecture == "Hopper"', minor=37)
    device = cel.Device("gpu.nvidia.com", attributes, capacity)
    program.match(device)

There are three outcomes: True, False, and EvaluationError, which stops an allocation in Kubernetes and must never pass
for False.
"""

from gpusharing.cel.compilation import compile  # noqa: A004 (as `re.compile`)
from gpusharing.cel.cost.prices import COST_LIMIT
from gpusharing.cel.declarations import NEWEST_MINOR
from gpusharing.cel.device import Device
from gpusharing.cel.errors import BudgetError, CelError, CompileError, EvaluationError
from gpusharing.cel.program import Program

__all__ = [
    "COST_LIMIT",
    "NEWEST_MINOR",
    "BudgetError",
    "CelError",
    "CompileError",
    "Device",
    "EvaluationError",
    "Program",
    "compile",
]
