"""What people write with the rights that they really have, and how a real API server answers.

Tenants and admins of a namespace, who may write policies only, or namespaces, classes, or taint rules; the kubelet and
the agent of one node that is in foreign hands.
"""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import aiohttp

from building import DRIVER, gpu_status, hostile
from gpusharing.kube import client_credentials
from gpusharing.kube.kinds import NODE_SHARINGS, SHARING_POLICIES
from gpusharing.kube.transport import open_session
from harness.controlplane import ControlPlane
from harness.gpu_cluster import NAMESPACE

NODE: Final = "bad-1"
NEIGHBOUR: Final = "good-1"
_AT_ONCE: Final = 16

_CLAIMS: Final = "/apis/resource.k8s.io/v1/namespaces/other/resourceclaims"
_CLASSES: Final = "/apis/resource.k8s.io/v1/deviceclasses"
_RULES: Final = "/apis/resource.k8s.io/v1/devicetaintrules"
_GUARDS: Final = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
_BINDINGS: Final = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
_NAMESPACES: Final = "/api/v1/namespaces"
_QUOTAS: Final = "/api/v1/namespaces/other/resourcequotas"
_NODES: Final = "/api/v1/nodes"
_POLICIES: Final = SHARING_POLICIES.path()
_SHARINGS: Final = NODE_SHARINGS.path()

_RIGHTS: Final = {
    "bot": ("sharingpolicies.gpusharing.dev", "*"),
    "labeller": ("namespaces", "get,list,create,update,patch"),
    "vendor": ("deviceclasses.resource.k8s.io", "*"),
    "health": ("devicetaintrules.resource.k8s.io", "*"),
}
"""Of those who have rights on one kind, in the whole cluster."""

_names = itertools.count(1)


class Request(NamedTuple):
    method: str
    path: str
    body: bytes


class Attempt(NamedTuple):
    who: str
    what: str
    code: int
    """Of each answer."""
    requests: Sequence[Request]
    says: str = ""

    def __str__(self) -> str:
        return f"{self.who}: {self.what}"


@asynccontextmanager
async def people(control_plane: ControlPlane) -> AsyncIterator["People"]:
    """After the Node of the agent and of the kubelet has been made."""
    await control_plane.kubectl("create", "namespace", "other")
    for role in ("edit", "admin"):
        await _make_account(control_plane, role)
        binding = ("rolebinding", role, f"--clusterrole={role}", f"--serviceaccount=other:{role}")
        await control_plane.kubectl("create", *binding, "--namespace=other")
    for name, (resource, verbs) in _RIGHTS.items():
        await _make_account(control_plane, name)
        await control_plane.kubectl("create", "clusterrole", name, f"--resource={resource}", f"--verb={verbs}")
        binding = ("clusterrolebinding", name, f"--clusterrole={name}", f"--serviceaccount=other:{name}")
        await control_plane.kubectl("create", *binding)
    files: dict[str, Path] = {
        name: await control_plane.service_account_kubeconfig("other", name) for name in ("edit", "admin", *_RIGHTS)
    }
    files["agent"] = await control_plane.service_account_kubeconfig(NAMESPACE, "gpusharing-agent", node=NODE)
    files["kubelet"] = await control_plane.user_kubeconfig(f"system:node:{NODE}", "system:nodes")
    async with AsyncExitStack() as stack:
        found = People(control_plane.url)
        for name, file in files.items():
            session = open_session(await client_credentials.load(file))
            found.sessions[name] = await stack.enter_async_context(session)
        yield found


async def _make_account(control_plane: ControlPlane, name: str) -> None:
    await control_plane.kubectl("create", "serviceaccount", name, "--namespace=other")


class People:
    def __init__(self, server: str) -> None:
        self._server = server
        self.sessions: dict[str, aiohttp.ClientSession] = {}

    async def make(self, attempt: Attempt) -> Mapping[int, str]:
        """The answers: one message of each code."""
        answers: dict[int, str] = {}
        requests = iter(attempt.requests)

        async def worker() -> None:
            for request in requests:
                code, message = await self._ask(attempt.who, request)
                answers[code] = message

        async with asyncio.TaskGroup() as workers:
            for _ in range(_AT_ONCE):
                workers.create_task(worker())
        return answers

    async def _ask(self, who: str, request: Request) -> tuple[int, str]:
        content = "application/merge-patch+json" if request.method == "PATCH" else "application/json"
        asked = self.sessions[who].request(
            request.method, self._server + request.path, data=request.body, headers={"Content-Type": content}
        )
        try:
            async with asked as answer:
                return answer.status, (await answer.text(errors="replace"))[:500]
        except aiohttp.ClientError as error:
            return 0, str(error)


