"""All objects that decisions use, with the indexes by which they ask, and what has changed since the last decision.

Objects are immutable: a changed one replaces its predecessor.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple, TypeVar

from gpusharing.api import names
from gpusharing.api.core import ResourceQuota, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding
from gpusharing.api.dra import DeviceClass, DeviceTaintRule, Namespace, Node, ResourceClaim
from gpusharing.api.meta import Key, ObjectMeta, key_of, metadata_of
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.api.sharing.node_spec import IDLE_WAIT
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.api.templates import ResourceClaimTemplate
from gpusharing.core.claims.allocation import nodes_of, requested_classes
from gpusharing.core.state.accounts import Account, Accounts
from gpusharing.core.state.fence import Fence
from gpusharing.core.state.node_view import NodeView
from gpusharing.core.state.seen_entries import SeenEntries

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """Facts that hold while the operator runs."""

    driver: str
    minor: int
    """Of the Kubernetes whose scheduler reads selectors."""
    idle_wait: float = IDLE_WAIT
    """Seconds for which a device has to be closing before it may be withdrawn from an idle GPU."""
    has_taint_rules: bool = False
    """Whether the API server has DeviceTaintRules."""


class WaitingGroup(NamedTuple):
    """Claims that wait for the same class in the same namespace: all that is said of one is true of all."""

    device_class: str
    namespace: str


@dataclass(slots=True)
class Changes:
    nodes: set[str] = field(default_factory=set)
    """Nodes of which something changed that their decision uses."""
    policies: set[str] = field(default_factory=set)
    cluster: bool = False
    """Whether a class, namespace, quota, template or guard says something else."""
    renewed: set[str] = field(default_factory=set)
    """By uid, classes, quotas, templates and guards of which only the version changed: writes that name the old one
    would fail."""
    fence: bool = False
    """Whether something else was seen of the closing guard."""
    waiting: dict[WaitingGroup, set[Key]] = field(default_factory=lambda: defaultdict(set))
    """Claims that began or ended to wait."""
    accounts: set[Account] = field(default_factory=set)
    """In which the number of devices is another one."""

    def __bool__(self) -> bool:
        return any(getattr(self, one.name) for one in fields(self))


class ClusterState:
    def __init__(self, setup: Setup) -> None:
        self._driver = setup.driver
        self._has_taint_rules = setup.has_taint_rules
        self._objects: defaultdict[type, dict[Key, Any]] = defaultdict(dict)
        self._claims_on: defaultdict[str, dict[Key, ResourceClaim]] = defaultdict(dict)
        """By node."""
        self._rules_on: defaultdict[str, dict[Key, DeviceTaintRule]] = defaultdict(dict)
        """By node; only our own."""
        self._waiting: defaultdict[WaitingGroup, dict[Key, ResourceClaim]] = defaultdict(dict)
        self.accounts = Accounts(setup.driver)
        self._changes = Changes()
        self.seen_fence: Fence = {}
        """What the closing guard was seen to refuse on all API servers, before the newest claims were read."""
        self.seen_entries: SeenEntries = {}
        """What the guards of tenants were seen to know on all API servers."""
        self._replace: Mapping[type, Callable[[Any, Any], None]] = {
            SharingPolicy: self._replace_policy,
            NodeSharing: self._replace_node_sharing,
            Node: self._replace_node,
            ResourceClaim: self._replace_claim,
            Namespace: self._replace_namespace,
            DeviceTaintRule: self._replace_rule,
            DeviceClass: self._replace_of_cluster,
            ResourceQuota: self._replace_of_cluster,
            ResourceClaimTemplate: self._replace_of_cluster,
            ValidatingAdmissionPolicy: self._replace_of_cluster,
            ValidatingAdmissionPolicyBinding: self._replace_of_cluster,
        }

    def all(self, kind: type[T]) -> Mapping[Key, T]:
        return self._objects[kind]

    def by_name(self, kind: type[T]) -> Mapping[str, T]:
        """Of a kind without namespaces."""
        return {name: item for (_, name), item in self._objects[kind].items()}

    def get(self, kind: type[T], key: Key) -> T | None:
        return self._objects[kind].get(key)

    def put(self, kind: type[T], item: T) -> None:
        """The object is new or has changed. One of the same name with another uid has gone without a word."""
        key = key_of(item)
        if isinstance(item, SharingPolicy) and item.metadata.deletion_timestamp is not None:
            # It has gone. A tenant's object that names it as its owner could keep it there for as long as it likes.
            self.remove(kind, key)
            return
        before = self._objects[kind].get(key)
        if before is not None and metadata_of(before).uid != metadata_of(item).uid:
            self.remove(kind, key)
            before = None
        self._objects[kind][key] = item
        self._replace[kind](before, item)

    def remove(self, kind: type[Any], key: Key) -> None:
        before = self._objects[kind].pop(key, None)
        if before is not None:
            self._replace[kind](before, None)

    def see_fence(self, fence: Fence) -> None:
        self.seen_fence = fence
        self._changes.fence = True

    def see_entries(self, seen: SeenEntries) -> None:
        self.seen_entries = seen
        self._changes.cluster = True

    @property
    def has_changed(self) -> bool:
        return bool(self._changes)

    def take_changes(self) -> Changes:
        """What changed since they were taken last."""
        changes, self._changes = self._changes, Changes()
        return changes

    def give_back(self, changes: Changes) -> None:
        """They are to be taken again, with what has changed since."""
        now = self._changes
        now.nodes |= changes.nodes
        now.policies |= changes.policies
        now.cluster |= changes.cluster
        now.fence |= changes.fence
        now.renewed |= changes.renewed
        now.accounts |= changes.accounts
        for group, keys in changes.waiting.items():
            now.waiting[group] |= keys

    def mark_everything(self) -> None:
        """As if all objects were new."""
        self._changes.nodes |= {name for kind in (Node, NodeSharing) for _, name in self._objects[kind]}
        self._changes.policies |= {name for _, name in self._objects[SharingPolicy]}
        self._changes.cluster = True

    @property
    def waiting(self) -> Mapping[WaitingGroup, Mapping[Key, ResourceClaim]]:
        """Claims that are not allocated yet."""
        return self._waiting

    def claims_on(self, node: str) -> Collection[ResourceClaim]:
        return self._claims_on[node].values() if node in self._claims_on else ()

    def view(self, node: str) -> NodeView | None:
        """None: it cannot be decided on. Without its Node, a NodeSharing is about to be garbage-collected."""
        sharing, itself = self.get(NodeSharing, ("", node)), self.get(Node, ("", node))
        if sharing is None or itself is None:
            return None
        claims = tuple(self.claims_on(node))
        rules = self._rules_on.get(node, {})
        namespaces = self._objects[Namespace]
        return NodeView(
            sharing=sharing,
            labels=itself.metadata.labels,
            not_ready_since=itself.not_ready_since,
            claims=claims,
            namespaces={
                name: labels
                for name in {claim.metadata.namespace for claim in claims}
                if ("", name) in namespaces and (labels := namespaces["", name].metadata.labels) is not None
            },
            taint_rules=tuple(rules[key] for key in sorted(rules)) if self._has_taint_rules else None,
            driver=self._driver,
        )

    def _replace_policy(self, before: SharingPolicy | None, after: SharingPolicy | None) -> None:
        self._changes.policies.add(_name(before or after))

    def _replace_node_sharing(self, before: NodeSharing | None, after: NodeSharing | None) -> None:
        self._changes.nodes.add(_name(before or after))

    def _replace_node(self, before: Node | None, after: Node | None) -> None:
        # Kubelets write all the time how their nodes are.
        if before is None or after is None or _node_facts(before) != _node_facts(after):
            self._changes.nodes.add(_name(before or after))

    def _replace_claim(self, before: ResourceClaim | None, after: ResourceClaim | None) -> None:
        key = key_of(before or after)
        left, held = (nodes_of(claim, self._driver) if claim else set[str]() for claim in (before, after))
        if before is None or after is None or not _says_the_same(before, after):
            self._changes.nodes |= left | held
        for node in left - held:
            _drop(self._claims_on, node, key)
        if after is not None:
            for node in held:
                self._claims_on[node][key] = after
        self._changes.accounts |= self.accounts.replace(before, after)
        self._replace_waiting(key, before, after)

    def _replace_waiting(self, key: Key, before: ResourceClaim | None, after: ResourceClaim | None) -> None:
        waited, waits = _groups(before), _groups(after)
        for group in waited - waits:
            _drop(self._waiting, group, key)
        if after is not None:
            for group in waits:
                self._waiting[group][key] = after
        for group in waited ^ waits:
            self._changes.waiting[group].add(key)

    def _replace_namespace(self, before: Namespace | None, after: Namespace | None) -> None:
        metadata = [item.metadata if item else None for item in (before, after)]
        if _facts(metadata[0]) == _facts(metadata[1]):
            return
        self._changes.cluster = True
        name = _name(before or after)
        # Looks at all claims: labels of namespaces change rarely.
        for node, claims in self._claims_on.items():
            if any(namespace == name for namespace, _ in claims):
                self._changes.nodes.add(node)

    def _replace_rule(self, before: DeviceTaintRule | None, after: DeviceTaintRule | None) -> None:
        key = key_of(before or after)
        left, node = (_node_of_rule(rule) if rule else None for rule in (before, after))
        if left is not None and left != node:
            _drop(self._rules_on, left, key)
        if node is not None and after is not None:
            self._rules_on[node][key] = after
        self._changes.nodes |= {name for name in (left, node) if name is not None}

    def _replace_of_cluster(self, before: Any, after: Any) -> None:
        is_same = before is not None and after is not None and before.spec == after.spec
        if is_same and _facts(before.metadata) == _facts(after.metadata):
            self._changes.renewed.add(after.metadata.uid)
        else:
            self._changes.cluster = True


def _name(item: Any) -> str:
    return metadata_of(item).name


def _facts(metadata: ObjectMeta | None) -> ObjectMeta | None:
    """Metadata without what changes with each write."""
    return replace(metadata, resource_version="", generation=0) if metadata else None


def _node_facts(node: Node) -> tuple[object, ...]:
    return node.metadata.labels, node.not_ready_since


def _drop(index: dict[Any, dict[Key, T]], name: object, key: Key) -> None:
    items = index[name]
    del items[key]
    if not items:
        del index[name]


def _says_the_same(before: ResourceClaim, after: ResourceClaim) -> bool:
    """What agents and the scheduler say of a claim beside its allocation changes several times while a pod starts."""
    return (
        before.status.allocation == after.status.allocation
        and before.status.reserved_for == after.status.reserved_for
        and _facts(before.metadata) == _facts(after.metadata)
    )


def _groups(claim: ResourceClaim | None) -> AbstractSet[WaitingGroup]:
    if claim is None:
        return set()
    return {WaitingGroup(name, claim.metadata.namespace) for name in requested_classes(claim)}


def _node_of_rule(rule: DeviceTaintRule) -> str | None:
    """The node whose device it taints; None if the rule is not ours."""
    if rule.metadata.labels.get(names.MANAGED_BY) != names.OPERATOR:
        return None
    return names.node_of_pool(rule.spec.device_selector.get("pool", ""))
