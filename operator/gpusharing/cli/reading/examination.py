"""What `doctor` reads of a cluster, several questions at a time. Beside reading it asks by dry runs and reviews."""

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from gpusharing.api import names
from gpusharing.api.crd import DEFINITIONS
from gpusharing.cli.reading.client import Client, ReadError
from gpusharing.cli.reading.cluster import Ask, Decode, decode_list, read_list
from gpusharing.cli.reading.installed import AGENTS, OPERATORS, installed_in
from gpusharing.core.cluster.guards.form import probe, seen_revision
from gpusharing.diagnosing import kubernetes, monitoring, rights
from gpusharing.diagnosing.facts import (
    ClusterFacts,
    DryRun,
    Gates,
    Granted,
    InstallationFacts,
    LeaseFacts,
    Listed,
    lean_node,
    lean_node_sharing,
    lean_slice,
)
from gpusharing.diagnosing.guards import OF_CLAIMS, OF_PROGRAMS, PROBED
from gpusharing.diagnosing.rights import Right
from gpusharing.sharing_tests.installation import classes
from gpusharing.snapshots.world import (
    BINDINGS,
    CLASSES,
    DAEMON_SETS,
    GUARDS,
    NODE_SHARINGS,
    NODES,
    PODS,
    SLICES,
    Json,
    Resource,
)

T = TypeVar("T")
U = TypeVar("U")

_DEPLOYMENTS: Final = Resource("apps/v1", "Deployment", "deployments", "", is_namespaced=True)
_DEFINITIONS: Final = Resource("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", "")
_POD_MONITORS: Final = Resource(monitoring.API, "PodMonitor", "podmonitors", "", is_namespaced=True)
_LEASES: Final = Resource("coordination.k8s.io/v1", "Lease", "leases", "", is_namespaced=True)
_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_AT_ONCE: Final = 16
_GATE: Final = re.compile(rb'^kubernetes_feature_enabled\{name="(\w{1,100})"[^}]{0,200}\} ([01])', re.MULTILINE)
_LOOK_AT_LEASE_EVERY: Final = 0.25
_LEASE_DURATION: Final = 15


def read_cluster(client: Client) -> ClusterFacts:
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        version = threads.submit(client.get_json, "/version")
        apis = (kubernetes.API, kubernetes.BETA, monitoring.API)
        served = {api: threads.submit(_served, client, api) for api in apis}
        gates = threads.submit(_gates, client)
        nodes = threads.submit(_list, client, NODES, decode=_each(lean_node))
        slices = threads.submit(_list, client, SLICES, decode=_each(lean_slice))
        monitors = threads.submit(_list, client, _POD_MONITORS)
        namespace = installed_in(client)
        operators = threads.submit(_list, client, _DEPLOYMENTS, namespace=namespace, labels=OPERATORS)
        return ClusterFacts(
            version=version.result(),
            served={api: kinds.result() for api, kinds in served.items()},
            gates=gates.result(),
            nodes=nodes.result(),
            slices=slices.result(),
            namespace=namespace,
            operators=operators.result(),
            pod_monitors=monitors.result(),
        )


def read_installation(client: Client, facts: ClusterFacts) -> InstallationFacts:
    operator = next(iter(facts.operators.objects), None)
    namespace = facts.namespace
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        definitions = threads.submit(_named, client, _DEFINITIONS, [one.name for one in DEFINITIONS])
        guards = threads.submit(_named, client, GUARDS, (*OF_CLAIMS, *OF_PROGRAMS))
        bindings = threads.submit(_named, client, BINDINGS, (*OF_CLAIMS, *OF_PROGRAMS))
        found_classes = threads.submit(_named, client, CLASSES, [one["metadata"]["name"] for one in classes()])
        daemon_sets = threads.submit(_list, client, DAEMON_SETS, namespace=namespace, labels=AGENTS)
        agents = threads.submit(_list, client, PODS, namespace=namespace, labels=AGENTS)
        sharings = threads.submit(_list, client, NODE_SHARINGS, decode=_each(lean_node_sharing))
        lease = threads.submit(_lease, client, *_lease_of(operator, namespace))
        dry_runs = threads.submit(_each_of, PROBED, lambda guard: _dry_run(client, guard, namespace))
        programs = (
            (operator, rights.of_operator()),
            (next(iter(daemon_sets.result().objects), None), rights.of_agent()),
        )
        _, lease_name = _lease_of(operator, namespace)
        granted = [
            _granted(client, _account(workload, default), _placed(wanted, namespace, lease_name), namespace)
            for (workload, wanted), default in zip(programs, (names.OPERATOR, names.AGENT), strict=True)
        ]
        return InstallationFacts(
            namespace=namespace,
            definitions=definitions.result(),
            guards=guards.result(),
            bindings=bindings.result(),
            dry_runs=dry_runs.result(),
            classes=found_classes.result(),
            lease=lease.result(),
            granted=granted,
            daemon_sets=daemon_sets.result(),
            agents=agents.result(),
            node_sharings=sharings.result(),
        )


def agent_image(installed: InstallationFacts) -> str:
    """Which nodes have already; empty: nobody knows."""
    for one in installed.daemon_sets.objects:
        for container in one["spec"]["template"]["spec"].get("containers") or ():
            if container["name"] == "agent":
                return str(container["image"])
    return ""


# ---------------------------------------------------------------------------------------------------------- questions


