from __future__ import annotations

from gpusharing.sim.errors import SimError
from gpusharing.sim.node import SimNode


def find_gpu(node: SimNode, text: str) -> str:
    """The UUID of the GPU that somebody names by it or by its index."""
    gpus = node.gpus()
    for gpu in gpus:
        if text in (gpu.uuid, str(gpu.index)):
            return gpu.uuid
    raise SimError(f"this node has no GPU {text}: its GPUs are 0 to {len(gpus) - 1}; `gpusharing sim show` lists them")
