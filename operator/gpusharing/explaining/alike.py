"""Nodes that are alike for a question: one of them is asked, and its answer counts for all.

In a fleet most nodes publish the same devices under other names. Two nodes are alike if their slices differ only in the
names of node and pool, and in attributes that no selector and no constraint of the question reads, and if the same is
taken of the same devices.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from gpusharing.api import strict_json
from gpusharing.api.dra import Node
from gpusharing.api.names import GROUP
from gpusharing.core.allocate.inventory import QualifiedName, TaintRule
from gpusharing.core.allocate.node_selectors import is_for
from gpusharing.core.allocate.published import PoolId
from gpusharing.core.allocate.requests import Claim
from gpusharing.explaining import lean

Reads = Collection[QualifiedName] | None
"""Attributes, with their domains; None: nobody knows which."""


class Group(NamedTuple):
    representative: Node
    members: tuple[str, ...]
    """With the representative."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """Slices by what they are for."""

    of_node: Mapping[str, Sequence[lean.Slice]]
    of_many: Sequence[lean.Slice]
    """For nodes that a selector names, or for all."""
    heads: Mapping[str, lean.SliceHead]
    """By the name of the slice."""
    spread: frozenset[PoolId]
    """Pools with slices of several nodes: what one node has of them depends on the others."""

    def concerning(self, nodes: Collection[str]) -> list[lean.Slice]:
        """All that matters for these nodes."""
        found = [one for name in nodes for one in self.of_node.get(name, ())]
        found += [
            one
            for name, some in self.of_node.items()
            if self.spread and name not in nodes
            for one in some
            if self.heads[one.metadata.name].pool_id in self.spread
        ]
        return [*found, *self.of_many]


def sort(slices: Iterable[lean.Slice]) -> Published:
    of_node: defaultdict[str, list[lean.Slice]] = defaultdict(list)
    of_many: list[lean.Slice] = []
    heads: dict[str, lean.SliceHead] = {}
    nodes_of_pool: defaultdict[PoolId, set[str]] = defaultdict(set)
    for one in sorted(slices, key=lambda each: each.metadata.name):
        head = heads[one.metadata.name] = one.head
        (of_node[head.node_name] if head.node_name else of_many).append(one)
        nodes_of_pool[head.pool_id].add(head.node_name)
    spread = frozenset(pool for pool, nodes in nodes_of_pool.items() if len(nodes) > 1)
    return Published(of_node=of_node, of_many=of_many, heads=heads, spread=spread)


def taken_of_pools(claims: Iterable[lean.Claim]) -> Mapping[str, Sequence[lean.Result]]:
    """By the pool's name; admins only look."""
    found: defaultdict[str, list[lean.Result]] = defaultdict(list)
    for claim in claims:
        for result in claim.results:
            if not result.admin_access:
                found[result.pool].append(result)
    return found


def group(
    nodes: Sequence[Node],
    published: Published,
    taken: Mapping[str, Sequence[lean.Result]],
    *,
    contents: "Contents",
    rules: Sequence[TaintRule] = (),
    claims: Sequence[Claim] = (),
) -> list[Group]:
    """In the order of `nodes`. `claims`: those of the pod, of which some are allocated."""
    signing = _Signing(published, taken, contents, rules)
    elsewhere = [claim.node_selector for claim in claims if claim.is_allocated and claim.node_selector is not None]
    many = [(one.whole_spec(), one.metadata.name) for one in published.of_many]
    members: defaultdict[Hashable, list[str]] = defaultdict(list)
    first: dict[Hashable, Node] = {}
    for node in nodes:
        name = node.metadata.name
        key = (
            signing.node(name),
            tuple(_concerns(spec, node) for spec, _ in many),
            tuple(is_for(node, {"nodeSelector": selector}) for selector in elsewhere),
        )
        first.setdefault(key, node)
        members[key].append(name)
    return [Group(first[key], tuple(some)) for key, some in members.items()]


