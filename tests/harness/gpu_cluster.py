"""A cluster in which our own programs run: operator and agent, with the rights of manifests/base, on simulated GPUs."""

import os
import shutil
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from gpusharing import sim
from harness import agent_environment
from harness.cluster import Cluster
from harness.definitions import until_established
from harness.ending import end_all
from harness.node import Node
from harness.processes import Process
from harness.scratch import programs_below

MANIFESTS = Path(__file__).parents[2] / "manifests" / "base"
CLOSING_GUARD = MANIFESTS / "closing-guard.yaml"
NAMESPACE = "gpusharing-system"

_ANY_PORT = ("--listen", "127.0.0.1:0")
_RESTARTED = ("sh", Path(__file__).with_name("restarted.sh"))
# As an image has it: modules are compiled when it is built, not each time a program starts, and nobody trusts the
# authorities of the public web.
_ENVIRONMENT = {"PYTHONDONTWRITEBYTECODE": "", "SSL_CERT_FILE": os.devnull}


@dataclass(kw_only=True, eq=False, repr=False)
class GpuCluster(Cluster):
    gpus: str = "H100-80GB:2"
    """The GPUs of each node, as for `gpusharing sim create`."""
    quirks: sim.Quirk = sim.quirks.NONE
    """Of the nodes' drivers."""
    agent_options: Sequence[str | Path] = ()
    """Beside those that every agent here needs."""

    operator: Process = field(init=False)
    agents: dict[str, Process] = field(init=False)
    simulated: dict[str, sim.SimNode] = field(init=False)

    @property
    def agent(self) -> Process:
        """The only node's."""
        (agent,) = self.agents.values()
        return agent

    @property
    def sim_node(self) -> sim.SimNode:
        """The only node's GPUs."""
        (node,) = self.simulated.values()
        return node

    def state_directory(self, node: Node) -> Path:
        return node.directory / "agent"

    def mps_directory(self, node: Node) -> Path:
        return node.directory / "mps"

    @asynccontextmanager
    async def switched_off(self, *, cleanly: bool = False) -> AsyncIterator[None]:
        """The only node. Inside, its hardware and disks can be changed; then it boots."""
        for program in (self.agent, self.node.kubelet, self.node.containerd):
            await (program.stop() if cleanly else program.kill())
        await self.node.switch_off()
        end_all(lambda: programs_below(self.sim_node.directory))
        shutil.rmtree(self.mps_directory(self.node), ignore_errors=True)
        self.sim_node.unload_driver()
        yield
        self.sim_node.reboot()
        await self.node.switch_on()
        await self.agent.start()

    async def _start(self, stack: AsyncExitStack) -> None:
        await super()._start(stack)
        await self.kubectl("apply", "--kustomize", str(MANIFESTS))
        # No image of it is on the node: the operator runs beside the cluster, as the agents do.
        await self.kubectl("scale", "deployment/gpusharing-operator", f"--namespace={NAMESPACE}", "--replicas=0")
        await until_established(self)
        self.operator = await stack.enter_async_context(await self._operator())
        self.simulated, self.agents = {}, {}
        for name, node in self.nodes.items():
            self.simulated[name] = self._simulate(node)
            self.agents[name] = await stack.enter_async_context(await self._agent(node))

    def _simulate(self, node: Node) -> sim.SimNode:
        simulated = sim.create(node.directory / "gpus", self.gpus, seed=node.name, quirks=self.quirks)
        etc, _ = node.cdi_dirs
        shutil.copytree(simulated.cdi, etc, dirs_exist_ok=True)
        return simulated

    async def _operator(self) -> Process:
        kubeconfig = await self.service_account_kubeconfig(NAMESPACE, "gpusharing-operator")
        # It ends when the API server is away for long.
        return _program(
            sys.executable,
            "operator",
            "--kubeconfig",
            kubeconfig,
            *_ANY_PORT,
            log=self.directory / "logs",
            env=_ENVIRONMENT,
            start=_RESTARTED,
        )

    async def _agent(self, node: Node) -> Process:
        kubeconfig = await self.service_account_kubeconfig(NAMESPACE, "gpusharing-agent", node=node.name)
        etc, run = node.cdi_dirs
        simulated = self.simulated[node.name]
        arguments: list[str | Path] = ["--node-name", node.name, "--kubeconfig", kubeconfig]
        arguments += ["--driver-root", simulated.directory, "--sysfs-root", simulated.sys]
        arguments += ["--proc-root", simulated.proc, "--dev-root", simulated.dev, *_ANY_PORT]
        arguments += ["--kubelet-root", node.kubelet_root, "--cdi-dir", run, "--cdi-dir", etc]
        # On the node, as its pod is: containerd sees the mounts that it makes.
        return node.process(
            [
                agent_environment.python(),
                "-m",
                "gpusharing",
                "agent",
                *arguments,
                "--state-dir",
                self.state_directory(node),
                "--mps-dir",
                self.mps_directory(node),
                *self.agent_options,
            ],
            log=node.directory / "logs" / "agent.log",
            env=agent_environment.variables(),
        )


def _program(
    python: str | Path,
    command: str,
    *arguments: str | Path,
    log: Path,
    env: Mapping[str, str],
    start: Sequence[str | Path] = (),
) -> Process:
    argv = [*start, python, "-m", "gpusharing", command, *arguments]
    return Process(argv, log=log / f"{command}.log", env=env)
