"""The cluster as it is now, in the way in which decisions ask for it, and what of it they have not looked at yet."""

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from gpusharing.api import names
from gpusharing.api.core import ResourceQuota, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding
from gpusharing.api.dra import DeviceClass, DeviceTaintRule, Namespace, Node, ResourceClaim
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.core.events.waiting_claims import classes_of
from gpusharing.core.intents import Tell
from gpusharing.core.state.node_view import NodeView, Setup, labels_of, node_of_rule, nodes_of

Known = (
    SharingPolicy
    | NodeSharing
    | Node
    | ResourceClaim
    | DeviceClass
    | Namespace
    | DeviceTaintRule
    | ValidatingAdmissionPolicy
    | ValidatingAdmissionPolicyBinding
    | ResourceQuota
    | Tell
)
_OfCluster = DeviceClass | ValidatingAdmissionPolicy | ValidatingAdmissionPolicyBinding | ResourceQuota


@dataclass(slots=True)
class Changes:
    nodes: set[str] = field(default_factory=set)
    """Those of which anything changed that a decision on them looks at."""
    policies: set[str] = field(default_factory=set)
    cluster: bool = False
    """Whether anything changed beside policies that concerns no single node."""
    waiting: bool = False
    """Whether other claims wait than before, or somebody was told why."""

    def __bool__(self) -> bool:
        return bool(self.nodes or self.policies or self.cluster or self.waiting)


