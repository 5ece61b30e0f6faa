"""Everything that runs in the demo but the API server: operator, agents, and who plays Kubernetes' other parts."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gpusharing.api import crd
from gpusharing.core.cluster.guards import in_use
from gpusharing.demo import nodes, programs
from gpusharing.demo.apiserver import EmbeddedApiServer
from gpusharing.demo.claims import ClaimController
from gpusharing.demo.cluster import CRDS, NODES, PODS, Cluster, Json, following, running_beside
from gpusharing.demo.eviction import Eviction
from gpusharing.demo.nodes import DemoNode
from gpusharing.demo.programs import Program
from gpusharing.demo.scheduler import Scheduler
from gpusharing.sharing_tests import installation

NAMESPACE: Final = "gpusharing-system"
MINOR: Final = 37
"""Of the Kubernetes that is played."""
_ESTABLISHED_WITHIN: Final = 30.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Stage:
    directory: Path
    kubeconfig: Path
    cluster: Cluster
    operator: Program
    nodes: Sequence[DemoNode]
    is_isolated: bool

    def node(self, name: str) -> DemoNode:
        return next(one for one in self.nodes if one.name == name)

    def ended_program(self) -> Program | None:
        """One that should run, and does not."""
        return next((one for one in (self.operator, *(node.agent for node in self.nodes)) if one.has_ended), None)


@asynccontextmanager
async def stage(directory: Path, server: EmbeddedApiServer, *, is_isolated: bool) -> AsyncIterator[Stage]:
    """Nobody is waited for: the story sees who comes when."""
    await install(server.kubeconfig)
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(following(server.kubeconfig))
        begin = await stack.enter_async_context(running_beside())
        for part in (ClaimController(cluster), Scheduler(cluster, minor=MINOR), Eviction(cluster)):
            begin(part.run())
        operator = programs.operator(_kubeconfig(server, "gpusharing-operator"), directory)
        running = [operator]
        stack.push_async_callback(_stop, running)
        operator.start()
        made = []
        for name, gpus in nodes.GPUS.items():
            await cluster.patch(
                NODES, await cluster.create(NODES, nodes.as_object(name)), nodes.ready(), subresource="status"
            )
            kubeconfig = _kubeconfig(server, "gpusharing-agent", node=name)
            node = nodes.make(name, gpus, directory / name, kubeconfig, cluster, is_isolated=is_isolated)
            running.append(node.agent)
            node.agent.start()
            begin(node.kubelet.run())
            pod = await cluster.create(PODS, nodes.agent_pod(node), NAMESPACE)
            await cluster.patch(PODS, pod, nodes.agent_pod_status(node), subresource="status")
            made.append(node)
        yield Stage(
            directory=directory,
            kubeconfig=server.kubeconfig,
            cluster=cluster,
            operator=operator,
            nodes=made,
            is_isolated=is_isolated,
        )


async def _stop(programs: Sequence[Program]) -> None:
    await asyncio.gather(*(one.stop() for one in programs))


def _kubeconfig(server: EmbeddedApiServer, account: str, *, node: str = "") -> Path:
    """As a pod of the ServiceAccount has it, on this node."""
    return server.add_user(
        f"system:serviceaccount:{NAMESPACE}:{account}",
        "system:serviceaccounts",
        f"system:serviceaccounts:{NAMESPACE}",
        "system:authenticated",
        extra={"authentication.kubernetes.io/node-name": (node,)} if node else None,
    )


async def install(kubeconfig: Path) -> None:
    """What `kubectl apply -k manifests/base` brings, but for programs and their rights."""
    definitions = [crd.to_crd(one) for one in crd.DEFINITIONS]
    async with following(kubeconfig, [CRDS]) as cluster:
        await cluster.apply(*definitions)
        names = {one["metadata"]["name"] for one in definitions}
        await cluster.until(lambda: names <= set(_established(cluster)), within=_ESTABLISHED_WITHIN)
        await cluster.apply(namespace(NAMESPACE), *_installation())


def _established(cluster: Cluster) -> Iterator[str]:
    for one in cluster.all(CRDS):
        for condition in (one.get("status") or {}).get("conditions") or ():
            if condition["type"] == "Established" and condition["status"] == "True":
                yield one["metadata"]["name"]


def _installation() -> Iterator[Json]:
    yield from installation.classes()
    for some in installation.guards():
        yield from some
    yield from in_use.in_use()


def namespace(name: str, **labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
