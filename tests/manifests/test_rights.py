"""Who may do what: each row is one request and the API server's answer."""

import dataclasses
import itertools
import json
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import aiohttp
import pytest
import pytest_asyncio

from gpusharing.kube import client_credentials
from gpusharing.kube.transport import open_session
from harness.controlplane import ControlPlane
from harness.gpu_cluster import NAMESPACE

pytestmark = pytest.mark.cluster

AGENT_ACCOUNT: Final = "gpusharing-agent"
NODES: Final = "/api/v1/nodes"
SHARINGS: Final = "/apis/gpusharing.dev/v1alpha1/nodesharings"
POLICIES: Final = "/apis/gpusharing.dev/v1alpha1/sharingpolicies"
SLICES: Final = "/apis/resource.k8s.io/v1/resourceslices"
BETA_SLICES: Final = "/apis/resource.k8s.io/v1beta2/resourceslices"
CLAIMS: Final = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
ALL_CLAIMS: Final = "/apis/resource.k8s.io/v1/resourceclaims"
CLASSES: Final = "/apis/resource.k8s.io/v1/deviceclasses"
BETA_CLASSES: Final = "/apis/resource.k8s.io/v1beta2/deviceclasses"
QUOTAS: Final = "/api/v1/namespaces/default/resourcequotas"
TEMPLATES: Final = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates"
MORE_QUOTAS: Final = "/api/v1/namespaces/kube-public/resourcequotas"
GUARDS: Final = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS: Final = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
LEASES: Final = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
ENDPOINTS: Final = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
TAINT_RULES: Final = "/apis/resource.k8s.io/v1/devicetaintrules"
EVENTS: Final = "/apis/events.k8s.io/v1/namespaces/{}/events"

_numbers: Iterator[int] = itertools.count()


class Row(NamedTuple):
    what: str
    method: str
    path: str
    body: Any
    """Of a PUT: what it changes in the object as it is."""
    code: int
    says: str = ""


def owner(name: str = "node-1", kind: str = "Node") -> dict[str, str]:
    return {"apiVersion": "v1", "kind": kind, "name": name, "uid": "0"}


def sharing(name: str = "node-1", **changes: Any) -> dict[str, Any]:
    metadata = {"name": name, "ownerReferences": changes.get("owners", [owner(name)])}
    api_version = "gpusharing.dev/v1alpha1"
    return {"apiVersion": api_version, "kind": "NodeSharing", "metadata": metadata, "spec": changes.get("spec", {})}


def lease(name: str = "gpusharing-operator") -> dict[str, Any]:
    spec = {"holderIdentity": "me", "leaseDurationSeconds": 15}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": spec}


def slice_of(node: str | None = "node-1", **changes: Any) -> dict[str, Any]:
    """A ResourceSlice with a name of its own; without a node, it is for all."""
    return {
        "apiVersion": f"resource.k8s.io/{changes.get('version', 'v1')}",
        "kind": "ResourceSlice",
        "metadata": {"name": changes.get("name", f"s{next(_numbers)}")},
        "spec": {
            "driver": changes.get("driver", "gpu.nvidia.com"),
            "pool": {"name": changes.get("pool", node or "all"), "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0"}],
            **({"nodeName": node} if node else {"allNodes": True}),
        },
    }


def made(api_version: str, kind: str, name: str, **metadata: Any) -> dict[str, Any]:
    """By the operator, for policy "one"; without what is given as None."""
    of_policy = [{"apiVersion": "gpusharing.dev/v1alpha1", "kind": "SharingPolicy", "name": "one", "uid": "0"}]
    whole = {"labels": {"gpusharing.dev/policy": "one"}, "ownerReferences": of_policy} | metadata
    named = {"name": name}
    kept = {key: value for key, value in whole.items() if value is not None}
    return {"apiVersion": api_version, "kind": kind, "metadata": named | kept, "spec": {}}


