"""A control plane and its nodes."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from harness.controlplane import KUBERNETES_SERVICE, ControlPlane
from harness.network import Network
from harness.node import Node


@dataclass(kw_only=True, eq=False, repr=False)
class Cluster(ControlPlane):
    node_names: Sequence[str] = ()
    with_cgroup2: bool = False
    """On nodes, whatever this machine has."""
    with_pod_network: bool = False
    """Pods have addresses that others reach, and the API server has its Service address."""

    nodes: dict[str, Node] = field(init=False)
    _network: Network | None = field(init=False, default=None)

    @property
    def node(self) -> Node:
        """The only node."""
        (node,) = self.nodes.values()
        return node

    def _controllers(self) -> str:
        return "*" if self.node_names else super()._controllers()

    async def _listen_address(self, stack: AsyncExitStack) -> str:
        if not self.with_pod_network:
            return await super()._listen_address(stack)
        self._network = await stack.enter_async_context(Network(self.directory / "logs"))
        return str(self._network.servers)

    async def _start(self, stack: AsyncExitStack) -> None:
        await super()._start(stack)
        if self._network:
            await self._network.serve(KUBERNETES_SERVICE, self.port)
        self.nodes = {}
        for index, name in enumerate(self.node_names):
            self.nodes[name] = Node(
                self,
                name,
                with_cgroup2=self.with_cgroup2,
                network=await self._network.add_node(index) if self._network else None,
            )
        async with asyncio.TaskGroup() as tasks:
            for node in self.nodes.values():
                tasks.create_task(stack.enter_async_context(node))