def attempts() -> list[Attempt]:
    return [*_claims(), *_policies(), *_agents(), *_others(), *_refused()]


def _post(path: str, kind: str, body: Mapping[str, Any], *, raw: bytes = b"") -> Request:
    """`raw` takes the place of the text RAW."""
    version = path.removeprefix("/apis/").removeprefix("/api/").partition("/namespaces/")[0]
    api_version = version if version == "v1" else "/".join(version.split("/")[:2])
    metadata = {"name": f"hostile-{next(_names)}"} | body.get("metadata", {})
    whole = {"apiVersion": "v1" if path.startswith("/api/") else api_version, "kind": kind, **body}
    text = json.dumps(whole | {"metadata": metadata}, separators=(",", ":")).encode()
    return Request("POST", path, text.replace(b'"RAW"', raw))


def _claim(*requests: Mapping[str, Any], raw: bytes = b"", **fields: Any) -> Request:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
    devices = {"requests": requests or [request], "config": fields.pop("config", [])}
    return _post(_CLAIMS, "ResourceClaim", {**fields, "spec": {"devices": devices}}, raw=raw)


def _config(driver: str, parameters: Any) -> dict[str, Any]:
    return {"opaque": {"driver": driver, "parameters": parameters}}


_PANICS: Final = {"an integer of many digits", "a negative one", "a number without end"}
"""Over which the API server, which reads opaque parameters for admission policies, closes that one connection."""


def _claims() -> Iterable[Attempt]:
    for name, raw in hostile.RAW.items():
        for driver in (DRIVER, "other.example"):
            request = _claim(config=[_config(driver, {"in": "RAW"})], raw=raw)
            yield Attempt("edit", f"claim for {driver}: {name}", 0 if name in _PANICS else 201, [request])
    selectors = [{"cel": {"expression": f'"{"<" * 10_200}" != device.driver'}}] * 25
    large = [{"name": f"r{n}", "exactly": {"deviceClassName": "none", "selectors": selectors}} for n in range(4)]
    yield Attempt("edit", "claims of a megabyte", 201, [_claim(*large) for _ in range(4)])
    whole = {"a": "x" * (250 * 1024)}
    yield Attempt("edit", "annotations", 201, [_claim(metadata={"annotations": whole}) for _ in range(20)])
    labels = {f"k{number}": "x" * 63 for number in range(10_000)}
    yield Attempt("edit", "10,000 labels", 201, [_claim(metadata={"labels": labels})])
    owners = [
        {"apiVersion": version, "kind": "Pod", "name": "UPPER case/../x", "uid": f"u{number}"}
        for number in range(2_000)
        for version in ("v1", "nosuch.example/v1")
    ]
    yield Attempt("edit", "4,000 owners that cannot be", 201, [_claim(metadata={"ownerReferences": owners})])
    parameters: dict[str, Any] = {"a": [{"b": []}] * 1_000}
    yield Attempt("edit", "32 configs", 201, [_claim(config=[_config("other.example", parameters)] * 32)])
    nested: Any = "\U000e0001" * 10
    for _ in range(6):
        nested = {str(key): nested for key in range(2)}
    complaint = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig", "sharing": nested}
    shares = [{"name": f"r{n}", "exactly": {"deviceClassName": "timeslicing.gpu.nvidia.com"}} for n in range(32)]
    yield Attempt("edit", "long complaints", 201, [_claim(*shares, config=[_config(DRIVER, complaint)])])
    yield Attempt("edit", "a thousand claims", 201, [_claim() for _ in range(1_000)])


def _policy(name: str = "", *, raw: bytes = b"", metadata: Mapping[str, Any] | None = None, **spec: Any) -> Request:
    body = {"nodes": {"matchLabels": {"pool": "bad"}}, "offers": {"timeSlicing": {"maxClients": 4}}} | spec
    named = {"name": name} if name else {}
    return _post(_POLICIES, "SharingPolicy", {"metadata": named | dict(metadata or {}), "spec": body}, raw=raw)


def _selectors(*expressions: str) -> dict[str, Any]:
    return {"selectors": [{"cel": {"expression": expression}} for expression in expressions]}


