"""Agents on a real control plane. What kubelet, scheduler and operator would do, the tests do by the same doors."""

import itertools
import json
import os
import sys
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import aiohttp
from grpclib.client import Channel, UnaryUnaryMethod
from grpclib.exceptions import GRPCError, ProtocolError, StreamTerminatedError

from agent.kubelet.registrar import notify
from gpusharing import sim
from gpusharing.agent.kubelet.pb import dra_pb2 as pb
from gpusharing.api import names, strict_json
from gpusharing.core.claims import allocation
from gpusharing.kube import client_credentials
from gpusharing.kube.kinds import RESOURCE_CLAIMS
from gpusharing.kube.reading import lines
from gpusharing.kube.transport import open_session
from harness.api_servers import AnyControlPlane, apply_manifests
from harness.eventually import PATIENCE, eventually
from harness.gpu_cluster import MANIFESTS, NAMESPACE
from harness.processes import Process
from harness.readiness import accepts
from harness.scratch import scratch_directory
from sim.mps_daemons import kill_programs_of

DRIVER: Final = "gpu.nvidia.com"
RESOURCE: Final = "/apis/resource.k8s.io/v1"
ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
RAW: Final = "stands for the bytes that a test wants there"
SHARINGS: Final = "/apis/gpusharing.dev/v1alpha1/nodesharings"

# What a call meets whose server is killed, or has not started again.
CUT_OFF: Final = (
    OSError,
    GRPCError,
    StreamTerminatedError,
    # Both of grpclib: the connection goes while it is made use of, or as soon as it has come.
    ProtocolError,
    AttributeError,
)

_numbers = itertools.count(1)


async def install(control_plane: AnyControlPlane) -> None:
    await apply_manifests(control_plane, MANIFESTS)
    # Whom GPUs are for, the operator tells this guard, and here there is none.
    async with Admin(control_plane) as admin:
        await admin.call("DELETE", f"{ADMISSION}/validatingadmissionpolicybindings/gpusharing-allocation")


class Admin:
    """The cluster's admin. Bytes are sent as they are, so that a test may send JSON as nobody should write it."""

    def __init__(self, control_plane: AnyControlPlane) -> None:
        self._control_plane = control_plane
        self._session: aiohttp.ClientSession

    async def __aenter__(self) -> Self:
        self._session = open_session(await client_credentials.load(self._control_plane.kubeconfig))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def call(
        self, verb: str, path: str, body: Any = None, *, content_type: str = "application/json", absent: bool = False
    ) -> Any:
        """The answer; with `absent`, None for what is not there."""
        # Opaque parameters are kept as they were sent, and everybody else sends them like this.
        data = body if isinstance(body, bytes) or body is None else strict_json.canonical(body)
        url = self._control_plane.url + path
        headers = {"Content-Type": content_type} if data is not None else {}
        async with self._session.request(verb, url, data=data, headers=headers) as response:
            if absent and response.status == 404:
                return None
            answer = await response.read()
            assert response.status < 300, f"{verb} {path}: {response.status}: {answer.decode(errors='replace')}"
            return strict_json.loads(answer)

    async def events(self, path: str, version: str) -> AsyncIterator[tuple[str, Any]]:
        """What happens after this version, until the API server ends the watch."""
        url = f"{self._control_plane.url}{path}?watch=true&resourceVersion={version}"
        async with self._session.get(url, timeout=aiohttp.ClientTimeout(total=None)) as response:
            assert response.status == 200, await response.text()
            async for line in lines(response.content.iter_any()):
                event = strict_json.loads(line.data)
                assert event["type"] != "ERROR", event
                yield event["type"], event["object"]

    async def merge(self, path: str, patch: Any) -> Any:
        return await self.call("PATCH", path, patch, content_type="application/merge-patch+json")


