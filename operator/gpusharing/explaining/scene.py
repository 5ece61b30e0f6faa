"""What an explanation looks at."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from pydantic import TypeAdapter

from gpusharing.api import names
from gpusharing.api.dra import DeviceClass
from gpusharing.api.meta import Key
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.core.allocate.inventory import TaintRule, read_taint_rule
from gpusharing.explaining import lean
from gpusharing.explaining.hidden import hidden_claims
from gpusharing.snapshots.decoding import decoded
from gpusharing.snapshots.world import Json, World

_CLASS: Final = TypeAdapter(DeviceClass)
_POLICY: Final = TypeAdapter(SharingPolicy)
_NODE_SHARING: Final = TypeAdapter(NodeSharing)


@dataclass(frozen=True, kw_only=True)
class Scene:
    world: World
    """Without the three kinds below, unless it is from a file. Of claims, those that are read whole."""
    nodes: Sequence[lean.Node] = ()
    slices: Sequence[lean.Slice] = ()
    visible_claims: Sequence[lean.Claim] = ()
    """Of all namespaces, or of those that may be read."""
    driver: str = names.DRIVER
    served: Sequence[str] = ()
    """As those of the World."""
    read_node_sharing: Callable[[str], Json | None] | None = None
    """Reads one of them when it is needed; None: the World has those that there are."""

    @classmethod
    def of_file(cls, world: World) -> "Scene":
        return cls(
            world=world,
            served=world.served,
            nodes=lean.Lean(lean.Node).of_objects(world.nodes),
            slices=lean.Lean(lean.Slice).of_objects(world.slices),
            visible_claims=lean.Lean(lean.Claim).of_objects(world.claims),
        )

    @property
    def now(self) -> str:
        return self.world.taken_at

    @property
    def sees_all_claims(self) -> bool:
        return "claims" not in self.world.unread and "claims" not in self.world.only_namespace

    @cached_property
    def claims(self) -> Sequence[lean.Claim]:
        """With those of namespaces that may not be read, as far as NodeSharings have them: they have no names."""
        if self.sees_all_claims:
            return self.visible_claims
        return [*self.visible_claims, *hidden_claims(self.visible_claims, self.node_sharings.values(), self.driver)]

    @cached_property
    def whole_claims(self) -> Mapping[Key, Json]:
        return {(one["metadata"].get("namespace", ""), one["metadata"]["name"]): one for one in self.world.claims}

    @cached_property
    def claims_by_key(self) -> Mapping[Key, lean.Claim]:
        return {claim.key: claim for claim in self.visible_claims}

    @cached_property
    def classes(self) -> Mapping[str, DeviceClass]:
        found = decoded(_CLASS, self.world.classes)
        return {one.metadata.name: one for one in found}

    @cached_property
    def policies(self) -> Mapping[str, SharingPolicy]:
        return {one.metadata.name: one for one in decoded(_POLICY, self.world.policies)}

    @cached_property
    def node_sharings(self) -> Mapping[str, NodeSharing]:
        return {one.metadata.name: one for one in decoded(_NODE_SHARING, self.world.node_sharings)}

    def node_sharing(self, node: str) -> NodeSharing | None:
        if self.read_node_sharing is None or node in self.node_sharings:
            return self.node_sharings.get(node)
        found = self.read_node_sharing(node)
        return next(iter(decoded(_NODE_SHARING, [found])), None) if found is not None else None

    @cached_property
    def taint_rules(self) -> Sequence[TaintRule]:
        return [rule for one in self.world.taint_rules for rule in read_taint_rule(one["spec"])]

    def labels_of_namespace(self, name: str) -> Mapping[str, str] | None:
        """None: they may not be read."""
        found = next((one for one in self.world.namespaces if one["metadata"]["name"] == name), None)
        return None if found is None else found["metadata"].get("labels") or {}