def _policies() -> Iterable[Attempt]:
    loops = ["[{0}].all(x, [{0}].all(y, [{0}].all(z, x+y+z+{1} >= 0)))"] * 32
    numbers = ",".join(map(str, range(45)))
    dear = _selectors(*(loop.format(numbers, index) for index, loop in enumerate(loops)))
    yield Attempt("bot", "selectors of the highest cost", 201, [_policy(f"dear-{n}", gpus=dear) for n in range(2)])
    bomb = f'device.attributes["gpu.nvidia.com"]["{"a" * 12}".replace("a", "{"b" * 1_000}")] == "b"'
    yield Attempt("bot", "a selector that complains at length", 201, [_policy("bomb", gpus=_selectors(bomb))])
    yield Attempt(
        "bot", "32 selectors that are no CEL", 201, [_policy("no-cel", gpus=_selectors(*["(" * 10_240] * 32))]
    )
    many = [
        {"key": f"k{key}", "operator": "In", "values": [f"{key}-{n}-".ljust(63, "x") for n in range(64)]}
        for key in range(32)
    ]
    namespaces = {"namespaces": {"matchExpressions": many}}
    yield Attempt("bot", "2,048 tenants", 201, [_policy("giant", tenants=namespaces)])
    yield Attempt("bot", "2,048 labels of nodes", 201, [_policy("wide", nodes={"matchExpressions": many})])
    yield Attempt(
        "bot",
        "20,000 labels",
        422,
        [_policy(nodes={"matchLabels": {f"k{n}": "v" for n in range(20_000)}})],
        "at most 64",
    )
    yield Attempt("bot", "what is not UTF-8", 201, [_policy("bytes", gpus=_selectors("RAW"), raw=b'"\xff"')])
    yield Attempt("bot", "half a surrogate pair", 201, [_policy("half", gpus=_selectors("RAW"), raw=b'"\\ud800"')])
    yield Attempt("bot", "NUL", 201, [_policy("nul", gpus=_selectors("RAW"), raw=b'"\\u0000"')])
    yield Attempt("bot", "5,000 levels", 201, [_policy("deep", deep="RAW", raw=hostile.RAW["deep"])])
    notes = {"annotations": {"a": "x" * (250 * 1024)}}
    yield Attempt("bot", "annotations", 201, [_policy(metadata=notes) for _ in range(4)])
    layout = {"mig": {"layout": {"1g.10gb": 16, "2g.20gb": 16}}}
    yield Attempt("bot", "a layout that does not fit", 201, [_policy("layout", offers=layout, priority=500)])
    yield Attempt("bot", "a hundred policies", 201, [_policy() for _ in range(100)])


def _status(**status: Any) -> Request:
    return Request("PATCH", f"{_SHARINGS}/{NODE}/status", json.dumps({"status": status}).encode())


def _agents() -> Iterable[Attempt]:
    gpus = [gpu_status(slot, node=NODE).to_json() for slot in range(64)]
    condition = {
        "type": "Healthy",
        "status": "False",
        "reason": "R" * 1_024,
        "message": "m" * 4_096,
        "lastTransitionTime": "2026-11-18T12:00:00Z",
    }
    yield Attempt(
        "agent", "65 GPUs", 422, [_status(gpus=[*gpus, gpu_status(64, node=NODE).to_json()])], "at most 64 items"
    )
    longer = [gpus[0] | {"conditions": [condition | {"message": "m" * 4_097}]}]
    yield Attempt("agent", "a message that is too long", 422, [_status(gpus=longer)], "4096")

    def model(**profile: Any) -> dict[str, Any]:
        usual = {"id": 0, "slices": 1, "size": 1, "starts": [0], "memory": 9728}
        profiles = [{"name": name} | usual | profile for name in ("1g.10gb", "2g.20gb")]
        return {"model": gpus[0]["model"], "switchResets": False, "profiles": profiles}

    yield Attempt("agent", "a profile that starts nowhere", 422, [_status(models=[model(starts=[])])], "starts")
    yield Attempt(
        "agent",
        "a profile of 2,000,000 slices",
        422,
        [_status(models=[model(size=2_000_000)])],
        "less than or equal to 64",
    )
    yield Attempt("agent", "profiles that start anywhere", 200, [_status(models=[model(starts=list(range(64)))])])
    sick = [gpu | {"conditions": [condition]} for gpu in gpus]
    yield Attempt("agent", "64 GPUs that complain at length", 200, [_status(gpus=sick)])
    settings = [{"request": "r" * 60, "device": "gpu-0-timeslicing", "ignored": ["x" * 200]}]
    claims = [{"uid": f"u{number}", "claim": "other/" + "c" * 60, "settings": settings} for number in range(800)]
    yield Attempt("agent", "800 claims that are not there", 200, [_status(claims=claims)])
    yield Attempt(
        "agent", "the status of another node", 403, [Request("PATCH", f"{_SHARINGS}/{NEIGHBOUR}/status", b"{}")]
    )
    yield Attempt("agent", "its spec", 403, [Request("PATCH", f"{_SHARINGS}/{NODE}", b'{"spec":{"gpus":[]}}')])


