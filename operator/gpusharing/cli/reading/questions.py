"""What `explain` reads of a cluster: only what the answer needs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpusharing.cli.reading.client import Client
from gpusharing.cli.reading.cluster import Ask, Found, read_list, read_minor, served_versions, world_of
from gpusharing.cli.reading.installed import AGENTS, installed_in
from gpusharing.cli.reading.together import Together, find
from gpusharing.explaining.lean import Claim, Lean, Node, Slice
from gpusharing.snapshots.world import (
    CLAIMS,
    CLASSES,
    DAEMON_SETS,
    EVENTS,
    NAMESPACES,
    NODE_SHARINGS,
    NODES,
    POD_GROUPS,
    PODS,
    POLICIES,
    SLICES,
    TAINT_RULES,
    TEMPLATES,
    Json,
)

_NODES, _SLICES, _CLAIMS = "lean nodes", "lean slices", "lean claims"


class Question:
    """Asks for lists while it is made; `scene` waits for them."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._together = Together(client)
        self._served: Sequence[str] = ()
        self._together.ask("version", lambda: Found([{"minor": read_minor(client)}]))

    def waiting_pod(self, pod: Json) -> None:
        metadata, spec = pod["metadata"], pod["spec"]
        namespace = metadata["namespace"]
        self._all_devices(namespace)
        self._together.some(NAMESPACES, [namespace])
        self._pod_itself(pod)
        group = (spec.get("schedulingGroup") or {}).get("podGroupName")
        if group:
            self._together.some(POD_GROUPS, [group], namespace)
            self._together.list(PODS.field, Ask(PODS, namespace=namespace))
        self._together.some(TEMPLATES, _templates(pod), namespace)
        self._served = [] if not spec.get("resourceClaims") else served_versions(self._client)

    def waiting_pods(self, pods: Sequence[Json], known: Found) -> None:
        """`known`: the claims, which were read before."""
        # Imported here: they are needed only after the pods were read.
        from gpusharing.core.allocate.requests import group_of  # noqa: PLC0415
        from gpusharing.explaining.names_of_claims import names_of_claims  # noqa: PLC0415

        self._all_devices("", known)
        keys = [(pod["metadata"]["namespace"], pod) for pod in pods]
        self._together.each(NAMESPACES, [("", namespace) for namespace in sorted({one for one, _ in keys})])
        self._together.each(CLAIMS, [(namespace, name) for namespace, pod in keys for name in names_of_claims(pod)])
        self._together.each(TEMPLATES, [(namespace, name) for namespace, pod in keys for name in _templates(pod)])
        groups = [(namespace, group) for namespace, pod in keys if (group := group_of(pod))]
        if groups:
            self._together.each(POD_GROUPS, groups)
            namespaces = sorted({namespace for namespace, _ in groups})
            self._together.ask(PODS.field, lambda: self._pods_of(namespaces))
        self._served = served_versions(self._client)

    def waiting_claim(self, claim: Json) -> None:
        namespace = claim["metadata"]["namespace"]
        self._all_devices(namespace)
        self._together.some(NAMESPACES, [namespace])
        self._together.list(PODS.field, Ask(PODS, namespace=namespace))

    def running_pod(self, pod: Json) -> None:
        self._pod_itself(pod)
        self._together.what_may_be_named(pod["metadata"]["namespace"])

    def names(self, namespace: str) -> None:
        self._together.what_may_be_named(namespace)

    def classes(self) -> None:
        self._together.list(CLASSES.field, Ask(CLASSES))

    def node_sharings(self) -> None:
        self._together.list(NODE_SHARINGS.field, Ask(NODE_SHARINGS))

    def scene(self, **more: Sequence[Json]) -> Any:
        """`more`: objects that were read before, by the field of the World."""
        # While the API server works, the rest of the program is loaded.
        from gpusharing import cel  # noqa: PLC0415
        from gpusharing.explaining.scene import Scene  # noqa: PLC0415

        # The tables of CEL's parser take longer than all selectors.
        cel.compile("true", cel.NEWEST_MINOR)
        found = dict(self._together.results())
        minor = found.pop("version").objects[0]["minor"]
        named = found.pop("names", Found())
        nodes, slices, claims = (found.pop(name, Found()) for name in (_NODES, _SLICES, _CLAIMS))
        if problem := _not_ready(found):
            found[PODS.field] = self._pods_of_agents(problem, found.get(PODS.field, Found()))
        found |= {name: Found(objects) for name, objects in more.items()}
        world = world_of(minor, found)
        only = claims.only_namespace or named.only_namespace
        unread = {"nodes": nodes.unread, "slices": slices.unread, "claims": claims.unread}
        world = replace(
            world,
            only_namespace={**world.only_namespace, **({"claims": only} if only else {})},
            unread={**world.unread, **{name: why for name, why in unread.items() if why}},
        )
        if only and not named.only_namespace:
            world = replace(world, node_sharings=read_list(self._client, Ask(NODE_SHARINGS)).objects)
        objects: Mapping[str, Any] = {
            "nodes": nodes.objects,
            "slices": slices.objects,
            "visible_claims": claims.objects,
        }
        return Scene(
            world=world,
            served=self._served,
            read_node_sharing=lambda name: find(self._client, NODE_SHARINGS, name),
            **objects,
        )

    def _all_devices(self, namespace: str, claims: Found | None = None) -> None:
        """`claims`: as they were read before."""
        decoded: Mapping[str, Ask] = {
            _SLICES: Ask(SLICES, decode=_decode(Slice)),
            _NODES: Ask(NODES, decode=_decode(Node)),
            CLASSES.field: Ask(CLASSES),
            TAINT_RULES.field: Ask(TAINT_RULES),
            POLICIES.field: Ask(POLICIES),
        }
        for name, ask in decoded.items():
            self._together.list(name, ask)
        self._together.ask(DAEMON_SETS.field, self._daemon_sets)
        if claims is None:
            self._together.list(_CLAIMS, Ask(CLAIMS, fallback=namespace, decode=_decode(Claim)))
        else:
            self._together.ask(_CLAIMS, lambda: claims)

    def _daemon_sets(self) -> Found:
        return read_list(self._client, Ask(DAEMON_SETS, namespace=installed_in(self._client), labels=AGENTS))

    def _pod_itself(self, pod: Json) -> None:
        # Imported here: it is needed only after the pod was read.
        from gpusharing.explaining.names_of_claims import names_of_claims  # noqa: PLC0415

        metadata = pod["metadata"]
        self._together.some(CLAIMS, names_of_claims(pod), metadata["namespace"])
        fields = f"involvedObject.uid={metadata['uid']}"
        self._together.list(EVENTS.field, Ask(EVENTS, namespace=metadata["namespace"], fields=fields))

    def _pods_of(self, namespaces: Sequence[str]) -> Found:
        found = [read_list(self._client, Ask(PODS, namespace=namespace)) for namespace in namespaces]
        return Found([pod for one in found for pod in one.objects])

    def _pods_of_agents(self, namespace: str, known: Found) -> Found:
        pods = read_list(self._client, Ask(PODS, namespace=namespace, labels=AGENTS))
        return known._replace(objects=[*known.objects, *pods.objects])


def _templates(pod: Json) -> Sequence[str]:
    """Of which no claim was made yet."""
    made = {one["name"] for one in (pod.get("status") or {}).get("resourceClaimStatuses") or ()}
    return [
        one["resourceClaimTemplateName"]
        for one in pod["spec"].get("resourceClaims") or ()
        if one.get("resourceClaimTemplateName") and one["name"] not in made
    ]


def _decode(type_: Any) -> Any:
    return Lean(type_).of_page


def _not_ready(found: Mapping[str, Found]) -> str:
    """The namespace of agents of which some do not run; empty: all do."""
    for one in found.get(DAEMON_SETS.field, Found()).objects:
        status = one.get("status") or {}
        if status.get("desiredNumberScheduled", 0) != status.get("numberReady", 0):
            return str(one["metadata"]["namespace"])
    return ""
