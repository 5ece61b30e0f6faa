"""Pods of all modes that come and go, and what is known of each: whether it works, on which GPU, who may end it."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import aiohttp

from agent.on_cluster import RESOURCE, Admin
from chaos.invariants import MAX_CLIENTS, Invariant, Look, Program, Violation
from harness.gpu_cluster import GpuCluster
from harness.workloads import claim_spec, pod, policy, template
from node.user import SHARED, WHOLE

MOST_PODS: Final = 6
"""Fewer than GPUs: whatever is placed where, there is room for one more pod, so that it need not wait."""
TENANTS: Final = "search"
STRANGERS: Final = "strangers"
RESERVED: Final = "reserved"
CLASSES: Final = {
    "whole": WHOLE, "share": SHARED, "mps": "mps.gpu.nvidia.com", "mig": "mig.nvidia.com",
    "tenant": f"{RESERVED}-timeslicing",
}  # fmt: skip
ANY_RESERVED: Final = "any-reserved"
"""A class with which an administrator's mistake lets strangers ask for reserved GPUs."""

_TIME_SLICING: Final = {"maxClients": MAX_CLIENTS, "interval": "Short"}
POLICIES: Final = (
    policy(
        "all-modes",
        offers={
            "exclusive": {},
            "timeSlicing": _TIME_SLICING,
            "mps": {
                "maxClients": MAX_CLIENTS,
                "memory": {"default": "8Gi", "max": "16Gi"},
                "threads": {"default": 25},
            },
            "mig": {"profiles": ["1g.10gb"]},
        },
    ),
    policy(
        RESERVED,
        priority=100,
        gpus={"maxPerNode": 1},
        offers={"timeSlicing": _TIME_SLICING},
        tenants={"namespaces": {"matchLabels": {"team": TENANTS}}},
    ),
)
_SCRIPT: Final = """
gpu=$(env | sed -n 's/^GPUSHARING_GPU_[0-9A-Z_]*=\\([A-Z]*-.*-.*\\)$/\\1/p')
exec "{directory}/bin/cuda-process" --gpu="$gpu" --memory=64M --heartbeat="{heartbeat}"
"""


