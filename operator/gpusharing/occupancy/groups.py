"""By what `top` groups."""

from collections.abc import Sequence
from typing import Final

from gpusharing.occupancy.fleet import Fleet, Use
from gpusharing.occupancy.sums import of_gpus

GPU: Final = "gpu"
NODE: Final = "node"
NAMESPACE: Final = "namespace"
POLICY: Final = "policy"
GROUPS: Final = (GPU, NODE, NAMESPACE, POLICY)


def uses(fleet: Fleet, group: str) -> Sequence[Use]:
    """Sums by anything but GPUs."""
    match group:
        case "node":
            return [of_gpus(node.name, node.gpus) for node in fleet.nodes]
        case "namespace":
            return fleet.namespaces
        case _:
            return fleet.policies
