"""Kueue next to a control plane: its manager as a program, with the CRDs, rights and webhooks of its own manifests."""

import base64
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from harness import toolchain
from harness.controlplane import ControlPlane
from harness.definitions import until_established
from harness.loopback import free_ports
from harness.processes import Process
from harness.readiness import answers

NAMESPACE: Final = "kueue-system"
_ACCOUNT: Final = "kueue-controller-manager"
_SERVICE: Final = "kueue-webhook-service"
_SECRET: Final = "kueue-webhook-server-cert"  # noqa: S105 (its name)
# Without pods, nobody answers for its APIService, and without that these have no use.
_LEFT_OUT: Final = frozenset({"APIService", "Deployment", "FlowSchema", "PriorityLevelConfiguration", "Service"})


class Kueue(Process):
    """It makes the certificate of its webhooks itself. The test plays the kubelet that mounts it."""

    def __init__(self, control_plane: ControlPlane, kubeconfig: Path) -> None:
        self._control_plane = control_plane
        self._directory = control_plane.directory / "kueue"
        self._certificates = self._directory / "certificates"
        self._address = control_plane.address
        self.webhook_port, self._health_port = free_ports(control_plane.address, 2)
        super().__init__(
            [toolchain.build_kueue(), f"--config={self._directory / 'config.yaml'}"],
            log=control_plane.directory / "logs" / "kueue.log",
            env={"KUBECONFIG": str(kubeconfig)},
            ready=self._is_ready,
        )

    @classmethod
    async def of(cls, control_plane: ControlPlane) -> "Kueue":
        """Not started: that needs a Configuration."""
        manifests = toolchain.kueue_source() / "config" / "default"
        objects = [
            one
            for one in yaml.safe_load_all(await control_plane.kubectl("kustomize", manifests))
            if one["kind"] not in _LEFT_OUT
        ]
        await _create(control_plane, [one for one in objects if one["kind"] == "Namespace"])
        await control_plane.kubectl("create", "serviceaccount", _ACCOUNT, f"--namespace={NAMESPACE}")
        kubeconfig = await control_plane.service_account_kubeconfig(NAMESPACE, _ACCOUNT)
        kueue = cls(control_plane, kubeconfig)
        rest = [one for one in objects if one["kind"] not in {"Namespace", "ServiceAccount"}]
        for one in rest:
            for client in _webhook_clients(one):
                client["service"]["port"] = kueue.webhook_port
        await _create(control_plane, [*rest, kueue.service()])
        await until_established(control_plane)
        return kueue

    def configure(self, part: Mapping[str, Any]) -> None:
        """Kueue reads it when it starts. `part`: as an export has it."""
        own = {
            "health": {"healthProbeBindAddress": f"{self._address}:{self._health_port}"},
            "metrics": {"bindAddress": "0"},
            "webhook": {"host": self._address, "port": self.webhook_port, "certDir": str(self._certificates)},
            "leaderElection": {"leaderElect": False},
            "integrations": {"frameworks": ["batch/job"]},
        }
        gates = {"VisibilityOnDemand": False, **part.get("featureGates", {})}
        self._certificates.mkdir(parents=True, exist_ok=True)
        (self._directory / "config.yaml").write_text(json.dumps({**part, **own, "featureGates": gates}))

    def service(self) -> dict[str, Any]:
        """By which the API server reaches the webhooks without pods, at the name in their certificate."""
        spec = {"type": "ExternalName", "externalName": self._address}
        metadata = {"name": _SERVICE, "namespace": NAMESPACE}
        return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}

    async def _is_ready(self) -> bool:
        if not any(self._certificates.iterdir()):
            await self._mount()
        return await answers(f"http://{self._address}:{self._health_port}/readyz")

    async def _mount(self) -> None:
        """The certificate, as soon as Kueue has made it."""
        found = await self._control_plane.get("secret", _SECRET, f"--namespace={NAMESPACE}")
        for name, data in (found.get("data") or {}).items():
            (self._certificates / name).write_bytes(base64.b64decode(data))


def _webhook_clients(one: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from (webhook["clientConfig"] for webhook in one.get("webhooks") or ())
    if one["kind"] == "CustomResourceDefinition" and "conversion" in one["spec"]:
        yield one["spec"]["conversion"]["webhook"]["clientConfig"]


async def _create(control_plane: ControlPlane, objects: list[dict[str, Any]]) -> None:
    body = {"apiVersion": "v1", "kind": "List", "items": objects}
    await control_plane.kubectl("create", "--filename=-", stdin=json.dumps(body))