@dataclass(eq=False)
class Witness:
    """A pod whose program works on its GPU all the time."""

    namespace: str
    name: str
    kind: str
    program: Program | None = None
    """The last one seen."""
    gpu: str | None = None
    """On which it was seen first."""
    is_deleted: bool = False
    may_end: bool = False
    """A fault may have ended its program; nobody else may."""

    @property
    def id(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"


class Churn:
    def __init__(self, cluster: GpuCluster, admin: Admin, seed: str, note: Callable[[str], None]) -> None:
        self._cluster = cluster
        self._admin = admin
        self._random = random.Random(seed)  # noqa: S311
        self._note = note
        self._count = 0
        self._goes_on = asyncio.Event()
        self._goes_on.set()
        self.witnesses: dict[str, Witness] = {}

    async def prepare(self) -> None:
        """Policies, classes and namespaces."""
        (self._cluster.sim_node.directory / "witnesses").mkdir()
        for namespace, labels in ((TENANTS, {"team": TENANTS}), (STRANGERS, {})):
            await self._admin.call("POST", "/api/v1/namespaces", _named("v1", "Namespace", namespace, labels=labels))
        for policy_ in POLICIES:
            await self._admin.call("POST", "/apis/gpusharing.dev/v1alpha1/sharingpolicies", policy_)
        expression = f"device.driver == 'gpu.nvidia.com' && device.attributes['gpusharing.dev'].policy == '{RESERVED}'"
        mistake = _named("resource.k8s.io/v1", "DeviceClass", ANY_RESERVED)
        mistake["spec"] = {"selectors": [{"cel": {"expression": expression}}]}
        await self._admin.call("POST", f"{RESOURCE}/deviceclasses", mistake)
        for namespace in ("default", TENANTS, STRANGERS):
            await self._cluster.kubectl("wait", "--for=create", "serviceaccount/default", f"--namespace={namespace}")
        for policy_ in POLICIES:
            name = f"sharingpolicy/{policy_['metadata']['name']}"
            await self._cluster.kubectl("wait", name, "--for=condition=Ready", "--timeout=60s")
        kinds = [(_namespace(kind), kind, class_) for kind, class_ in CLASSES.items()]
        for namespace, name, class_ in [*kinds, (STRANGERS, "stranger", ANY_RESERVED)]:
            made = template(name, claim_spec(class_))
            made["metadata"]["namespace"] = namespace
            await self._admin.call("POST", f"{RESOURCE}/namespaces/{namespace}/resourceclaimtemplates", made)

    # ------------------------------------------------------------------------------------------- coming and going

    async def run(self) -> None:
        """Without an API server nobody comes or goes."""
        while True:
            await asyncio.sleep(self._random.uniform(0.2, 1.5))
            await self._goes_on.wait()
            present = self.present()
            try:
                if len(present) < MOST_PODS and self._random.random() < 0.7:
                    await self.begin(self._random.choice(list(CLASSES)))
                elif present:
                    grace = self._random.choice((None, None, None, 0, 1))
                    await self.end(self._random.choice(present), grace=grace)
            except aiohttp.ClientError:
                continue

    def pause(self) -> None:
        self._goes_on.clear()

    def resume(self) -> None:
        self._goes_on.set()

    def present(self) -> list[Witness]:
        """Those that are to work."""
        return [one for one in self.witnesses.values() if not one.is_deleted and one.namespace != STRANGERS]

    async def begin(self, kind: str, *, namespace: str = "") -> Witness:
        self._count += 1
        witness = Witness(namespace or _namespace(kind), f"{kind}-{self._count}", kind)
        # Known before it runs.
        self.witnesses[witness.id] = witness
        try:
            await self._admin.call("POST", f"/api/v1/namespaces/{witness.namespace}/pods", self._pod(witness))
        except aiohttp.ClientError:
            # The API server may have taken it all the same.
            witness.is_deleted = True
            raise
        self._note(f"pod {witness.id} begins")
        return witness

    async def end(self, witness: Witness, *, grace: int | None = None) -> None:
        """`grace` of 0: by force, so that the API forgets it while it may still run."""
        witness.is_deleted = True
        query = "" if grace is None else f"?gracePeriodSeconds={grace}"
        self._note(f"pod {witness.id} ends{' by force' if grace == 0 else ''}")
        await self._admin.call("DELETE", f"{witness.path}{query}", absent=True)

    async def agree_with_api(self) -> list[str]:
        """Pods that are still in the API; those of which we know that they were to go are told again. After etcd was
        put back, pods that came since have never been, and some that went are back."""
        listed = (await self._admin.call("GET", "/api/v1/pods"))["items"]
        there = {f"{item['metadata']['namespace']}/{item['metadata']['name']}": item for item in listed}
        for witness in list(self.witnesses.values()):
            item = there.get(witness.id)
            if item is None:
                witness.is_deleted = True
                if witness.program is None:
                    del self.witnesses[witness.id]
            elif witness.is_deleted and "deletionTimestamp" not in item["metadata"]:
                await self.end(witness, grace=0)
        failed = {
            witness.id: there[witness.id]["status"]
            for witness in self.present()
            if witness.id in there and there[witness.id]["status"].get("phase") == "Failed"
        }
        if failed:
            told = {id_: status.get("message") or status.get("reason") for id_, status in failed.items()}
            raise Violation(Invariant.COMES_BACK, f"pods failed for good: {told}")
        return [id_ for id_ in there if id_ not in self.witnesses or self.witnesses[id_].is_deleted]

    def _pod(self, witness: Witness) -> dict[str, Any]:
        directory = str(self._cluster.sim_node.directory)
        made = pod(witness.name, template=witness.kind)
        made["metadata"]["namespace"] = witness.namespace
        made["spec"]["terminationGracePeriodSeconds"] = 1
        made["spec"]["volumes"] = [{"name": "driver", "hostPath": {"path": directory}}]
        (container,) = made["spec"]["containers"]
        container["volumeMounts"] = [{"name": "driver", "mountPath": directory}]
        heartbeat = f"{directory}/witnesses/{witness.namespace}.{witness.name}"
        container["command"] = ["sh", "-c", _SCRIPT.format(directory=directory, heartbeat=heartbeat)]
        return made

    # ------------------------------------------------------------------------------------------------ who works

    def excuse(self, whom: Callable[[Witness], bool]) -> None:
        """From now on until everything works again, their programs may end."""
        for witness in self.witnesses.values():
            witness.may_end |= whom(witness)

    def all_work(self) -> None:
        """What ends from now on, ends for another reason."""
        for witness in self.witnesses.values():
            witness.may_end = False

    def follow(self, look: Look) -> None:
        """Raises a violation where a program has gone that nobody was to end, or has come back somewhere else."""
        for witness in self.witnesses.values():
            self._follow(witness, look, look.program_of(witness.id))

    def _follow(self, witness: Witness, look: Look, now: Program | None) -> None:
        before = witness.program
        if before and (now is None or now.life != before.life) and not (witness.is_deleted or witness.may_end):
            what = "ended" if now is None else "ended, and its container was started anew"
            raise Violation(Invariant.OWN_GPU, f"the program of {witness.id} ({before.device}) {what}")
        witness.program = now
        gpu = look.gpu_of(now) if now else None
        if gpu is None:
            return
        if witness.gpu not in {None, gpu.uuid}:
            raise Violation(Invariant.OWN_GPU, f"{witness.id} had {witness.gpu}, and has {gpu.uuid} now")
        witness.gpu = gpu.uuid

    def waiting(self) -> list[str]:
        """Those that are to work and do not."""
        return [witness.id for witness in self.present() if witness.program is None]


def _namespace(kind: str) -> str:
    return TENANTS if kind == "tenant" else "default"


def _named(api_version: str, kind: str, name: str, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, **metadata}}
