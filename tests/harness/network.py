"""The network of a cluster whose pods have addresses.

Nodes and pods are in a network namespace of the cluster's own. A link leads to this machine, at whose end the servers
of the cluster listen. The kernel removes all of it when the process ends that holds the namespace.

  this machine                          namespace of the cluster
  kube-apiserver, tests --- gs-N ~ eth0 --- nodes --- bridge of a node --- pods
"""

import json
import os
import random
from contextlib import AsyncExitStack
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from harness import toolchain
from harness.commands import CommandError, run
from harness.processes import Process
from harness.system import system_program

# For measurements between networks (RFC 2544): no network that this machine is in uses them.
_ALL: Final = IPv4Network("198.18.0.0/15")
# The first /24 of a cluster's part has the ends of the link, and each node has one of the others for its pods.
_PART: Final = 21

_SERVICE: Final = """
table ip services {{
  chain from-pods {{ type nat hook prerouting priority -100; {rule}; }}
  chain from-nodes {{ type nat hook output priority -100; {rule}; }}
}}
"""


@dataclass(frozen=True)
class NodeNetwork:
    """What a node has of it."""

    namespace: Path
    address: IPv4Address
    pods: IPv4Network
    bridge: str
    programs: Path

    def configure(self, directory: Path) -> None:
        """Writes what containerd reads."""
        ipam = {
            "type": "host-local",
            "ranges": [[{"subnet": str(self.pods)}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        }
        # A pod may call a Service that leads back to itself.
        bridge = {"type": "bridge", "bridge": self.bridge, "isGateway": True, "hairpinMode": True, "ipam": ipam}
        network = {"cniVersion": "1.0.0", "name": self.bridge, "plugins": [bridge]}
        (directory / "pods.conflist").write_text(json.dumps(network))


class Network:
    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._programs = toolchain.build_network_plugins()
        self._part: IPv4Network
        self._interface: str
        self._holder: Process
        self._stack: AsyncExitStack

    @property
    def servers(self) -> IPv4Address:
        """This machine, as nodes and pods reach it."""
        return self._part[1]

    @property
    def _nodes(self) -> IPv4Address:
        return self._part[2]

    @property
    def _namespace(self) -> Path:
        return Path(f"/proc/{self._holder.pid}/ns/net")

    async def add_node(self, index: int) -> NodeNetwork:
        """All nodes have one address. Their pods have addresses of their own, which this machine reaches as well."""
        _, *parts = self._part.subnets(new_prefix=24)
        await run(["ip", "route", "add", str(parts[index]), "via", str(self._nodes), "dev", self._interface])
        return NodeNetwork(self._namespace, self._nodes, parts[index], f"pods-{index}", self._programs)

    async def serve(self, service: str, port: int) -> None:
        """Leads an address of a Service to a server on this machine."""
        rule = f"ip daddr {service} tcp dport 443 dnat to {self.servers}:{port}"
        await self._inside(system_program("nft", package="nftables"), "--file", "-", stdin=_SERVICE.format(rule=rule))

    async def __aenter__(self) -> Self:
        self._holder = Process(
            ["unshare", "--net", "sleep", "infinity"], log=self._logs / "network.log", ready=self._has_namespace
        )
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._holder.killed_at_end())
            await self._link()
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def _has_namespace(self) -> bool:
        return os.readlink(self._namespace) != os.readlink("/proc/self/ns/net")  # noqa: PTH115 (an async function)

    async def _link(self) -> None:
        await self._take_part()
        ip = ["ip", "-batch", "-"]
        await run(ip, stdin=f"address add {self.servers}/24 dev {self._interface}\nlink set {self._interface} up\n")
        inside = f"address add {self._nodes}/24 dev eth0\nlink set eth0 up\nlink set lo up\n"
        await self._inside(*ip, stdin=f"{inside}route add default via {self.servers}\n")
        # What the bridge plugin sets only when it has made the first pod.
        await self._inside("sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward")

    async def _take_part(self) -> None:
        """Each cluster of this machine has another one: the kernel refuses the name of an interface that exists."""
        parts = list(enumerate(_ALL.subnets(new_prefix=_PART)))
        random.SystemRandom().shuffle(parts)
        for number, part in parts:
            self._part, self._interface = part, f"gs-{number}"
            peer = ["peer", "name", "eth0", "netns", str(self._holder.pid)]
            try:
                await run(["ip", "link", "add", self._interface, "type", "veth", *peer])
            except CommandError as error:
                if "File exists" not in str(error):
                    raise
            else:
                return
        raise CommandError(f"{len(parts)} clusters have a network here; there is no room for another one")

    async def _inside(self, *command: str | Path, stdin: str = "") -> None:
        await run(["nsenter", f"--net={self._namespace}", "--", *command], stdin=stdin)