def class_(name: str = "", **metadata: Any) -> dict[str, Any]:
    return made("resource.k8s.io/v1", "DeviceClass", name or "one-mps", **metadata)


def template(name: str = "", *, asks: Any = None, devices: Any = None, **metadata: Any) -> dict[str, Any]:
    body = made("resource.k8s.io/v1", "ResourceClaimTemplate", name or "one-large", **metadata)
    exactly = {"deviceClassName": "one-mps"} | (asks or {})
    return body | {"spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]} | (devices or {})}}}


def quota(name: str = "", **metadata: Any) -> dict[str, Any]:
    return made("v1", "ResourceQuota", name or "gpusharing-one", **metadata)


def event(kind: str = "SharingPolicy", name: str = "one", *, namespace: str = "") -> dict[str, Any]:
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"e{next(_numbers)}"},
        "eventTime": "2026-11-18T12:00:00.000000Z",
        "type": "Normal",
        "action": "Test",
        "reason": "Test",
        "reportingController": "test",
        "reportingInstance": "test",
        "regarding": {"apiVersion": "gpusharing.dev/v1alpha1", "kind": kind, "name": name, "namespace": namespace},
    }


def taint_rule(name: str = "", *, ours: bool = True, key: str = "gpusharing.dev/conflict", **selector: str) -> Any:
    """For device gpu-0 of node-1, if nothing else is said."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {
            "name": name or f"t{next(_numbers)}",
            "labels": {"app.kubernetes.io/managed-by": "gpusharing-operator" if ours else "somebody"},
        },
        "spec": {
            "deviceSelector": {"driver": "gpu.nvidia.com", "pool": "node-1", "device": "gpu-0"} | selector,
            "taint": {"key": key, "effect": "NoExecute"},
        },
    }


STATUS: Final[dict[str, Any]] = {"status": {"gpus": []}}
SPEC: Final = {"spec": {"gpus": [{"uuid": "GPU-1"}]}}
LABEL: Final = {"metadata": {"labels": {"a": "b"}}}
OURS: Final = {"metadata": {key: class_()["metadata"][key] for key in ("labels", "ownerReferences")}}
UNLABELLED: Final = {"metadata": {"labels": None}}
UNOWNED: Final = {"metadata": {"ownerReferences": None}}
OF_TWO: Final = {"gpusharing.dev/policy": "two"}
SELECTORS: Final = {"spec": {"selectors": [{"cel": {"expression": "false"}}]}}
CONFIG: Final = {"spec": {"config": [{"opaque": {"driver": "d.example.com", "parameters": {}}}]}}
ANY_GPU: Final = {"deviceClassName": "gpu.nvidia.com"}
ALTERNATIVES: Final = {"requests": [{"name": "a", "firstAvailable": [{"name": "b", "deviceClassName": "one-mps"}]}]}
TOLERANT: Final = {"tolerations": [{"operator": "Exists"}]}
COUNTED: Final = "deviceclass.resource.k8s.io/devices"
HARD: Final = {"spec": {"hard": {f"one-mps.{COUNTED}": "7"}}}
PODS: Final = {"spec": {"hard": {"pods": "0"}}}
OF_ANOTHER: Final = {"spec": {"hard": {f"other-mps.{COUNTED}": "0"}}}
BETA: Final = {"apiVersion": "resource.k8s.io/v1beta2"}
OTHER_DEVICE: Final = {"spec": {"devices": [{"name": "gpu-1"}]}}

NEW_AGENT = (
    Row("its NodeSharing", "POST", SHARINGS, sharing("node-3"), 201),
    Row("filled in", "POST", SHARINGS, sharing("node-3", **SPEC), 403, "empty spec"),
    Row("owned by nobody", "POST", SHARINGS, sharing("node-3", owners=[]), 403, "owned by Node node-3"),
    Row("owned by another Node", "POST", SHARINGS, sharing("node-3", owners=[owner()]), 403, "owned by Node node-3"),
    Row("owned by a Pod", "POST", SHARINGS, sharing("node-3", owners=[owner("node-3", "Pod")]), 403, "owned by Node"),
    Row("owned by one more", "POST", SHARINGS, sharing("node-3", owners=[owner("node-3"), owner()]), 403, "alone"),
    Row("another's NodeSharing", "POST", SHARINGS, sharing("node-4"), 403, "only NodeSharing node-3"),
)

AGENT = (
    Row("its status", "PATCH", f"{SHARINGS}/node-1/status", STATUS, 200),
    Row("another's status", "PATCH", f"{SHARINGS}/node-2/status", STATUS, 403, "only NodeSharing node-1"),
    Row("its spec", "PATCH", f"{SHARINGS}/node-1", SPEC, 403, "cannot patch"),
    Row("its spec, with its status", "PUT", f"{SHARINGS}/node-1/status", SPEC, 403, "cannot update"),
    Row("its NodeSharing to go", "DELETE", f"{SHARINGS}/node-1", None, 403, "cannot delete"),
    Row("its slice", "POST", SLICES, slice_of(), 201),
    Row("its slice for tenants", "POST", SLICES, slice_of(pool="node-1/search"), 201),
    Row("another's slice", "POST", SLICES, slice_of("node-2"), 403, "spec.nodeName node-1"),
    Row("another's slice, in beta", "POST", BETA_SLICES, slice_of("node-2", version="v1beta2"), 403, "node-1"),
    Row("a slice for all nodes", "POST", SLICES, slice_of(None), 403, "spec.nodeName node-1"),
    Row("another driver's slice", "POST", SLICES, slice_of(driver="d.example.com"), 403, "driver gpu.nvidia.com"),
    Row("another's pool", "POST", SLICES, slice_of(pool="node-2"), 403, "pools node-1"),
    Row("a pool that begins alike", "POST", SLICES, slice_of(pool="node-10"), 403, "pools node-1"),
    Row("its slice anew", "PUT", f"{SLICES}/of-node-1", OTHER_DEVICE, 200),
    Row("another's slice anew", "PUT", f"{SLICES}/of-node-2", OTHER_DEVICE, 403, "spec.nodeName node-1"),
    Row("its slice into another's pool", "PUT", f"{SLICES}/of-node-1", {"spec": {"pool": {"name": "node-2"}}}, 422),
    Row("a slice by patch", "PATCH", f"{SLICES}/of-node-1", LABEL, 403, "cannot patch"),
    Row("its slice to go", "DELETE", f"{SLICES}/of-node-1", None, 200),
    Row("another's slice to go", "DELETE", f"{SLICES}/of-node-2", None, 403, "spec.nodeName node-1"),
    Row("all slices to go", "DELETE", SLICES, None, 403, "cannot deletecollection"),
    Row("a claim", "GET", f"{CLAIMS}/one", None, 200),
    Row("all claims", "GET", ALL_CLAIMS, None, 403, "cannot list"),
    Row("all claims as they change", "GET", f"{ALL_CLAIMS}?watch=1&timeoutSeconds=1", None, 403, "cannot watch"),
    Row("a claim's labels", "PATCH", f"{CLAIMS}/one", LABEL, 403, "cannot patch"),
    Row("a claim's users", "PATCH", f"{CLAIMS}/one/status", {"status": {"reservedFor": [
        {"resource": "pods", "name": "p", "uid": "u"}]}}, 422, "resourceclaims/binding"),
    Row("an Event of it", "POST", EVENTS.format("default"), event("NodeSharing", "node-1"), 201),
    Row("an Event of another", "POST", EVENTS.format("default"), event("NodeSharing", "node-2"), 403, "NodeSharing"),
    Row("an Event of a policy", "POST", EVENTS.format("default"), event(), 403, "only about NodeSharing node-1"),
    Row("an Event elsewhere", "POST", EVENTS.format("kube-system"), event(), 403, "cannot create"),
    Row("its Node", "GET", f"{NODES}/node-1", None, 200),
    Row("all Nodes", "GET", NODES, None, 403, "cannot list"),
    Row("policies", "GET", POLICIES, None, 403, "cannot list"),
    Row("Pods", "GET", "/api/v1/pods", None, 403, "cannot list"),
    Row("Secrets", "GET", "/api/v1/secrets", None, 403, "cannot list"),
)  # fmt: skip

AGENT_OF_NO_NODE = (
    Row("a NodeSharing", "POST", SHARINGS, sharing(), 403, "not bound to a node"),
    Row("a status", "PATCH", f"{SHARINGS}/node-1/status", STATUS, 403, "not bound to a node"),
    Row("a slice", "POST", SLICES, slice_of(), 403, "not bound to a node"),
    Row("a slice for all nodes", "POST", SLICES, slice_of(None), 403, "not bound to a node"),
)

KUBELET = (
    Row("a slice of our driver", "POST", SLICES, slice_of(), 403, "kubelets do not publish"),
    Row("a slice of our driver, in beta", "POST", BETA_SLICES, slice_of(version="v1beta2"), 403, "do not publish"),
    Row("another node's pool", "POST", SLICES, slice_of(pool="node-2"), 403, "kubelets do not publish"),
    Row("a slice of another driver", "POST", SLICES, slice_of(driver="d.example.com"), 201),
    Row("a slice of a driver that went away to go", "DELETE", f"{SLICES}/of-node-1", None, 200),
    Row("a NodeSharing's status", "PATCH", f"{SHARINGS}/node-1/status", STATUS, 403, "cannot patch"),
)

OPERATOR = (
    Row("a spec", "PUT", f"{SHARINGS}/node-1", SPEC, 200),
    Row("its owners", "PUT", f"{SHARINGS}/node-1", {"metadata": {"ownerReferences": [owner()]}}, 403, "only the spec"),
    Row("its labels", "PUT", f"{SHARINGS}/node-1", LABEL, 403, "only the spec"),
    Row("its annotations", "PUT", f"{SHARINGS}/node-1", {"metadata": {"annotations": {"a": "b"}}}, 403, "only the"),
    Row("its finalizers", "PUT", f"{SHARINGS}/node-1", {"metadata": {"finalizers": ["a.b/c"]}}, 403, "only the spec"),
    Row("a spec by patch", "PATCH", f"{SHARINGS}/node-1", SPEC, 403, "cannot patch"),
    Row("an agent's word", "PATCH", f"{SHARINGS}/node-1/status", STATUS, 403, "cannot patch"),
    Row("a NodeSharing", "POST", SHARINGS, sharing(), 403, "cannot create"),
    Row("a NodeSharing to go", "DELETE", f"{SHARINGS}/node-1", None, 403, "cannot delete"),
    Row("a policy's status", "PATCH", f"{POLICIES}/one/status", {"status": {"conditions": []}}, 200),
    Row("a policy", "PATCH", f"{POLICIES}/one", {"spec": {"priority": 7}}, 403, "cannot patch"),
    Row("an Event of a policy", "POST", EVENTS.format("default"), event(), 201),
    Row("an Event of a Pod", "POST", EVENTS.format("kube-system"), event("Pod", namespace="kube-system"), 201),
    Row("an Event of a Node", "POST", EVENTS.format("default"), event("Node", "node-1"), 403, "only about SharingPol"),
    Row("an Event to go", "DELETE", f"{EVENTS.format('default')}/one", None, 403, "cannot delete"),
    Row("a claim", "PATCH", f"{CLAIMS}/one", LABEL, 403, "cannot patch"),
    Row("a claim's status", "PATCH", f"{CLAIMS}/one/status", {"status": {"devices": []}}, 403, "cannot patch"),
    Row("a class", "PATCH", f"{CLASSES}/gpu.nvidia.com", LABEL, 403, "a SharingPolicy owns"),
    Row("a class to take over", "PATCH", f"{CLASSES}/gpu.nvidia.com", OURS, 403, "a SharingPolicy owns"),
    Row("a class to go", "DELETE", f"{CLASSES}/gpu.nvidia.com", None, 403, "a SharingPolicy owns"),
    Row("all classes to go", "DELETE", CLASSES, None, 403, "cannot deletecollection"),
    Row("a class of a policy", "POST", CLASSES, class_(), 201),
    Row("a class of nobody, in beta", "POST", BETA_CLASSES, class_(ownerReferences=None) | BETA, 403, "owns"),
    Row("a class of nobody", "POST", CLASSES, class_(ownerReferences=None), 403, "a SharingPolicy owns"),
    Row("a class of a Node", "POST", CLASSES, class_(ownerReferences=[owner()]), 403, "a SharingPolicy owns"),
    Row("a class without a label", "POST", CLASSES, class_(labels=None), 403, "must have the label"),
    Row("a class of another name", "POST", CLASSES, class_("two-mps"), 403, "must be named"),
    Row("a class of another policy", "POST", CLASSES, class_("two-mps", labels=OF_TWO), 403, "name of its owner"),
    Row("a class with a config", "POST", CLASSES, class_("one-mig") | CONFIG, 403, "have no config"),
    Row("its class anew", "PATCH", f"{CLASSES}/one-timeslicing", SELECTORS, 200),
    Row("its class with a config", "PATCH", f"{CLASSES}/one-timeslicing", CONFIG, 403, "have no config"),
    Row("its class without a label", "PATCH", f"{CLASSES}/one-timeslicing", UNLABELLED, 403, "must have the"),
    Row("its class without an owner", "PATCH", f"{CLASSES}/one-timeslicing", UNOWNED, 403, "owns"),
    Row("its class to go", "DELETE", f"{CLASSES}/one-timeslicing", None, 200),
    Row("its class by update", "PUT", f"{CLASSES}/one-timeslicing", SELECTORS, 403, "cannot update"),
    Row("a quota of a policy", "POST", MORE_QUOTAS, quota() | HARD, 201),
    Row("a quota of another name", "POST", MORE_QUOTAS, quota("compute"), 403, "must be named gpusharing-<policy>"),
    Row("a quota of pods", "POST", MORE_QUOTAS, quota() | PODS, 403, "count devices of the policy's classes alone"),
    Row("a quota of another's class", "POST", MORE_QUOTAS, quota() | OF_ANOTHER, 403, "of the policy's classes alone"),
    Row("a quota of nobody", "POST", QUOTAS, quota(ownerReferences=None), 403, "a SharingPolicy owns"),
    Row("a quota without a label", "POST", QUOTAS, quota(labels=None), 403, "must have the label"),
    Row("a quota", "PATCH", f"{QUOTAS}/theirs", HARD, 403, "a SharingPolicy owns"),
    Row("a quota to go", "DELETE", f"{QUOTAS}/theirs", None, 403, "a SharingPolicy owns"),
    Row("its quota, of pods as well", "PATCH", f"{QUOTAS}/gpusharing-one", PODS, 403, "the policy's classes alone"),
    Row("its quota anew", "PATCH", f"{QUOTAS}/gpusharing-one", HARD, 200),
    Row("its quota to go", "DELETE", f"{QUOTAS}/gpusharing-one", None, 200),
    Row("a template of a policy", "POST", TEMPLATES, template(), 201),
    Row("a template of another name", "POST", TEMPLATES, template("mine"), 403, "must be named <policy>-..."),
    Row("a template of nobody", "POST", TEMPLATES, template(ownerReferences=None), 403, "a SharingPolicy owns"),
    Row("a template without a label", "POST", TEMPLATES, template(labels=None), 403, "must have the label"),
    Row("a template of another class", "POST", TEMPLATES, template(asks=ANY_GPU), 403, "classes alone"),
    Row("a template of alternatives", "POST", TEMPLATES, template(devices=ALTERNATIVES), 403, "classes alone"),
    Row("a template with admin access", "POST", TEMPLATES, template(asks={"adminAccess": True}), 422, "admin access"),
    Row("a template that tolerates", "POST", TEMPLATES, template(asks=TOLERANT), 403, "tolerations"),
    Row("a template with a config", "POST", TEMPLATES, template(devices=CONFIG["spec"]), 403, "without config"),
    Row("a template", "PATCH", f"{TEMPLATES}/theirs", LABEL, 403, "a SharingPolicy owns"),
    Row("a template to take over", "PATCH", f"{TEMPLATES}/theirs", OURS, 403, "a SharingPolicy owns"),
    Row("a template to go", "DELETE", f"{TEMPLATES}/theirs", None, 403, "a SharingPolicy owns"),
    Row("its template, labelled again", "PATCH", f"{TEMPLATES}/one-mps", OURS, 200),
    Row("its template without a label", "PATCH", f"{TEMPLATES}/one-mps", UNLABELLED, 403, "must have the label"),
    Row("its template to go", "DELETE", f"{TEMPLATES}/one-mps", None, 200),
    Row("all templates to go", "DELETE", TEMPLATES, None, 403, "cannot deletecollection"),
    Row("what a quota counts", "PATCH", f"{QUOTAS}/gpusharing-one/status", {"status": {}}, 403, "cannot patch"),
    Row("a guard", "GET", f"{GUARDS}/gpusharing-allocation", None, 200),
    Row("a guard as it changes", "GET", f"{GUARDS}?fieldSelector=metadata.name%3Dgpusharing-claims", None, 200),
    Row("another guard", "GET", f"{GUARDS}/gpusharing-agent", None, 403, "cannot get"),
    Row("all guards", "GET", GUARDS, None, 403, "cannot list"),
    Row("a guard anew", "PATCH", f"{GUARDS}/gpusharing-allocation", LABEL, 200),
    Row("the guard of pods anew", "PATCH", f"{GUARDS}/gpusharing-pods", LABEL, 200),
    Row("the guard of tolerations", "PATCH", f"{GUARDS}/gpusharing-tolerations", LABEL, 403, "cannot patch"),
    Row("its own guard", "PATCH", f"{GUARDS}/gpusharing-operator-property", LABEL, 403, "cannot patch"),
    Row("the agents' guard", "PATCH", f"{GUARDS}/gpusharing-agent", LABEL, 403, "cannot patch"),
    Row("a guard to go", "DELETE", f"{GUARDS}/gpusharing-allocation", None, 403, "cannot delete"),
    Row("a guard's binding", "GET", f"{BINDINGS}/gpusharing-allocation", None, 200),
    Row("it as it changes", "GET", f"{BINDINGS}?fieldSelector=metadata.name%3Dgpusharing-claims", None, 200),
    Row("all bindings", "GET", BINDINGS, None, 403, "cannot list"),
    Row("a guard's binding anew", "PATCH", f"{BINDINGS}/gpusharing-allocation", LABEL, 403, "cannot patch"),
    Row("a Node", "PATCH", f"{NODES}/node-1", LABEL, 403, "cannot patch"),
    Row("a Namespace", "PATCH", "/api/v1/namespaces/default", LABEL, 403, "cannot patch"),
    Row("a slice", "POST", SLICES, slice_of(), 403, "cannot create"),
    Row("the lease", "POST", LEASES, lease(), 201),
    Row("the lease of another program", "GET", f"{LEASES}/other", None, 403, "cannot get"),
    Row("another program's lease", "PATCH", f"{LEASES}/other", {"spec": {"holderIdentity": "me"}}, 403, "cannot patch"),
    Row("the lease to go", "DELETE", f"{LEASES}/gpusharing-operator", None, 403, "cannot delete"),
    Row("a lease elsewhere", "POST", LEASES.replace(NAMESPACE, "kube-system"), lease(), 403, "cannot create"),
    Row("all leases", "GET", LEASES, None, 403, "cannot list"),
    Row("how many API servers there are", "GET", LEASES.replace(NAMESPACE, "kube-system"), None, 200),
    Row("one of their leases", "GET", f"{LEASES.replace(NAMESPACE, 'kube-system')}/one", None, 403, "cannot get"),
    Row("a probe of a guard", "POST", f"{LEASES}?dryRun=All", lease("gpusharing-closing-probe"), 403, "holds"),
    Row("the closing guard anew", "PATCH", f"{GUARDS}/gpusharing-closing", LABEL, 200),
    # This control plane writes none.
    Row("the API servers' addresses", "GET", f"{ENDPOINTS}/kubernetes", None, 404),
    Row("the addresses of another service", "GET", f"{ENDPOINTS}/other", None, 403, "cannot get"),
    Row("an eviction", "POST", TAINT_RULES, taint_rule(), 201),
    Row("an eviction of tenants", "POST", TAINT_RULES, taint_rule(pool="node-1/search"), 201),
    Row("an eviction without its label", "POST", TAINT_RULES, taint_rule(ours=False), 403, "managed-by"),
    Row("an eviction from all devices", "POST", TAINT_RULES, taint_rule(device=""), 422),
    Row("an eviction from another driver", "POST", TAINT_RULES, taint_rule(driver="d.example.com"), 403, "one device"),
    Row("another taint", "POST", TAINT_RULES, taint_rule(key="a.example.com/b"), 403, "only the taint"),
    Row("its eviction to end", "DELETE", f"{TAINT_RULES}/ours", None, 200),
    Row("another's taint to go", "DELETE", f"{TAINT_RULES}/others", None, 403, "managed-by"),
    Row("an eviction by patch", "PATCH", f"{TAINT_RULES}/ours", LABEL, 403, "cannot patch"),
    Row("all evictions to end", "DELETE", TAINT_RULES, None, 403, "cannot deletecollection"),
    Row("all claims", "GET", ALL_CLAIMS, None, 200),
    Row("all classes", "GET", CLASSES, None, 200),
    Row("all Nodes", "GET", NODES, None, 200),
    Row("all definitions", "GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", None, 403, "cannot list"),
    Row("Pods", "GET", "/api/v1/pods", None, 403, "cannot list"),
    Row("Secrets", "GET", "/api/v1/secrets", None, 403, "cannot list"),
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class User:
    session: aiohttp.ClientSession
    server: str

    async def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Nothing is kept: admission and validation see a dry run as they see any other request."""
        content = "application/merge-patch+json" if method == "PATCH" else "application/json"
        query = {} if method == "GET" else {"dryRun": "All"}
        data = None if body is None else json.dumps(body)
        headers = {"Content-Type": content}
        async with self.session.request(method, self.server + path, params=query, data=data, headers=headers) as answer:
            return answer.status, await answer.json()