def _concerns(spec: Mapping[str, object], node: Node) -> Hashable:
    if spec.get("perDeviceNodeSelection"):
        devices: Sequence[Mapping[str, object]] = spec.get("devices") or ()  # type: ignore[assignment]
        return tuple(is_for(node, device) for device in devices)
    return is_for(node, spec)


class Contents:
    """Devices and counters of slices, without attributes that nobody reads: each is decoded once."""

    def __init__(self, reads: Reads) -> None:
        self._unread = None if reads is None else _unread(reads)
        self._numbers: dict[bytes, int] = {}
        self._known: dict[bytes, int] = {}
        """By the whole of it: each slice is asked for twice."""
        self._decoded: dict[int, Any] = {}

    def number(self, data: bytes) -> int:
        found = self._known.get(data)
        if found is None:
            content = data if self._unread is None else self._unread.sub(b"", data)
            found = self._known[data] = self._numbers.setdefault(content, len(self._numbers))
        return found

    def spec(self, one: lean.Slice, head: lean.SliceHead) -> dict[str, Any]:
        """Of a slice. Unread attributes may be those of another node."""
        if not head.node_name:
            return one.whole_spec()
        pool = head.pool
        where = {"name": pool.name, "generation": pool.generation, "resourceSliceCount": pool.resource_slice_count}
        spec: dict[str, Any] = {"driver": head.driver, "nodeName": head.node_name, "pool": where}
        for name, raw in (("devices", head.devices), ("sharedCounters", head.shared_counters)):
            if data := bytes(raw):
                spec[name] = self._decode(data)
        return spec

    def _decode(self, data: bytes) -> Any:
        number = self.number(data)
        if number not in self._decoded:
            self._decoded[number] = strict_json.loads(data)
        return self._decoded[number]


class _Signing:
    def __init__(
        self,
        published: Published,
        taken: Mapping[str, Sequence[lean.Result]],
        contents: Contents,
        rules: Sequence[TaintRule],
    ) -> None:
        self._published = published
        self._taken = taken
        self._contents = contents
        self._ruled_pools = {rule.pool for rule in rules if rule.pool is not None}

    def node(self, name: str) -> Hashable:
        slices = [self._published.heads[one.metadata.name] for one in self._published.of_node.get(name, ())]
        if any(head.pool_id in self._published.spread for head in slices):
            return name
        return tuple(self._slice(head, name) for head in slices), tuple(
            (_relative(pool, name), self._of_pool(pool)) for pool in sorted({head.pool.name for head in slices})
        )

    def _slice(self, head: lean.SliceHead, node: str) -> Hashable:
        return (
            head.driver,
            _relative(head.pool.name, node),
            head.pool.generation,
            head.pool.resource_slice_count,
            self._contents.number(bytes(head.devices)),
            self._contents.number(bytes(head.shared_counters)),
        )

    def _of_pool(self, pool: str) -> Hashable:
        """What is taken of it. The pool's own name only if somebody else names it, too."""
        taken = sorted(
            (
                one.driver,
                one.device,
                one.share_id is not None,
                tuple(sorted((one.consumed_capacity or {}).items())),
            )
            for one in self._taken.get(pool, ())
        )
        return pool if pool in self._ruled_pools else "", tuple(taken)


def _relative(pool: str, node: str) -> str:
    head, slash, rest = pool.partition("/")
    return f"*{slash}{rest}" if head == node else pool


def _unread(reads: Collection[QualifiedName]) -> re.Pattern[bytes]:
    """Attributes that are texts or versions and that nobody reads. Not ours: explanations name them. In a JSON text no
    quotation mark of a value stands before a colon and a brace without a backslash."""
    names = {each for domain, name in reads for each in (name, f"{domain}/{name}")}
    kept = [re.escape(f"{GROUP}/".encode()) + rb'[^"]+', *(re.escape(name.encode()) for name in sorted(names))]
    # Simple enough for 25 MB: a text with an escape in it stays, and its node is alike to fewer others.
    return re.compile(rb'"(?!(?:' + b"|".join(kept) + rb')")[^"\\]+":\{"(?:string|version)":"[^"\\]*"\}')
