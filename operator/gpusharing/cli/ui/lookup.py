"""What is read when somebody looks at one object."""

from collections.abc import Iterable, Sequence
from typing import Final

from gpusharing.cli.reading.client import Client
from gpusharing.cli.reading.cluster import Ask, Found, world_of
from gpusharing.cli.reading.questions import Question
from gpusharing.cli.reading.together import Together, find
from gpusharing.cli.ui.answering import answering
from gpusharing.cli.ui.live import LiveSource
from gpusharing.explaining.scene import Scene
from gpusharing.snapshots.world import CLAIMS, CLASSES, EVENTS, NODE_SHARINGS, NODES, PODS, POLICIES, Json, World
from gpusharing.ui import details
from gpusharing.ui.picture import Details

_MOST_USERS: Final = 32
_WITHOUT_NAMESPACE: Final = "default"
"""The namespace of Events about objects that have none."""

Key = tuple[str, str]


class LiveLookup:
    """Raises SourceError."""

    def __init__(self, client: Client, source: LiveSource) -> None:
        self._client = client
        self._source = source

    @answering
    def gpu(self, node: str, name: str) -> Details | None:
        sharing = find(self._client, NODE_SHARINGS, node)
        if sharing is None:
            return None
        holders = self._holders(node, name)
        together = Together(self._client)
        together.each(CLAIMS, sorted({(namespace, claim) for namespace, claim, _ in holders}))
        users = [(namespace, uid) for namespace, _, uid in holders]
        self._ask_for_events(together, [*users, (_WITHOUT_NAMESPACE, sharing["metadata"]["uid"])])
        return details.of_gpu(Scene(world=self._world(together, node_sharings=[sharing])), node, name)

    @answering
    def node(self, name: str) -> Details | None:
        node, sharing = find(self._client, NODES, name), find(self._client, NODE_SHARINGS, name)
        nodes, sharings = ([one] if one is not None else [] for one in (node, sharing))
        together = Together(self._client)
        uids = [one["metadata"]["uid"] for one in (*nodes, *sharings)]
        # Of a Node, kubelets say its name in place of its uid.
        self._ask_for_events(together, [(_WITHOUT_NAMESPACE, uid) for uid in (*uids, name)])
        return details.of_node(Scene(world=self._world(together, nodes=nodes, node_sharings=sharings)), name)

    @answering
    def pod(self, namespace: str, name: str) -> Details | None:
        pod = find(self._client, PODS, name, namespace)
        if pod is None:
            return None
        question = Question(self._client)
        (question.running_pod if pod["spec"].get("nodeName") else question.waiting_pod)(pod)
        return details.of_pod(question.scene(), pod)

    @answering
    def policy(self, name: str) -> Details | None:
        policy = find(self._client, POLICIES, name)
        if policy is None:
            return None
        together = Together(self._client)
        together.list(CLASSES.field, Ask(CLASSES))
        self._ask_for_events(together, [(_WITHOUT_NAMESPACE, policy["metadata"]["uid"])])
        return details.of_policy(Scene(world=self._world(together, policies=[policy])), name)

    def _holders(self, node: str, name: str) -> Sequence[tuple[str, str, str]]:
        """Namespace, name and uid of claims."""
        return [
            (one.namespace, one.claim, one.uid)
            for each in self._source.picture().fleet.nodes
            if each.name == node
            for gpu in each.gpus
            if gpu.name == name
            for one in gpu.holders[:_MOST_USERS]
        ]

    def _ask_for_events(self, together: Together, about: Iterable[Key]) -> None:
        """`about`: namespaces and uids."""
        for namespace, uid in about:
            ask = Ask(EVENTS, namespace=namespace, fields=f"involvedObject.uid={uid}")
            together.list(f"{EVENTS.field} {uid}", ask)

    def _world(self, together: Together, **more: Sequence[Json]) -> World:
        """`more`: objects that were read before."""
        found = dict(together.results())
        events = [one for name in list(found) if name.startswith(EVENTS.field) for one in found.pop(name).objects]
        lists = self._source.lists.read()
        # Who may be named is the same as on the page.
        named = lists.claims if lists else Found()
        claims = found.get(CLAIMS.field, Found())
        found[CLAIMS.field] = claims._replace(only_namespace=named.only_namespace, unread=named.unread)
        found |= {EVENTS.field: Found(events), **{name: Found(objects) for name, objects in more.items()}}
        return world_of(lists.minor if lists else 0, found)