@dataclass(frozen=True)
class Claim:
    """A ResourceClaim as the kubelet names it."""

    uid: str
    name: str
    namespace: str = "default"

    @property
    def path(self) -> str:
        return f"{RESOURCE}/namespaces/{self.namespace}/resourceclaims/{self.name}"

    def message(self) -> pb.Claim:
        return pb.Claim(namespace=self.namespace, uid=self.uid, name=self.name)


class Kubelet:
    """Calls a driver's socket as the kubelet does."""

    def __init__(self, socket: Path, version: str = "v1") -> None:
        self._socket = socket
        self._service = f"/k8s.io.kubelet.pkg.apis.dra.{version}.DRAPlugin"

    async def prepare(self, *claims: Claim, within: float = PATIENCE) -> dict[str, pb.NodePrepareResourceResponse]:
        request = pb.NodePrepareResourcesRequest(claims=[claim.message() for claim in claims])
        async with self._channel() as channel:
            method = UnaryUnaryMethod(
                channel,
                f"{self._service}/NodePrepareResources",
                pb.NodePrepareResourcesRequest,
                pb.NodePrepareResourcesResponse,
            )
            reply = await method(request, timeout=within)
        return dict(reply.claims)

    async def unprepare(self, *claims: Claim, within: float = PATIENCE) -> dict[str, str]:
        request = pb.NodeUnprepareResourcesRequest(claims=[claim.message() for claim in claims])
        async with self._channel() as channel:
            method = UnaryUnaryMethod(
                channel,
                f"{self._service}/NodeUnprepareResources",
                pb.NodeUnprepareResourcesRequest,
                pb.NodeUnprepareResourcesResponse,
            )
            reply = await method(request, timeout=within)
        return {uid: answer.error for uid, answer in reply.claims.items()}

    @asynccontextmanager
    async def _channel(self) -> AsyncIterator[Channel]:
        channel = Channel(path=str(self._socket))
        try:
            yield channel
        finally:
            channel.close()