class Present:
    """Objects are immutable: a changed one takes the place of its predecessor."""

    def __init__(self, setup: Setup) -> None:
        self._driver = setup.driver
        self._has_taint_rules = setup.has_taint_rules
        self._policies: dict[str, SharingPolicy] = {}
        self._nodes: dict[str, Node] = {}
        self._sharings: dict[str, NodeSharing] = {}
        self._claims: dict[str, dict[str, ResourceClaim]] = {}
        """By node and uid."""
        self._held: dict[str, ResourceClaim] = {}
        """By uid; only those that hold devices of ours."""
        self._classes: dict[str, DeviceClass] = {}
        self._namespaces: dict[str, Namespace] = {}
        self._guards: dict[str, ValidatingAdmissionPolicy] = {}
        self._bindings: dict[str, ValidatingAdmissionPolicyBinding] = {}
        self._quotas: dict[tuple[str, str], ResourceQuota] = {}
        """By namespace and name; only those that are named as ours."""
        self._taint_rules: dict[str, dict[str, DeviceTaintRule]] = {}
        """Our own, by node and name."""
        self._waiting: dict[str, dict[str, ResourceClaim]] = {}
        """By class and uid."""
        self._told: dict[str, set[str]] = {}
        self._changes = Changes()

    @property
    def waiting(self) -> Mapping[str, Collection[ResourceClaim]]:
        """Claims that hold nothing yet, by the classes that they ask for."""
        return {name: claims.values() for name, claims in self._waiting.items()}

    @property
    def told(self) -> Mapping[str, Collection[str]]:
        """By uid, what people were told of objects that wait."""
        return self._told

    @property
    def policies(self) -> Mapping[str, SharingPolicy]:
        return self._policies

    @property
    def classes(self) -> Mapping[str, DeviceClass]:
        return self._classes

    @property
    def namespaces(self) -> Mapping[str, Namespace]:
        return self._namespaces

    @property
    def guards(self) -> Mapping[str, ValidatingAdmissionPolicy]:
        return self._guards

    @property
    def bindings(self) -> Mapping[str, ValidatingAdmissionPolicyBinding]:
        return self._bindings

    @property
    def quotas(self) -> Mapping[tuple[str, str], ResourceQuota]:
        return self._quotas

    def has(self, node: str) -> bool:
        """Whether it can be decided on: without its Node, a NodeSharing is about to be garbage-collected."""
        return node in self._sharings and node in self._nodes

    def view(self, node: str) -> NodeView | None:
        """None if it cannot be decided on."""
        if not self.has(node):
            return None
        sharing, itself = self._sharings[node], self._nodes[node]
        claims = tuple(self._claims.get(node, {}).values())
        rules = self._taint_rules.get(node, {})
        return NodeView(
            sharing=sharing,
            labels=itself.metadata.labels,
            claims=claims,
            namespaces=labels_of(self._namespaces, claims),
            taint_rules=tuple(rules[name] for name in sorted(rules)) if self._has_taint_rules else None,
        )

    def take(self, before: Known | None, after: Known | None) -> None:
        """An object has come (there was none before), changed, or gone (there is none after)."""
        if after is not None:
            self.put(after)
        elif before is not None:
            self.drop(before)

    def put(self, item: Known) -> None:
        """It is new, or takes the place of its predecessor."""
        match item:
            case ResourceClaim():
                self._put_claim(item)
            case SharingPolicy():
                self._policies[item.metadata.name] = item
                self._changes.policies.add(item.metadata.name)
            case NodeSharing():
                self._sharings[item.metadata.name] = item
                self._changes.nodes.add(item.metadata.name)
            case Node():
                self._put_node(item)
            case DeviceClass() | ValidatingAdmissionPolicy() | ValidatingAdmissionPolicyBinding() | ResourceQuota():
                self._put_of_cluster(item)
            case Namespace():
                self._put_namespace(item)
            case Tell():
                self._told.setdefault(item.about.uid, set()).add(item.note)
                self._changes.waiting = True
            case DeviceTaintRule():
                self._drop_rule(item.metadata.name)
                if (node := node_of_rule(item)) is not None:
                    self._taint_rules.setdefault(node, {})[item.metadata.name] = item
                    self._changes.nodes.add(node)

    def drop(self, item: Known) -> None:
        """It has gone."""
        if isinstance(item, Tell):
            return
        name = item.metadata.name
        match item:
            case ResourceClaim():
                self._drop_claim(item)
            case SharingPolicy():
                del self._policies[name]
                self._changes.policies.add(name)
            case NodeSharing():
                del self._sharings[name]
                self._changes.nodes.add(name)
            case Node():
                del self._nodes[name]
                self._changes.nodes.add(name)
            case DeviceClass() | ValidatingAdmissionPolicy() | ValidatingAdmissionPolicyBinding() | ResourceQuota():
                self._drop_of_cluster(item)
            case Namespace():
                del self._namespaces[name]
                self._changes.cluster = True
                self._changes.nodes |= self._nodes_of_claims_in(name)
            case DeviceTaintRule():
                self._drop_rule(name)

    def take_changes(self) -> Changes:
        """What came since they were taken last."""
        changes, self._changes = self._changes, Changes()
        return changes

    @property
    def has_changed(self) -> bool:
        """Since then."""
        return bool(self._changes)

    def everything(self) -> Changes:
        """As if all of it were new."""
        return Changes(
            nodes=self._nodes.keys() & self._sharings.keys(),
            policies={*self._policies},
            cluster=True,
        )

    def _put_of_cluster(self, item: _OfCluster) -> None:
        match item:
            case DeviceClass():
                self._classes[item.metadata.name] = item
            case ValidatingAdmissionPolicy():
                self._guards[item.metadata.name] = item
            case ValidatingAdmissionPolicyBinding():
                self._bindings[item.metadata.name] = item
            case ResourceQuota():
                if not item.metadata.name.startswith(names.QUOTA_PREFIX):
                    # Those of others change with each of their pods.
                    return
                self._quotas[item.metadata.namespace, item.metadata.name] = item
        self._changes.cluster = True

    def _drop_of_cluster(self, item: _OfCluster) -> None:
        match item:
            case DeviceClass():
                del self._classes[item.metadata.name]
            case ValidatingAdmissionPolicy():
                del self._guards[item.metadata.name]
            case ValidatingAdmissionPolicyBinding():
                del self._bindings[item.metadata.name]
            case ResourceQuota():
                self._quotas.pop((item.metadata.namespace, item.metadata.name), None)
        self._changes.cluster = True

    def _put_node(self, node: Node) -> None:
        before = self._nodes.get(node.metadata.name)
        self._nodes[node.metadata.name] = node
        # Kubelets write all the time how their nodes are.
        if before is None or before.metadata.labels != node.metadata.labels:
            self._changes.nodes.add(node.metadata.name)

    def _put_namespace(self, namespace: Namespace) -> None:
        name = namespace.metadata.name
        before = self._namespaces.get(name)
        self._namespaces[name] = namespace
        self._changes.cluster = True
        if before is None or before.metadata.labels != namespace.metadata.labels:
            self._changes.nodes |= self._nodes_of_claims_in(name)

    def _nodes_of_claims_in(self, namespace: str) -> set[str]:
        """Looks at all claims: labels of namespaces change rarely."""
        claims = [claim for claim in self._held.values() if claim.metadata.namespace == namespace]
        return {node for claim in claims for node in nodes_of(claim, self._driver)}

    def _drop_rule(self, name: str) -> None:
        for node, rules in self._taint_rules.items():
            if rules.pop(name, None) is not None:
                self._changes.nodes.add(node)

    def _put_claim(self, claim: ResourceClaim) -> None:
        uid = claim.metadata.uid
        self._stops_waiting(claim, classes_of(claim))
        for name in classes_of(claim):
            self._changes.waiting |= uid not in self._waiting.setdefault(name, {})
            self._waiting[name][uid] = claim
        before = self._held.get(uid)
        nodes = nodes_of(claim, self._driver)
        if before is not None:
            left = nodes_of(before, self._driver) - nodes
            self._remove(uid, left)
            self._changes.nodes |= left
        if nodes:
            self._held[uid] = claim
        else:
            self._held.pop(uid, None)
        for node in nodes:
            self._claims.setdefault(node, {})[uid] = claim
        if before is None or not _is_like(before, claim):
            self._changes.nodes |= nodes

    def _stops_waiting(self, claim: ResourceClaim, goes_on_for: AbstractSet[str] = frozenset()) -> None:
        uid = claim.metadata.uid
        for name in [name for name, claims in self._waiting.items() if uid in claims and name not in goes_on_for]:
            del self._waiting[name][uid]
            if not self._waiting[name]:
                del self._waiting[name]
        if not goes_on_for:
            for gone in (uid, *(owner.uid for owner in claim.metadata.owner_references)):
                # A pod may have other claims that wait still.
                self._changes.waiting |= self._told.pop(gone, None) is not None

    def _drop_claim(self, claim: ResourceClaim) -> None:
        self._stops_waiting(claim)
        before = self._held.pop(claim.metadata.uid, None)
        if before is not None:
            nodes = nodes_of(before, self._driver)
            self._remove(claim.metadata.uid, nodes)
            self._changes.nodes |= nodes

    def _remove(self, uid: str, nodes: set[str]) -> None:
        for node in nodes:
            claims = self._claims[node]
            del claims[uid]
            if not claims:
                del self._claims[node]


def _is_like(before: ResourceClaim, after: ResourceClaim) -> bool:
    """What agents and the scheduler say of a claim beside its allocation changes several times while a pod starts."""
    ours = replace(after.metadata, resource_version=before.metadata.resource_version)
    return (
        before.metadata == ours
        and before.status.allocation == after.status.allocation
        and before.status.reserved_for == after.status.reserved_for
    )
