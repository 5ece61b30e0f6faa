"""A look at all GPUs of the node, and who has to hear of it."""

from gpusharing.agent.gpus import NodeGpus
from gpusharing.agent.hardware.protocol import GpuNode
from gpusharing.agent.health import NodeHealth
from gpusharing.agent.walls.walls import Walls


class Survey:
    def __init__(self, *, hardware: GpuNode, walls: Walls, gpus: NodeGpus, health: NodeHealth) -> None:
        self._hardware = hardware
        self._walls = walls
        self._gpus = gpus
        self._health = health

    async def take(self) -> None:
        """With the gate: what is made or destroyed meanwhile would look as if others had done it."""
        inventory = await self._hardware.inventory()
        walls = await self._walls.supports(state.board.uuid for state in inventory.gpus)
        self._gpus.found(inventory.gpus, walls)
        self._health.looked(inventory, self._gpus.uuids)