class GpuNode:
    """A Node of the cluster with simulated GPUs and an agent. The node has a name of its own, as have its claims."""

    def __init__(self, control_plane: AnyControlPlane, *, gpus: str = "H100-80GB:2", start: bool = True) -> None:
        self._control_plane = control_plane
        self._gpus = gpus
        self._starts = start
        self.registers_driver = True
        """At each start of the agent, as the kubelet does."""
        self.name = f"gpu-node-{next(_numbers)}"
        self.admin = Admin(control_plane)
        self.made: list[Claim] = []
        self._stack = AsyncExitStack()
        self.directory: Path
        self.sim: sim.SimNode
        self.agent: Process
        self.kubeconfig: Path

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.admin)
            self.directory = stack.enter_context(scratch_directory())
            self.sim = sim.create(self.directory / "gpus", self._gpus, seed=self.name)
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self.name}}
            await self.admin.call("POST", "/api/v1/nodes", node)
            stack.push_async_callback(self._clean_up)
            self.kubeconfig = await self._control_plane.service_account_kubeconfig(
                NAMESPACE, "gpusharing-agent", node=self.name
            )
            self.agent = self.process()
            # MPS daemons outlive a killed agent.
            stack.callback(kill_programs_of, self.sim)
            stack.push_async_callback(self._kill_agent)
            if self._starts:
                await self.agent.start()
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and self.agent.log.exists():
            print(self.agent.last_lines(40))
        await self._stack.aclose()

    async def _kill_agent(self) -> None:
        """A test may have put another one in its place."""
        await self.agent.kill()

    async def _clean_up(self) -> None:
        """The Node takes with it what it owns."""
        for claim in self.made:
            await self.admin.call("DELETE", claim.path, absent=True)
        await self.admin.call("DELETE", f"/api/v1/nodes/{self.name}", absent=True)

    # ------------------------------------------------------------------------------------------------ the agent

    @property
    def state(self) -> Path:
        return self.directory / "state"

    @property
    def mps(self) -> Path:
        return self.directory / "mps"

    @property
    def cdi(self) -> Path:
        return self.directory / "cdi"

    @property
    def endpoint(self) -> Path:
        return self.directory / "kubelet/plugins" / DRIVER / "dra.sock"

    @property
    def registration(self) -> Path:
        return self.directory / "kubelet/plugins_registry" / f"{DRIVER}-reg.sock"

    @property
    def kubelet(self) -> Kubelet:
        return Kubelet(self.endpoint)

    def arguments(self, **changes: str | Path) -> list[str | Path]:
        flags: dict[str, str | Path] = {
            "node_name": self.name,
            "kubeconfig": self.kubeconfig,
            "driver_root": self.sim.directory,
            "sysfs_root": self.sim.sys,
            "proc_root": self.sim.proc,
            "dev_root": self.sim.dev,
            "listen": "127.0.0.1:0",
            "kubelet_root": self.directory / "kubelet",
            "cdi_dir": self.cdi,
            "state_dir": self.state,
            "mps_dir": self.mps,
        }
        given = [f"--{name.replace('_', '-')}={value}" for name, value in (flags | changes).items()]
        return [sys.executable, "-m", "gpusharing", "agent", *given, f"--cdi-dir={self.sim.cdi}"]

    def process(self, name: str = "agent", **changes: str | Path) -> Process:
        async def is_ready() -> bool:
            if not await accepts(self.registration):
                return False
            if self.registers_driver:
                await notify(self.registration, registered=True)
            return True

        return Process(
            self.arguments(**changes),
            log=self.directory / f"{name}.log",
            ready=is_ready,
            # As an image has it: compiled before it starts, and without the web's authorities.
            env={"PYTHONDONTWRITEBYTECODE": "", "SSL_CERT_FILE": os.devnull},
        )

    def log(self, event: str) -> list[dict[str, Any]]:
        """The agent's log entries of this event."""
        entries = [json.loads(line) for line in self.agent.log.read_text().splitlines() if line.startswith("{")]
        return [entry for entry in entries if entry["event"] == event]

    # ------------------------------------------------------------------------------------ the operator's side

    @property
    def sharing_path(self) -> str:
        return f"{SHARINGS}/{self.name}"

    async def sharing(self) -> Any:
        return await self.admin.call("GET", self.sharing_path, absent=True)

    async def decide(self, *offers: Mapping[str, Any] | None, policy: str = "shared", **more: Any) -> None:
        """The operator's word on the GPUs, by slot; None: as found. `more` is said of each that has a policy."""
        gpus: list[dict[str, Any]] = []
        for gpu, offer in zip(self.sim.gpus(), offers, strict=False):
            decision: dict[str, Any] = {"uuid": gpu.uuid}
            if offer is not None:
                decision |= {"policy": {"name": policy, "generation": 1}, "offers": offer, **more}
            gpus.append(decision)
        await self.tell({"gpus": gpus})

    async def judge(self, *claims: Claim, denied: str = "", void: bool = False) -> None:
        """The operator's word on claims; others it does not mention any more."""
        told = [
            {
                "uid": claim.uid,
                "claim": f"{claim.namespace}/{claim.name}",
                "allocationHash": "void" if void else await self._digest(claim),
                **({"verdict": "Denied", "reason": denied} if denied else {"verdict": "Allowed"}),
            }
            for claim in claims
        ]
        await self.tell({"claims": told})

    async def _digest(self, claim: Claim) -> str:
        return allocation.digest(RESOURCE_CLAIMS.from_json(await self.admin.call("GET", claim.path)), DRIVER)

    async def tell(self, spec: Mapping[str, Any]) -> None:
        async def exists() -> None:
            assert await self.sharing() is not None

        await eventually(exists)
        sharing = await self.admin.merge(self.sharing_path, {"spec": spec})
        generation = sharing["metadata"]["generation"]

        async def observed() -> None:
            assert (await self.sharing()).get("status", {}).get("observedGeneration") == generation

        await eventually(observed)

    async def approve_closing(self) -> None:
        """The operator's word that nobody holds what is closing."""
        sharing = await self.sharing()
        status = (sharing or {}).get("status", {})
        held = {device["device"] for claim in status.get("claims", ()) for device in claim["settings"]}
        closing = {
            gpu["uuid"]: [
                entry for entry in gpu.get("published", ()) if "closingSince" in entry and entry["device"] not in held
            ]
            for gpu in status.get("gpus", ())
        }
        told = (sharing or {}).get("spec", {}).get("gpus", [])
        gpus = [gpu | _approval(closing.get(gpu["uuid"], [])) for gpu in told]
        if any(_approval_of(gpu) != _approval_of(before) for gpu, before in zip(gpus, told, strict=True)):
            await self.admin.merge(self.sharing_path, {"spec": {"gpus": gpus}})

    # ----------------------------------------------------------------------------------- the scheduler's side

    async def slices(self) -> list[Any]:
        selector = f"fieldSelector=spec.nodeName%3D{self.name}"
        items = (await self.admin.call("GET", f"{RESOURCE}/resourceslices?{selector}"))["items"]
        return sorted(items, key=lambda item: str(item["metadata"]["name"]))

    async def devices(self) -> dict[str, Any]:
        """What the scheduler is offered: of a pool that is complete."""
        return {device.rpartition("/")[2]: found for device, found in (await self.devices_by_pool()).items()}

    async def devices_by_pool(self) -> dict[str, Any]:
        """Likewise, with the pool before the name; a GPU's are in one pool."""
        slices = await self.slices()
        pools = Counter(json.dumps(item["spec"]["pool"], sort_keys=True) for item in slices)
        told = {json.loads(pool)["name"]: json.loads(pool) for pool in pools}
        assert len(told) == len(pools) > 0, pools
        for pool, count in pools.items():
            assert json.loads(pool)["resourceSliceCount"] == count, pools
        found = {
            f"{item['spec']['pool']['name']}/{device['name']}": device
            for item in slices
            for device in item["spec"].get("devices", ())
        }
        homes = {(names.slot_of_device(device), pool) for pool, _, device in (name.rpartition("/") for name in found)}
        assert len(homes) == len({slot for slot, _ in homes}), found.keys()
        return found

    async def offers(self, *names: str, draining: str = "", closing: str = "", approved: bool = True) -> dict[str, Any]:
        """Waits until exactly these devices are offered, and untainted but for those that leave."""

        async def check() -> None:
            if approved:
                await self.approve_closing()
            devices = await self.devices()
            leaving = {draining: "gpusharing.dev/draining", closing: "gpusharing.dev/closing"}
            leaving.pop("", None)
            assert set(devices) == {*names, *leaving}, devices.keys()
            taints = {name: taint["key"] for name in devices for taint in devices[name].get("taints", ())}
            assert taints == leaving, taints

        await eventually(check)
        return await self.devices()

    def whole(self, slot: int = 0, *, request: str = "gpu", **changes: Any) -> dict[str, Any]:
        """An allocation result."""
        return {"request": request, "driver": DRIVER, "pool": self.name, "device": f"gpu-{slot}"} | changes

    def shared(self, slot: int = 0, *, request: str = "gpu", **changes: Any) -> dict[str, Any]:
        share = {"shareID": str(uuid.uuid4()), "consumedCapacity": {"shares": "1", "memory": "0"}}
        return self.whole(slot, request=request, device=f"gpu-{slot}-timeslicing") | share | changes

    async def claim(
        self,
        *results: Mapping[str, Any],
        config: Sequence[Mapping[str, Any]] = (),
        raw: bytes = b"",
        namespace: str = "default",
    ) -> Claim:
        """A claim that the scheduler has allocated."""
        claim = await self.new_claim(*(str(result["request"]) for result in results), namespace=namespace)
        await self.allocate(claim, *results, config=config, raw=raw)
        return claim

    async def new_claim(self, *requests: str, namespace: str = "default") -> Claim:
        metadata = {"name": f"{self.name}-{next(_numbers)}", "namespace": namespace}
        body = {"metadata": metadata, "spec": {"devices": {"requests": _requests(requests)}}}
        made = await self.admin.call("POST", f"{RESOURCE}/namespaces/{namespace}/resourceclaims", body)
        claim = Claim(made["metadata"]["uid"], made["metadata"]["name"], namespace)
        self.made.append(claim)
        return claim

    async def allocate(
        self, claim: Claim, *results: Mapping[str, Any], config: Sequence[Mapping[str, Any]] = (), raw: bytes = b""
    ) -> None:
        """`raw` are the bytes that stand for RAW in the configuration."""
        allocation = {
            "devices": {"results": list(results), "config": list(config)},
            "nodeSelector": node_selector(self.name),
        }
        before = await self.admin.call("GET", claim.path)
        body = strict_json.canonical(before | {"status": {"allocation": allocation}})
        await self.admin.call("PUT", f"{claim.path}/status", body.replace(json.dumps(RAW).encode(), raw))

    async def deallocate(self, claim: Claim) -> None:
        before = await self.admin.call("GET", claim.path)
        await self.admin.call("PUT", f"{claim.path}/status", before | {"status": {}})

    async def status_devices(self, claim: Claim) -> list[Any]:
        found = (await self.admin.call("GET", claim.path))["status"].get("devices", [])
        assert isinstance(found, list)
        return found

    # ----------------------------------------------------------------------------------------------- the node

    def prepared(self) -> set[str]:
        """The uids of claims on disk."""
        return {path.stem for path in (self.state / "claims").glob("*.json")}

    def specs(self) -> dict[str, Any]:
        """Our CDI specs by the claim's uid."""
        prefix = "gpusharing.dev-claim_"
        return {
            path.stem.removeprefix(prefix): json.loads(path.read_bytes()) for path in self.cdi.glob(f"{prefix}*.json")
        }

    def time_slices(self) -> list[sim.Timeslice | None]:
        return [gpu.timeslice for gpu in self.sim.gpus()]