def _others() -> Iterable[Attempt]:
    for name, raw in hostile.RAW.items():
        body = {"spec": {"config": [_config(driver, {"in": "RAW"}) for driver in (DRIVER, "other.example")]}}
        request = _post(_CLASSES, "DeviceClass", body, raw=raw)
        yield Attempt("vendor", f"class: {name}", 0 if name in _PANICS else 201, [request])
    notes = {"a": "x" * (250 * 1024)}
    expressions = [{"cel": {"expression": f'"{"<" * 10_200}" != device.driver'}}] * 32
    whole = {"metadata": {"annotations": notes}, "spec": {"selectors": expressions}}
    yield Attempt("vendor", "large classes", 201, [_post(_CLASSES, "DeviceClass", whole) for _ in range(4)])
    yield Attempt("vendor", "500 classes", 201, [_post(_CLASSES, "DeviceClass", {"spec": {}}) for _ in range(500)])

    labels = {f"k{number}": "x" * 60 for number in range(12_000)}
    wide = [_post(_NAMESPACES, "Namespace", {"metadata": {"labels": labels}}) for _ in range(8)]
    yield Attempt("labeller", "12,000 labels", 201, wide)
    bytes_ = _post(_NAMESPACES, "Namespace", {"metadata": {"annotations": {"a": "RAW"}}}, raw=b'"\xff\\ud800\\u0000"')
    yield Attempt("labeller", "an annotation of bytes", 201, [bytes_])
    bytes_ = _post(_NAMESPACES, "Namespace", {"metadata": {"labels": {"a": "RAW"}}}, raw=b'"\xff"')
    yield Attempt("labeller", "a label of bytes", 422, [bytes_], "valid label")
    yield Attempt("labeller", "200 namespaces", 201, [_post(_NAMESPACES, "Namespace", {}) for _ in range(200)])

    large = {"metadata": {"annotations": notes, "labels": {f"k{n}": "x" * 60 for n in range(8_000)}}}
    yield Attempt("kubelet", "its Node", 200, [Request("PATCH", f"{_NODES}/{NODE}", json.dumps(large).encode())])
    yield Attempt(
        "kubelet", "another Node", 403, [Request("PATCH", f"{_NODES}/{NEIGHBOUR}", json.dumps(large).encode())]
    )

    taint = {"key": "gpusharing.dev/conflict", "effect": "NoExecute"}
    rule = {"spec": {"deviceSelector": {"driver": DRIVER, "pool": NODE, "device": "gpu-0"}, "taint": taint}}
    ours = {"metadata": {"labels": {"app.kubernetes.io/managed-by": "gpusharing-operator"}}} | rule
    yield Attempt("health", "300 rules", 201, [_post(_RULES, "DeviceTaintRule", rule) for _ in range(300)])
    yield Attempt(
        "health", "rules that look like ours", 201, [_post(_RULES, "DeviceTaintRule", ours) for _ in range(20)]
    )


def _refused() -> Iterable[Attempt]:
    """Kinds that decide about others, by those who have no right to them."""
    bodies = {
        (_QUOTAS, "ResourceQuota"): hostile.QUOTA,
        (_POLICIES, "SharingPolicy"): hostile.POLICY,
        (_SHARINGS, "NodeSharing"): hostile.NODE_SHARING,
        (_CLASSES, "DeviceClass"): hostile.DEVICE_CLASS,
        (_NAMESPACES, "Namespace"): hostile.NAMESPACE,
        (_NODES, "Node"): hostile.NODE,
        (_RULES, "DeviceTaintRule"): hostile.TAINT_RULE,
        (_GUARDS, "ValidatingAdmissionPolicy"): {"spec": {}},
        (_BINDINGS, "ValidatingAdmissionPolicyBinding"): {"spec": {}},
    }
    mine = {"bot": "SharingPolicy", "labeller": "Namespace"}
    for who in ("edit", "admin", "bot", "labeller", "agent"):
        for (path, kind), body in bodies.items():
            if mine.get(who) != kind and (who, kind) != ("agent", "NodeSharing"):
                metadata = {"labels": body.get("metadata", {}).get("labels", {})}
                yield Attempt(who, kind, 403, [_post(path, kind, {**body, "metadata": metadata})])
    for who in ("edit", "admin"):
        yield Attempt(who, "its namespace's labels", 403, [Request("PATCH", f"{_NAMESPACES}/other", b"{}")])
        for guard in ("gpusharing-allocation", "gpusharing-claims"):
            yield Attempt(who, guard, 403, [Request("DELETE", f"{_GUARDS}/{guard}", b"{}")])
