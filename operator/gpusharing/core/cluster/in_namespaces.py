"""What policies have in the namespaces of their tenants: made where it is missing, repaired, and taken away with the
label or the wish. Nothing of others is touched."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from gpusharing.api.dra import Namespace
from gpusharing.api.meta import Key, OwnedMeta
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.core.cluster import ownership
from gpusharing.core.cluster.decided import ClusterDecision
from gpusharing.core.intents import Create, Delete, Intent, Patch, Stage, Target
from gpusharing.core.memo import Memo
from gpusharing.core.reasons import Complaint, DegradedReason
from gpusharing.core.text import listed


class Owned(Protocol):
    @property
    def metadata(self) -> OwnedMeta: ...


T = TypeVar("T", bound=Owned)

# Of one policy in one namespace at a time, more than it ever has: whoever makes many with its marks does not fill the
# queue of writes.
_MOST_DELETED: Final = 32


class Wanted(NamedTuple):
    """What a policy wants in each namespace of its tenants."""

    policy: SharingPolicy
    specs: Mapping[str, Mapping[str, Any]]
    """By the names of objects. What it has and does not want is taken away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Belonging(Generic[T]):
    """A kind of objects that policies have in namespaces."""

    target: Target
    is_right: Callable[[T, Mapping[str, Any]], bool]
    """Whether it says what its spec is to say."""
    patch: Callable[[T, Mapping[str, Any]], Mapping[str, Any]] | None
    """Makes it right; None where the API server lets nobody change it, so that it is made again."""
    not_ours: DegradedReason
    """Where somebody else has one of the name that is wanted."""


class _InNamespace(NamedTuple, Generic[T]):
    """What is decided on the wishes of these policies, in a namespace as it is now with these objects."""

    wanted: tuple[Wanted, ...]
    namespace: Namespace | None
    there: tuple[T, ...]


class _Found(NamedTuple):
    intents: tuple[Intent, ...]
    not_ours: tuple[tuple[str, str], ...]
    """Policies, each with the name of an object that somebody else has made."""


class NamespaceDecider(Generic[T]):
    """Remembers the decision on each namespace: there are hundreds, and one changes at a time."""

    def __init__(self, belonging: Belonging[T]) -> None:
        self._belonging: Final = belonging
        self._grouped: Final[Memo[tuple[Mapping[Key, T]], Mapping[str, tuple[T, ...]]]] = Memo()
        self._found: Final[Memo[_InNamespace[T], _Found]] = Memo()

    def decide(
        self, wanted: tuple[Wanted, ...], namespaces: Mapping[str, Namespace], existing: Mapping[Key, T]
    ) -> ClusterDecision:
        """Of two policies that want the same name, it goes to the first. What a policy has that is not among them stays
        as it is."""
        # A copy: the caller's mapping may change under it.
        there = self._grouped.one(_by_namespace, (dict(existing),))
        things = {
            name: _InNamespace(wanted, namespaces.get(name), there.get(name, ()))
            for name in sorted(namespaces.keys() | there.keys())
        }
        intents: list[Intent] = []
        not_ours: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        for namespace, found in zip(things, self._found.map(self._in_namespace, things), strict=True):
            intents += found.intents
            for named in found.not_ours:
                not_ours[named].append(namespace)
        complaints: defaultdict[str, list[Complaint]] = defaultdict(list)
        for (policy, name), found_in in sorted(not_ours.items()):
            complaints[policy].append(self._not_ours(name, found_in))
        return ClusterDecision(intents=intents, complaints=complaints)

    def _in_namespace(self, things: _InNamespace[T]) -> _Found:
        wanted, namespace, there = things
        if namespace is not None and namespace.metadata.labels is None:
            # Whose tenant it is, nobody knows: it gets nothing, and nothing is taken from it.
            return _Found((), ())
        by_name = {item.metadata.name: item for item in there}
        taken: set[str] = set()
        intents: list[Intent] = []
        not_ours: list[tuple[str, str]] = []
        for policy, specs in wanted:
            has_tenants = namespace is not None and _has_tenants(namespace, policy)
            mine = {name: specs[name] for name in specs if name not in taken} if has_tenants else {}
            not_ours += [(policy.metadata.name, name) for name in specs if has_tenants and name in taken]
            taken |= mine.keys()
            for name, spec in mine.items():
                item = by_name.get(name)
                if item is None and namespace is not None:
                    intents.append(self._create(namespace, name, policy, spec))
                elif item is not None and ownership.is_ours(item.metadata, policy):
                    intents += self._repairs(item, policy, spec)
                else:
                    not_ours.append((policy.metadata.name, name))
            unwanted = (
                item for item in there if item.metadata.name not in mine and ownership.is_ours(item.metadata, policy)
            )
            intents += map(self._delete, islice(unwanted, _MOST_DELETED))
        return _Found(tuple(intents), tuple(not_ours))

    def _create(self, namespace: Namespace, name: str, policy: SharingPolicy, spec: Mapping[str, Any]) -> Create:
        metadata = ownership.metadata(name, policy, namespace=namespace.metadata.name)
        return Create(
            target=self._belonging.target, stage=Stage.CLASSES, body={"metadata": metadata, "spec": dict(spec)}
        )

    def _repairs(self, item: T, policy: SharingPolicy, spec: Mapping[str, Any]) -> Sequence[Intent]:
        says_it = self._belonging.is_right(item, spec)
        if says_it and ownership.is_marked(item.metadata, policy):
            return ()
        patch = self._belonging.patch
        if not says_it and patch is None:
            return (self._delete(item),)
        body: dict[str, Any] = {"metadata": ownership.marks(item.metadata, policy)}
        if patch is not None:
            body["spec"] = patch(item, spec)
        return (Patch(target=self._belonging.target, stage=Stage.CLASSES, before=item.metadata, body=body),)

    def _delete(self, item: T) -> Delete:
        return Delete(target=self._belonging.target, stage=Stage.CLASSES, before=item.metadata)

    def _not_ours(self, name: str, namespaces: Sequence[str]) -> Complaint:
        message = (
            f"{self._belonging.target} {name} exists and was not made for this policy: delete or rename it in "
            f"{listed(namespaces)}"
        )
        return Complaint(self._belonging.not_ours, message)


def _by_namespace(things: tuple[Mapping[Key, T]]) -> Mapping[str, tuple[T, ...]]:
    [existing] = things
    found: defaultdict[str, list[T]] = defaultdict(list)
    for namespace, name in sorted(existing):
        found[namespace].append(existing[namespace, name])
    return {namespace: tuple(items) for namespace, items in found.items()}


def _has_tenants(namespace: Namespace, policy: SharingPolicy) -> bool:
    # In one that is being deleted nothing can be made.
    return not namespace.metadata.deletion_timestamp and policy.spec.tenants.namespaces.matches(
        namespace.metadata.labels or {}
    )
