"""A real node, kubelet and containerd, joined to a control plane; needs root."""

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from string import Template
from types import TracebackType
from typing import Any, Self

from harness import cgroup2, images
from harness.commands import run
from harness.controlplane import ControlPlane
from harness.loopback import free_ports
from harness.namespace import namespace, process_in
from harness.network import NodeNetwork
from harness.processes import Process
from harness.readiness import accepts, answers
from harness.scratch import remove_cgroups, scratch_directory
from harness.system import system_program

_HERE = Path(__file__).parent


def node_unavailable_reason() -> str | None:
    """Why no node can run here, if so."""
    if os.geteuid() != 0:
        return "a node needs root"
    tried = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "true"], capture_output=True, text=True, check=False
    )
    return f"a node needs namespaces of its own: {tried.stderr.strip()}" if tried.returncode else None


class Node:
    """A machine of the cluster, in mount and PID namespaces of its own."""

    kubelet: Process
    containerd: Process
    directory: Path

    def __init__(
        self,
        control_plane: ControlPlane,
        name: str = "node-1",
        *,
        with_cgroup2: bool = False,
        network: NodeNetwork | None = None,
    ) -> None:
        """Without a `network` a pod has an address only inside of itself, and the node is in the network of this
        machine."""
        self.name = name
        self._network = network
        self._with_cgroup2 = with_cgroup2
        self._control_plane = control_plane

    @property
    def kubelet_root(self) -> Path:
        """Has plugins/, plugins_registry/ and pod-resources/ below it."""
        return self.directory / "kubelet"

    @property
    def cdi_dirs(self) -> tuple[Path, Path]:
        """What /etc/cdi and /var/run/cdi are on other nodes."""
        etc, run = self._cdi_dirs_inside
        return etc, self.seen_from_outside(str(run)) if self._network else run

    @property
    def _cdi_dirs_inside(self) -> tuple[Path, Path]:
        """As the node's programs see them."""
        home = self.directory / "cdi"
        return home / "etc", Path("/run/cdi") if self._network else home / "run"

    @property
    def state_directory(self) -> Path:
        """What /var/lib/gpusharing is on other nodes."""
        return self.directory / "state"

    @property
    def simulated_directory(self) -> Path:
        """What /var/lib/gpusharing-simulated is on other nodes."""
        return self.directory / "simulated"

    @property
    def containerd_socket(self) -> Path:
        return self.directory / "containerd.sock"

    def seen_from_outside(self, path: str) -> Path:
        """A file as the node's programs see it."""
        return Path(f"/proc/{self._init.pid}/root{path}")

    def process(
        self,
        argv: Sequence[str | Path],
        *,
        log: Path,
        ready: Callable[[], Awaitable[bool]] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Process:
        """A program in the namespaces of this node, to be started; it sees the mounts of the pods."""
        return process_in(self._init, argv, log=log, ready=ready, env={"PATH": self._path(), **(env or {})})

    async def run(self, *command: str | Path) -> str:
        """In the node's mount and network namespaces; what it prints."""
        return await run(["nsenter", f"--target={self._init.pid}", "--mount", "--net", "--", *command])

    async def switch_off(self) -> None:
        """As a power cut: the end of all its programs, its mounts and what it has in memory. Disks are kept."""
        await self._init.kill()
        for program in (self.kubelet, self.containerd):
            await program.kill()
        # Where a cluster starts it, it is on a tmpfs of the machine.
        remove_cgroups(self.directory)
        shutil.rmtree(self.directory / "containerd" / "state", ignore_errors=True)
        for spec in (self.directory / "cdi" / "run").iterdir():
            spec.unlink()

    async def switch_on(self) -> None:
        """Up to its kubelet."""
        (self.directory / "namespace-is-ready").unlink()
        await self._init.start()
        await self.containerd.start()
        await self.kubelet.start()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await self._start(stack)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def _start(self, stack: AsyncExitStack) -> None:
        self.directory = stack.enter_context(scratch_directory())
        for name in ("kubelet", "cdi/etc", "cdi/run", "state", "simulated"):
            (self.directory / name).mkdir(parents=True)
        self._init = namespace(self.directory, self._network.namespace if self._network else None)
        await stack.enter_async_context(self._init.killed_at_end())
        if self._with_cgroup2:
            await self.run(*cgroup2.MOUNT)
        self.containerd = self._containerd()
        await stack.enter_async_context(self.containerd.killed_at_end())
        self.kubelet = await self._kubelet()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._import_images())
            tasks.create_task(stack.enter_async_context(self.kubelet.killed_at_end()))
            tasks.create_task(self._until_node_is_ready())

    def _containerd(self) -> Process:
        cni = self.directory / "cni"
        cni.mkdir()
        if self._network:
            self._network.configure(cni)
        else:
            self._give_addresses_inside(cni)

        template = Template((_HERE / "containerd.toml").read_text())
        configuration = self.directory / "containerd.toml"
        configuration.write_text(
            template.substitute(
                directory=self.directory,
                cni_plugins=self._network.programs if self._network else cni,
                cdi_spec_dirs=json.dumps([str(directory) for directory in self._cdi_dirs_inside]),
                runc=self._runc(),
                sandbox_image=images.PAUSE,
            )
        )
        return self.process(
            [self._control_plane.programs / "containerd", "--config", configuration],
            log=self._log("containerd"),
            ready=lambda: accepts(self.containerd_socket),
        )

    def _give_addresses_inside(self, cni: Path) -> None:
        (cni / "pod-address").write_text((_HERE / "cni.sh").read_text().replace("/bin/busybox", str(images.busybox())))
        (cni / "pod-address").chmod(0o755)
        network = {"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "pod-address"}]}
        (cni / "pods.conflist").write_text(json.dumps(network))

    def _runc(self) -> Path:
        runc = system_program("runc", package="runc")
        return cgroup2.without_controllers(runc, self.directory) if self._with_cgroup2 else runc

    async def _kubelet(self) -> Process:
        # A port that is free on this machine is so in a namespace where only nodes of this cluster listen.
        port, health_port = free_ports(self._control_plane.address, 2)
        address = str(self._network.address) if self._network else self._control_plane.address
        kubeconfig = await self._control_plane.user_kubeconfig(f"system:node:{self.name}", "system:nodes")
        configuration = self.directory / "kubelet.json"
        configuration.write_text(json.dumps(await self._kubelet_configuration(address, port, health_port), indent=2))
        return self.process(
            [
                self._control_plane.programs / "kubelet", f"--config={configuration}", f"--kubeconfig={kubeconfig}",
                f"--root-dir={self.kubelet_root}", f"--hostname-override={self.name}", f"--node-ip={address}",
            ],
            log=self._log("kubelet"),
            ready=lambda: answers(f"http://{address}:{health_port}/healthz"),
        )  # fmt: skip

    async def _kubelet_configuration(self, address: str, port: int, health_port: int) -> dict[str, Any]:
        ca = self._control_plane.ca
        server = await ca.server(f"kubelet-{self.name}", f"IP:{address}")
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": address,
            "port": port,
            "healthzBindAddress": address,
            "healthzPort": health_port,
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(ca.certificate)},
            },
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": str(server.certificate),
            "tlsPrivateKeyFile": str(server.key),
            "kubeAPIQPS": 2000,
            "kubeAPIBurst": 2000,
            "featureGates": dict(self._control_plane.feature_gates),
            "containerRuntimeEndpoint": f"unix://{self.containerd_socket}",
            "podLogsDir": str(self.directory / "pods"),
            "volumePluginDir": str(self.directory / "volume-plugins"),
            "resolvConf": "",
            "makeIPTablesUtilChains": False,
            # A pod whose devices could not be prepared is tried again at the next sync, not before: by default after
            # one to one and a half minutes.
            "syncFrequency": "5s",
            # A container that ends is started again at once, whenever it ended before.
            "crashLoopBackOff": {"maxContainerRestartPeriod": "1s"},
            # A machine of any kind: cgroup v1 too, swap, a disk that is nearly full.
            "failCgroupV1": False,
            "cgroupDriver": "cgroupfs",
            "cgroupsPerQOS": False,
            "enforceNodeAllocatable": [],
            "failSwapOn": False,
            "localStorageCapacityIsolation": False,
            "evictionHard": {
                "memory.available": "1Mi",
                "nodefs.available": "0%",
                "nodefs.inodesFree": "0%",
                "imagefs.available": "0%",
            },
            "imageGCHighThresholdPercent": 100,  # what is collected cannot be pulled again
        }

    async def import_image(self, archive: Path) -> None:
        """Of an archive as OCI has it, or `docker save`."""
        await self._ctr("images", "import", archive)

    async def name_image(self, name: str, *others: str) -> None:
        await self._ctr("images", "tag", name, *others)

    async def _ctr(self, *arguments: str | Path) -> None:
        containerd = [f"--address={self.containerd_socket}", "--namespace=k8s.io"]
        await run([self._control_plane.programs / "ctr", *containerd, *arguments])

    async def _import_images(self) -> None:
        archive = self.directory / "images.tar"
        images.write_images(archive)
        await self.import_image(archive)

    async def _until_node_is_ready(self) -> None:
        kubectl, node = self._control_plane.kubectl, f"node/{self.name}"
        await kubectl("wait", "--for=create", node, "--timeout=60s")
        if self._network is None:
            # The kubelet publishes no loopback address, but keeps one; logs and exec need it.
            addresses = {"status": {"addresses": [{"type": "InternalIP", "address": self._control_plane.address}]}}
            await kubectl("patch", node, "--subresource=status", "--type=merge", f"--patch={json.dumps(addresses)}")
        await kubectl("wait", "--for=condition=Ready", node, "--timeout=60s")

    def _path(self) -> str:
        return f"{self._control_plane.programs}:{os.environ.get('PATH', '')}:/usr/sbin:/sbin"

    def _log(self, program: str) -> Path:
        return self.directory / "logs" / f"{program}.log"
