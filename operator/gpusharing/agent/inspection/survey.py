"""A look at all GPUs of the node, and who has to hear of it."""

from gpusharing.agent.health.node_health import NodeHealth
from gpusharing.agent.publishing.node_gpus import NodeGpus
from gpusharing.agent.settling.gates import Gates
from gpusharing.agent.walls.claim_walls import Walls
from gpusharing.nvidia.gpu_node import GpuNode


class Survey:
    def __init__(self, *, hardware: GpuNode, walls: Walls, gpus: NodeGpus, health: NodeHealth, gates: Gates) -> None:
        self._hardware = hardware
        self._walls = walls
        self._gpus = gpus
        self._health = health
        self._gates = gates

    async def take(self) -> None:
        """Nobody waits for it: of a GPU that was being changed meanwhile, what was made or destroyed would look as if
        others had done it, so it stays as it was seen before."""
        marks = self._gates.marks()
        inventory = await self._hardware.inventory()
        walls = await self._walls.supports(state.board.uuid for state in inventory.gpus)
        busy = {uuid for uuid in walls if self._gates.changed_since(uuid, marks)}
        self._gpus.found(inventory.gpus, walls, busy=busy)
        self._health.record_inspection(inventory, self._gpus.uuids)
        await self._gpus.remember()
