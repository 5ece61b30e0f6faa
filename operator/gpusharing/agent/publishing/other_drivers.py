"""Who else serves the GPUs of this node. Two that give away the same GPUs give them away twice."""

import time
from collections.abc import Iterable, Iterator
from typing import Final

import structlog

from gpusharing.agent.problems import Problem, Reason
from gpusharing.api.core import NodeWithStatus
from gpusharing.api.dra import ResourceSlice
from gpusharing.core.publishing import slice_updates
from gpusharing.kube.kinds import NODES_WITH_STATUS
from gpusharing.kube.transport import Api

log = structlog.get_logger(__name__)

# Seconds between two looks at the Node, which is a large object. Slices are watched.
_LOOK_EVERY: Final = 300.0
_LOOK_EVERY_WHILE_FOUND: Final = 30.0
_RESOURCE: Final = "nvidia.com/gpu"
_MIG_RESOURCES: Final = "nvidia.com/mig-"
_MIG_MANAGER: Final = "nvidia.com/mig.config"
REMEDY: Final = "remove it from this node, or start the agent with --beside-others"


class OtherDrivers:
    def __init__(self, api: Api, *, node: str, driver: str, are_accepted: bool) -> None:
        self._api = api
        self._node = node
        self._driver = driver
        self._are_accepted = are_accepted
        self._of_node: tuple[str, ...] = ()
        self._looked: float | None = None
        self.found: tuple[str, ...] = ()
        """What keeps us from publishing."""

    @property
    def problem(self) -> Problem | None:
        if not self.found:
            return None
        message = f"nothing is published, because others serve the GPUs of this node: {'; '.join(self.found)}: {REMEDY}"
        return Problem(Reason.OTHER_DRIVER_FOUND, message)

    async def look(self, slices: Iterable[ResourceSlice]) -> bool:
        """Whether there are any that nobody has accepted. `slices` are those of our driver's name on this node."""
        if self._are_accepted:
            return False
        every = _LOOK_EVERY_WHILE_FOUND if self.found else _LOOK_EVERY
        if self._looked is None or time.monotonic() - self._looked > every:
            self._of_node = tuple(_on(await self._api.get(NODES_WITH_STATUS, self._node)))
            self._looked = time.monotonic()
        foreign = sorted(one.metadata.name for one in slices if not slice_updates.is_ours(one, driver=self._driver))
        other = f"another DRA driver of the name {self._driver}"
        found = (*(f"{other} has the ResourceSlice {name}" for name in foreign[:1]), *self._of_node)
        if found != self.found:
            log.warning("others serve the GPUs of this node", found=found)
        self.found = found
        return bool(found)


def _on(node: NodeWithStatus) -> Iterator[str]:
    served = {
        name: amount
        for name, amount in (node.status.get("allocatable") or {}).items()
        if (name == _RESOURCE or name.startswith(_MIG_RESOURCES)) and amount != "0"
    }
    if served:
        amounts = ", ".join(f"{amount} {name}" for name, amount in sorted(served.items()))
        yield f"a device plugin offers {amounts}"
    if config := node.metadata.labels.get(_MIG_MANAGER):
        yield f"NVIDIA's MIG manager cuts the GPUs, as the label {_MIG_MANAGER}={config} of the Node says"
