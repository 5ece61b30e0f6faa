"""The nodes of a test as a cluster in which the agents have just reported their GPUs, and nobody uses them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from gpusharing import cel
from gpusharing.api import names
from gpusharing.forecasting import forecast
from gpusharing.forecasting.boards import boards, memory_wall
from gpusharing.sharing_tests import form, installation
from gpusharing.sharing_tests.reading import Loaded
from gpusharing.sim.drivers import find_driver
from gpusharing.sim.errors import SimError
from gpusharing.sim.models import parse_gpus
from gpusharing.snapshots.world import Json, World
from gpusharing.validating.problems import Path

NOW: Final = "2026-01-01T00:00:00Z"
"""There is no clock in a test: nothing in it depends on one."""


def world(loaded: Loaded) -> World:
    """Raises UnusableError."""
    nodes = list(_nodes(loaded))
    guards, bindings = installation.guards()
    return World(
        minor=loaded.test.minor or cel.NEWEST_MINOR,
        taken_at=NOW,
        nodes=[_node(one) for one in nodes],
        node_sharings=[_node_sharing(one) for one in nodes],
        classes=list(installation.classes()),
        guards=guards,
        bindings=bindings,
    )


def namespace(name: str, labels: Mapping[str, str]) -> Json:
    """As the API server makes it."""
    metadata = {"name": name, "labels": {**labels, "kubernetes.io/metadata.name": name}}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def _nodes(loaded: Loaded) -> Iterator[forecast.Node]:
    seen: dict[str, Path] = {}
    for number, group in enumerate(loaded.test.nodes):
        path: Path = ("nodes", number)
        for name in _names(group):
            if name in seen:
                raise loaded.unusable(path, f"another node has the name {name}: set name")
            seen[name] = path
            yield _found(group, name, loaded, path)


def _names(group: form.Nodes) -> Sequence[str]:
    return [f"{group.name}-{number + 1}" for number in range(group.count)] if group.count > 1 else [group.name]


def _found(group: form.Nodes, name: str, loaded: Loaded, path: Path) -> forecast.Node:
    try:
        driver = find_driver(group.driver)
    except SimError as error:
        raise loaded.unusable((*path, "driver"), str(error)) from None
    try:
        found = boards(parse_gpus(group.gpus), driver, node=name)
    except SimError as error:
        raise loaded.unusable((*path, "gpus"), str(error)) from None
    return forecast.Node(name, group.labels, found, memory_wall(driver))


def _node(node: forecast.Node) -> Json:
    ready = {"type": "Ready", "status": "True"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node.name, "labels": {**node.labels, "kubernetes.io/hostname": node.name}},
        "status": {"conditions": [ready]},
    }


def _node_sharing(node: forecast.Node) -> Json:
    metadata: dict[str, Any] = {
        "name": node.name,
        "uid": f"node-sharing-{node.name}",
        "resourceVersion": "1",
        "generation": 1,
    }
    return {
        "apiVersion": names.API_VERSION,
        "kind": "NodeSharing",
        "metadata": metadata,
        "spec": {},
        "status": forecast.found(node).to_json(),
    }
