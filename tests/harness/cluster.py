"""A control plane and its nodes."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

from harness.controlplane import ControlPlane
from harness.node import Node


@dataclass(kw_only=True, eq=False, repr=False)
class Cluster(ControlPlane):
    node_names: Sequence[str] = ()
    with_cgroup2: bool = False
    """On nodes, whatever this machine has."""
    kubelet_configuration: Mapping[str, Any] = field(default_factory=dict)
    """Of each node's kubelet, beside what all have here."""

    nodes: dict[str, Node] = field(init=False)

    @property
    def node(self) -> Node:
        """The only node."""
        (node,) = self.nodes.values()
        return node

    def _controllers(self) -> str:
        return "*" if self.node_names else super()._controllers()

    async def _start(self, stack: AsyncExitStack) -> None:
        await super()._start(stack)
        self.nodes = {
            name: Node(self, name, with_cgroup2=self.with_cgroup2, kubelet_configuration=self.kubelet_configuration)
            for name in self.node_names
        }
        async with asyncio.TaskGroup() as tasks:
            for node in self.nodes.values():
                tasks.create_task(stack.enter_async_context(node))