def node_selector(node: str) -> dict[str, Any]:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    return {"nodeSelectorTerms": [term]}


def opaque(parameters: Any, *, source: str = "FromClaim", requests: Sequence[str] = ()) -> dict[str, Any]:
    """A configuration as the scheduler copies it into the allocation."""
    config = {"source": source, "opaque": {"driver": DRIVER, "parameters": parameters}}
    return config | ({"requests": list(requests)} if requests else {})


TIME_SLICING: Final[dict[str, Any]] = {"timeSlicing": {"maxClients": 4, "interval": "Medium"}}
EXCLUSIVE: Final[dict[str, Any]] = {"exclusive": {}}
BOTH: Final[dict[str, Any]] = EXCLUSIVE | TIME_SLICING


def _requests(names: Sequence[str]) -> list[dict[str, Any]]:
    """`gpu/big` is the alternative `big` of request `gpu`."""
    requests: dict[str, dict[str, Any]] = {}
    for name in names:
        base, _, alternative = name.partition("/")
        if alternative:
            request = requests.setdefault(base, {"name": base, "firstAvailable": []})
            request["firstAvailable"].append({"name": alternative, "deviceClassName": DRIVER})
        else:
            requests[base] = {"name": base, "exactly": {"deviceClassName": DRIVER}}
    return list(requests.values())


def _approval(closed: Sequence[Mapping[str, str]]) -> dict[str, list[str]]:
    return {
        "closeApproved": [entry["device"] for entry in closed],
        "closeApprovedSince": [entry["closingSince"] for entry in closed],
    }


def _approval_of(gpu: Mapping[str, Any]) -> list[Any]:
    return [gpu.get(field, []) for field in _approval([])]