def _served(client: Client, api: str) -> frozenset[str]:
    try:
        return frozenset(one["name"] for one in client.get_json(f"/apis/{api}").get("resources") or ())
    except ReadError:
        return frozenset()


def _gates(client: Client) -> Gates:
    try:
        text = client.get("/metrics")
    except ReadError:
        return Gates(unread="you may not get /metrics")
    return Gates({name.decode(): value == b"1" for name, value in _GATE.findall(text)})


def _each(lean: Callable[[Json], Json]) -> Decode:
    return lambda page: [lean(one) for one in decode_list(page)]


def _list(client: Client, resource: Resource, *, decode: Decode = decode_list, **ask: str) -> Listed:
    found = read_list(client, Ask(resource, decode=decode, **ask))  # type: ignore[arg-type]
    if not found.unread:
        return Listed(found.objects)
    # What is not served does not exist.
    is_absent = found.unread.startswith("the API server does not serve")
    return (
        Listed() if is_absent else Listed(unread=f"you may not list {resource.plural}{_in(ask.get('namespace', ''))}")
    )


def _in(namespace: str) -> str:
    return f" in namespace {namespace}" if namespace else ""


def _named(client: Client, resource: Resource, names: Sequence[str], namespace: str = "") -> Listed:
    def read(name: str) -> Json | None:
        try:
            found: Json = client.get_json(resource.path(name=name, namespace=namespace))
        except ReadError as error:
            if error.is_absent:
                return None
            raise
        return found

    try:
        return Listed([one for one in _each_of(names, read) if one is not None])
    except ReadError:
        return Listed(unread=f"you may not get {resource.plural}{_in(namespace)}")


def _each_of(items: Iterable[T], ask: Callable[[T], U]) -> list[U]:
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        return list(threads.map(ask, items))


def _dry_run(client: Client, guard: str, namespace: str) -> DryRun:
    """Of a Lease that the guard refuses if it is in force."""
    body = {
        "apiVersion": _LEASES.api_version,
        "kind": _LEASES.kind,
        "metadata": {"name": probe(guard), "namespace": namespace},
    }
    try:
        client.send("POST", _LEASES.path(namespace=namespace), body, {"dryRun": "All"})
    except ReadError as error:
        if seen_revision(error.message) is not None:
            return DryRun(guard, is_refused=True)
        if error.is_absent:
            return DryRun(guard)
        if error.is_forbidden and "cannot create" in error.message:
            return DryRun(guard, unread=f"you may not create leases in namespace {namespace}")
        return DryRun(guard, unread=f"a dry run was refused: {error.message}")
    return DryRun(guard)


def _lease_of(operator: Json | None, namespace: str) -> tuple[str, str]:
    """Its namespace and name, by the flags of the operator."""
    spec = operator["spec"]["template"]["spec"] if operator else {}
    flags = dict(
        flag.partition("=")[::2] for container in spec.get("containers") or () for flag in container.get("args") or ()
    )
    return flags.get("--lease-namespace", namespace), flags.get("--lease-name", names.OPERATOR)


def _lease(client: Client, namespace: str, name: str) -> LeaseFacts:
    """Watched until it is renewed: clocks of two machines are not compared."""
    shown = f"{namespace}/{name}"
    began = time.monotonic()
    first: Json | None = None
    while True:
        try:
            lease: Json = client.get_json(_LEASES.path(namespace=namespace, name=name))
        except ReadError as error:
            if error.is_absent:
                return LeaseFacts(shown)
            return LeaseFacts(shown, unread=f"you may not get leases in namespace {namespace}")
        spec = lease.get("spec") or {}
        first = first or spec
        watched = time.monotonic() - began
        if not spec.get("holderIdentity") or spec != first:
            return LeaseFacts(shown, lease)
        if watched > (spec.get("leaseDurationSeconds") or _LEASE_DURATION):
            return LeaseFacts(shown, lease, unchanged_for=watched)
        time.sleep(_LOOK_AT_LEASE_EVERY)


def _account(workload: Json | None, default: str) -> str:
    return str(workload["spec"]["template"]["spec"].get("serviceAccountName") or default) if workload else default


def _placed(wanted: Iterable[Right], namespace: str, lease: str) -> list[Right]:
    meant = {rights.OWN_NAMESPACE: namespace, rights.LEASE: lease}
    return [
        one._replace(name=meant.get(one.name, one.name), namespace=meant.get(one.namespace, one.namespace))
        for one in wanted
    ]


def _granted(client: Client, account: str, wanted: Sequence[Right], namespace: str) -> Granted:
    name = f"{namespace}/{account}"
    try:
        allowed = _each_of(wanted, lambda right: _may(client, right, namespace, account))
    except ReadError:
        return Granted(name, unread="you may not create subjectaccessreviews")
    return Granted(name, [right for right, is_allowed in zip(wanted, allowed, strict=True) if not is_allowed])


def _may(client: Client, right: Right, namespace: str, account: str) -> bool:
    resource, _, subresource = right.resource.partition("/")
    attributes: Mapping[str, str] = {
        "verb": right.verb,
        "group": right.group,
        "resource": resource,
        "subresource": subresource,
        "name": right.name,
        "namespace": right.namespace,
    }
    body: Mapping[str, Any] = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": f"system:serviceaccount:{namespace}:{account}",
            "groups": ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"],
            "resourceAttributes": {key: value for key, value in attributes.items() if value},
        },
    }
    return bool((client.send("POST", _REVIEWS, body).get("status") or {}).get("allowed"))
