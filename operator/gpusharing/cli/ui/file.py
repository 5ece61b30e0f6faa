"""`gpusharing ui --snapshot`: a file as the source of the page."""

import time
from collections.abc import Sequence

from gpusharing.explaining.scene import Scene
from gpusharing.occupancy.of_file import of_file
from gpusharing.planning.changes import Plan
from gpusharing.snapshots.world import World
from gpusharing.ui import details
from gpusharing.ui.history import Sample
from gpusharing.ui.picture import Details, Picture
from gpusharing.ui.planning import plan_of


class FileSource:
    """It never changes."""

    def __init__(self, world: World) -> None:
        self._world = world
        policies = sorted(Scene.of_file(world).policies.values(), key=lambda one: one.metadata.name)
        self._picture = Picture(number=1, fleet=of_file(world), policies=tuple(policies))

    @property
    def samples(self) -> Sequence[Sample]:
        return ()

    def picture(self) -> Picture:
        return self._picture

    def later(self, number: int, patience: float) -> Picture:  # noqa: ARG002 (there is none)
        time.sleep(patience)
        return self._picture

    def plan(self, text: bytes) -> Plan:
        return plan_of(text, lambda: self._world)


class FileLookup:
    def __init__(self, world: World) -> None:
        self._scene = Scene.of_file(world)

    def gpu(self, node: str, name: str) -> Details | None:
        return details.of_gpu(self._scene, node, name)

    def node(self, name: str) -> Details | None:
        return details.of_node(self._scene, name)

    def pod(self, namespace: str, name: str) -> Details | None:
        return details.of_pod_named(self._scene, namespace, name)

    def policy(self, name: str) -> Details | None:
        return details.of_policy(self._scene, name)
