"""A real Kubernetes control plane on loopback, ready in a few seconds, as many side by side as wanted."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from harness import toolchain
from harness.certificates import Certificate, CertificateAuthority, signing_key
from harness.commands import run
from harness.kubeconfig import write_kubeconfig
from harness.loopback import free_ports, own_address
from harness.processes import Process
from harness.reader import Reader
from harness.readiness import answers
from harness.scratch import scratch_directory

_KUBELET_CLIENT = "kube-apiserver-kubelet-client"
_SERVICES = "10.96.0.0/16"
KUBERNETES_SERVICE = "10.96.0.1"
"""The API server's, the first of them."""
_ISSUER = "https://kubernetes.default.svc"
# It ends before collecting its garbage is worth a quarter of its time.
_KUBECTL_ENVIRONMENT = {"GOGC": "off"}
# Servers live for minutes: memory for a tenth less processor time.
_SERVER_ENVIRONMENT = {"GOGC": "200"}


@dataclass(kw_only=True, eq=False, repr=False)
class ControlPlane:
    """etcd, kube-apiserver, kube-controller-manager and kube-scheduler, each as its own user with its own rights.

    There is no node: pods can be bound to Node objects that the test makes, but nothing runs them.
    """

    emulated_version: str | None = None  # such as "1.36"
    feature_gates: Mapping[str, bool] = field(default_factory=dict)  # for all components
    runtime_config: str = ""  # such as "resource.k8s.io/v1beta2=true"
    apiserver_flags: Sequence[str] = ()
    scheduler_flags: Sequence[str] = ()

    programs: Path = field(init=False)
    directory: Path = field(init=False)  # removed at the end
    address: str = field(init=False)  # of all servers of this cluster
    port: int = field(init=False)  # of the API server
    url: str = field(init=False)
    ca: CertificateAuthority = field(init=False)
    kubeconfig: Path = field(init=False)  # of the tests' admin, in system:masters
    etcd: Process = field(init=False)
    apiserver: Process = field(init=False)
    controller_manager: Process = field(init=False)
    scheduler: Process = field(init=False)
    _reader: Reader = field(init=False)
    _stack: AsyncExitStack = field(init=False)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await self._start(stack)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def kubectl(self, *arguments: str | Path, stdin: str = "", kubeconfig: Path | None = None) -> str:
        """Runs kubectl, as the admin unless another's kubeconfig is given, and returns what it prints."""
        common = [f"--kubeconfig={kubeconfig or self.kubeconfig}", f"--cache-dir={self.directory}/kubectl-cache"]
        return await run([self.programs / "kubectl", *common, *arguments], stdin=stdin, env=_KUBECTL_ENVIRONMENT)

    async def get(self, *arguments: str) -> Any:
        """What `kubectl get` with these arguments and `--output=json` tells the admin."""
        return await self._reader.get(*arguments)

    async def user_kubeconfig(self, user: str, *groups: str) -> Path:
        """A kubeconfig for any user, who has the rights that RBAC gives to the name and the groups."""
        certificate = await self.ca.client(user, *groups)
        return self._write_kubeconfig(user, certificate)

    async def service_account_token(self, namespace: str, name: str, *, node: str | None = None) -> str:
        """A token of a ServiceAccount, as a pod of it on this node has."""
        bound = ["--bound-object-kind=Node", f"--bound-object-name={node}"] if node else []
        return (await self.kubectl("create", "token", name, f"--namespace={namespace}", *bound)).strip()

    async def service_account_kubeconfig(self, namespace: str, name: str, *, node: str | None = None) -> Path:
        token = await self.service_account_token(namespace, name, node=node)
        return self._write_kubeconfig(f"{namespace}-{name}-{node}" if node else f"{namespace}-{name}", token)

    def _write_kubeconfig(self, name: str, user: Certificate | str) -> Path:
        # A colon would separate two files in the variable KUBECONFIG.
        path = self.directory / f"{name.replace(':', '-')}.kubeconfig"
        return write_kubeconfig(path, server=self.url, ca=self.ca.certificate, user=user)

    def _controllers(self) -> str:
        """Nobody renews the Leases of the tests' Node objects: they would be tainted after 40 s."""
        return "*,-node-lifecycle-controller"

    async def _listen_address(self, _stack: AsyncExitStack) -> str:
        """Where all servers listen; what that needs goes with the cluster."""
        return own_address()

    async def _start(self, stack: AsyncExitStack) -> None:
        self.programs = toolchain.build()
        self.directory = stack.enter_context(scratch_directory())
        self.address = await self._listen_address(stack)
        etcd_port, peer_port, self.port, manager_port, scheduler_port = free_ports(self.address, 5)
        self.url = f"https://{self.address}:{self.port}"
        self.ca = CertificateAuthority(self.directory / "pki")
        await self.ca.create()

        self.etcd = self._etcd(etcd_port, peer_port)
        self.apiserver = await self._apiserver(self.port, etcd_port)
        self.controller_manager = await self._controller_manager(manager_port)
        self.scheduler = await self._scheduler(scheduler_port)
        admin = await self.ca.client("admin", "system:masters")
        self.kubeconfig = self._write_kubeconfig("admin", admin)
        self._reader = Reader(self.address, self.port, ca=self.ca.certificate, user=admin)

        await stack.enter_async_context(self.etcd.killed_at_end())
        await stack.enter_async_context(self.apiserver.killed_at_end())
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(stack.enter_async_context(self.controller_manager.killed_at_end()))
            tasks.create_task(stack.enter_async_context(self.scheduler.killed_at_end()))
            tasks.create_task(self._allow_kubelet_access())
            tasks.create_task(self._until_pods_are_accepted())

    async def _allow_kubelet_access(self) -> None:
        role, user = "--clusterrole=system:kubelet-api-admin", f"--user={_KUBELET_CLIENT}"
        await self.kubectl("create", "clusterrolebinding", _KUBELET_CLIENT, role, user)

    async def _until_pods_are_accepted(self) -> None:
        """Pods are refused before their namespace has its ServiceAccount."""
        await self.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=60s")

    def _etcd(self, client_port: int, peer_port: int) -> Process:
        client, peer = f"http://{self.address}:{client_port}", f"http://{self.address}:{peer_port}"
        return Process(
            [
                self.programs / "etcd", f"--data-dir={self.directory}/etcd", "--unsafe-no-fsync",
                f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
                f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster=default={peer}",
            ],
            log=self._log("etcd"),
            env=_SERVER_ENVIRONMENT,
            ready=lambda: answers(f"{client}/health"),
        )  # fmt: skip

    async def _apiserver(self, port: int, etcd_port: int) -> Process:
        server = await self.ca.server(
            "kube-apiserver", f"IP:{self.address}", f"IP:{KUBERNETES_SERVICE}", "DNS:kubernetes.default.svc"
        )
        kubelet_client = await self.ca.client(_KUBELET_CLIENT)
        tokens_key = self.directory / "pki" / "service-accounts.key"
        await signing_key(tokens_key)
        return Process(
            [
                self.programs / "kube-apiserver", f"--etcd-servers=http://{self.address}:{etcd_port}",
                f"--bind-address={self.address}", f"--secure-port={port}",
                f"--advertise-address={self.address}", "--endpoint-reconciler-type=none",
                f"--tls-cert-file={server.certificate}", f"--tls-private-key-file={server.key}",
                f"--client-ca-file={self.ca.certificate}",
                "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
                f"--service-account-issuer={_ISSUER}", f"--service-account-key-file={tokens_key}",
                f"--service-account-signing-key-file={tokens_key}", f"--service-cluster-ip-range={_SERVICES}",
                "--allow-privileged", "--kubelet-preferred-address-types=InternalIP",
                f"--kubelet-certificate-authority={self.ca.certificate}",
                f"--kubelet-client-certificate={kubelet_client.certificate}",
                f"--kubelet-client-key={kubelet_client.key}",
                *([f"--runtime-config={self.runtime_config}"] if self.runtime_config else []),
                *self._versions(), *self.apiserver_flags,
            ],
            log=self._log("kube-apiserver"),
            env=_SERVER_ENVIRONMENT,
            ready=lambda: answers(f"{self.url}/readyz", ca=self.ca.certificate),
            # Without etcd it would wait for minutes.
            stop_within=8,
        )  # fmt: skip

    async def _controller_manager(self, port: int) -> Process:
        tokens_key = self.directory / "pki" / "service-accounts.key"
        return await self._client(
            "kube-controller-manager", port,
            f"--controllers={self._controllers()}", "--use-service-account-credentials",
            f"--service-account-private-key-file={tokens_key}", f"--root-ca-file={self.ca.certificate}",
            f"--cluster-signing-cert-file={self.ca.certificate}", f"--cluster-signing-key-file={self.ca.key}",
            f"--flex-volume-plugin-dir={self.directory}/volume-plugins",  # the default would be created in /usr
        )  # fmt: skip

    async def _scheduler(self, port: int) -> Process:
        return await self._client("kube-scheduler", port, *self.scheduler_flags)

    async def _client(self, program: str, port: int, *flags: str) -> Process:
        """A component that is a client of the API server, as user system:<program>."""
        server = await self.ca.server(program, f"IP:{self.address}")
        kubeconfig = await self.user_kubeconfig(f"system:{program}")
        return Process(
            [
                self.programs / program, f"--kubeconfig={kubeconfig}", f"--authentication-kubeconfig={kubeconfig}",
                f"--authorization-kubeconfig={kubeconfig}", "--leader-elect=false",
                f"--bind-address={self.address}", f"--secure-port={port}",
                f"--tls-cert-file={server.certificate}", f"--tls-private-key-file={server.key}",
                "--kube-api-qps=2000", "--kube-api-burst=2000",
                *self._versions(), *flags,
            ],
            log=self._log(program),
            env=_SERVER_ENVIRONMENT,
            ready=lambda: answers(f"https://{self.address}:{port}/healthz", ca=self.ca.certificate),
        )  # fmt: skip

    def _versions(self) -> list[str]:
        gates = ",".join(f"{gate}={str(on).lower()}" for gate, on in self.feature_gates.items())
        return [
            *([f"--emulated-version=kube={self.emulated_version}"] if self.emulated_version else []),
            *([f"--feature-gates={gates}"] if gates else []),
        ]

    def _log(self, program: str) -> Path:
        return self.directory / "logs" / f"{program}.log"