@asynccontextmanager
async def user(kubeconfig: Path) -> AsyncIterator[User]:
    credentials = await client_credentials.load(kubeconfig)
    async with open_session(credentials) as session:
        yield User(session, credentials.server)


def merged(value: Any, changes: Any) -> Any:
    if not isinstance(value, Mapping) or not isinstance(changes, Mapping):
        return changes
    return {**value, **{key: merged(value.get(key), change) for key, change in changes.items()}}


@pytest_asyncio.fixture(scope="module", loop_scope="package")
async def inhabited(installed: ControlPlane) -> ControlPlane:
    """With three nodes, of which two have an agent already."""
    objects: list[dict[str, Any]] = [
        *({"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"node-{number}"}} for number in (1, 2, 3)),
        sharing("node-1", owners=[]),
        sharing("node-2", owners=[]),
        slice_of("node-1", name="of-node-1"),
        slice_of("node-2", name="of-node-2"),
        taint_rule("ours", device="gpu-7"),
        taint_rule("others", ours=False, device="gpu-7"),
        {
            "apiVersion": "gpusharing.dev/v1alpha1",
            "kind": "SharingPolicy",
            "metadata": {"name": "one"},
            "spec": {"offers": {"exclusive": {}}},
        },
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": "one", "namespace": "default"},
            "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}},
        },
    ]
    await _create(installed, objects)
    # What is owned by something that is not there is collected as garbage.
    uid = await installed.kubectl("get", "sharingpolicy", "one", "--output=jsonpath={.metadata.uid}")
    owners = [OURS["metadata"]["ownerReferences"][0] | {"uid": uid}]
    in_default = {"namespace": "default"}
    ours = (
        class_("one-timeslicing", ownerReferences=owners),
        quota(ownerReferences=owners, **in_default),
        template("one-mps", ownerReferences=owners, **in_default),
    )
    theirs = [make("theirs", ownerReferences=None, **in_default) for make in (quota, template)]
    await _create(installed, [*ours, *theirs])
    return installed


async def _create(control_plane: ControlPlane, objects: list[dict[str, Any]]) -> None:
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    await control_plane.kubectl("create", "--filename=-", stdin=listed)


async def check(control_plane: ControlPlane, kubeconfig: Path, row: Row) -> None:
    async with user(control_plane.kubeconfig) as admin, user(kubeconfig) as asker:
        body = row.body
        if row.method == "PUT":
            _, present = await admin.ask("GET", row.path)
            body = merged(present, row.body)
        code, answer = await asker.ask(row.method, row.path, body)
    said = answer.get("message", "")
    assert (code, row.says in said) == (row.code, True), f"{code}: {said}"


def named(rows: Iterable[Row]) -> list[Any]:
    return [pytest.param(row, id=row.what) for row in rows]


# Once for all rows: a token is made by a program.
@pytest_asyncio.fixture(scope="module", loop_scope="package")
async def new_agent(inhabited: ControlPlane) -> Path:
    return await inhabited.service_account_kubeconfig(NAMESPACE, AGENT_ACCOUNT, node="node-3")


@pytest_asyncio.fixture(scope="module", loop_scope="package")
async def agent(inhabited: ControlPlane) -> Path:
    return await inhabited.service_account_kubeconfig(NAMESPACE, AGENT_ACCOUNT, node="node-1")


@pytest_asyncio.fixture(scope="module", loop_scope="package")
async def agent_of_no_node(inhabited: ControlPlane) -> Path:
    return await inhabited.service_account_kubeconfig(NAMESPACE, AGENT_ACCOUNT)


@pytest_asyncio.fixture(scope="module", loop_scope="package")
async def kubelet(inhabited: ControlPlane) -> Path:
    return await inhabited.user_kubeconfig("system:node:node-1", "system:nodes")


@pytest_asyncio.fixture(scope="module", loop_scope="package")
async def operator(inhabited: ControlPlane) -> Path:
    return await inhabited.service_account_kubeconfig(NAMESPACE, "gpusharing-operator")


@pytest.mark.parametrize("row", named(NEW_AGENT))
async def test_an_agent_that_has_just_come(inhabited: ControlPlane, new_agent: Path, row: Row) -> None:
    await check(inhabited, new_agent, row)


@pytest.mark.parametrize("row", named(AGENT))
async def test_an_agent(inhabited: ControlPlane, agent: Path, row: Row) -> None:
    await check(inhabited, agent, row)


@pytest.mark.parametrize("row", named(AGENT_OF_NO_NODE))
async def test_an_agents_token_that_is_bound_to_no_node(
    inhabited: ControlPlane, agent_of_no_node: Path, row: Row
) -> None:
    await check(inhabited, agent_of_no_node, row)


@pytest.mark.parametrize("row", named(KUBELET))
async def test_a_kubelet(inhabited: ControlPlane, kubelet: Path, row: Row) -> None:
    await check(inhabited, kubelet, row)


@pytest.mark.parametrize("row", named(OPERATOR))
async def test_the_operator(inhabited: ControlPlane, operator: Path, row: Row) -> None:
    await check(inhabited, operator, row)
