"""A cluster as the source of the page: watches, and what is read when somebody looks closer."""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, Self, TypeVar

from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.cli.exits import CommandError
from gpusharing.cli.reading.client import Client, ReadError
from gpusharing.cli.reading.cluster import Ask, Found, read_list, world_of
from gpusharing.cli.reading.fleet import Lists, LiveLists, fleet_of, read_lists, waiting_of
from gpusharing.cli.reading.history import read_history
from gpusharing.cli.reading.questions import Question
from gpusharing.cli.reading.together import Together, find
from gpusharing.cli.reading.use import read_usage
from gpusharing.cli.reading.watching import Heard, Watched
from gpusharing.explaining.scene import Scene
from gpusharing.findings.finding import Finding
from gpusharing.occupancy import notes
from gpusharing.occupancy.usage import Usage
from gpusharing.occupancy.waiting import waiting, waiting_pods
from gpusharing.planning.changes import Plan
from gpusharing.snapshots.world import CLAIMS, CLASSES, EVENTS, NODE_SHARINGS, NODES, PODS, POLICIES, Json, World
from gpusharing.ui import details
from gpusharing.ui.gathered import Gathered, with_findings
from gpusharing.ui.history import EVERY, History, Sample, sample
from gpusharing.ui.picture import Details, Picture, PlanError, SourceError
from gpusharing.ui.planning import plan_of

T = TypeVar("T")

_SETTLE: Final = 0.05
"""Seconds in which changes are collected."""
_FIRST: Final = 20.0
"""Seconds until the page is served, also if the cluster was not read by then."""
_EXPLAINED_EVERY: Final = 5.0
_EXPLAINED_AT_LEAST_EVERY: Final = 60.0
"""Nodes and slices are not watched: they are several times as large as all that is."""
_MEASURED_EVERY: Final = 15.0
_HISTORY_EVERY: Final = 300.0
_NOBODY_LOOKS: Final = 120.0
_MOST_USERS: Final = 32
_OF_EVENTS: Final = "default"
"""The namespace of Events about objects that have none."""


class LiveSource:
    def __init__(
        self, client: Client, namespace: str, read: Callable[[], World], *, prometheus: str | None = None
    ) -> None:
        """`read`: all that a plan uses. `prometheus`: its URL. Raises CommandError."""
        self._client = client
        self._read = read
        self._prometheus = prometheus
        self._lock = threading.Lock()
        self._heard: list[Callable[[], None]] = []
        self._changed = threading.Event()
        self._gathered = Gathered()
        self._explained: dict[tuple[str, str], Finding] = {}
        self._usage = Usage()
        self._history = History()
        self._former: Sequence[Sample] = ()
        """From Prometheus."""
        self._sampled_at = 0.0
        self._looked_at = time.monotonic()
        self._planning = threading.Lock()
        self._picture = Picture(problem="The cluster is being read.")
        self._is_new = threading.Condition()
        self._closed = threading.Event()
        heard: dict[str, Heard] = {"node_sharings": self._gathered.put_sharing, "claims": self._gathered.put_claim}
        self._lists = LiveLists(client, namespace, {name: partial(self._hear, put) for name, put in heard.items()})
        self._policies = Watched(client, Ask(POLICIES), lambda *_: self._lists.wake())

    def __enter__(self) -> Self:
        threading.Thread(target=self._run, name="draw", daemon=True).start()
        threading.Thread(target=self._explain, name="explain", daemon=True).start()
        threading.Thread(target=self._measure, name="measure", daemon=True).start()
        with self._is_new:
            self._is_new.wait_for(lambda: self._picture.number, _FIRST)
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._changed.set()
        self._lists.wake()

    # --------------------------------------------------------------------------------------------------------- pictures

    @property
    def samples(self) -> Sequence[Sample]:
        return self._former or self._history.samples()

    def picture(self) -> Picture:
        self._looked_at = time.monotonic()
        return self._picture

    def later(self, number: int, patience: float) -> Picture:
        with self._is_new:
            self._is_new.wait_for(lambda: self._picture.number != number, patience)
        return self.picture()

    def _hear(self, put: Heard, old: Any, new: Any) -> None:
        """From the thread of a watch."""
        with self._lock:
            self._heard.append(partial(put, old, new))

    def _run(self) -> None:
        while not self._closed.is_set():
            if self._lists.wait(EVERY):
                self._changed.set()
                self._closed.wait(_SETTLE)
            began = time.monotonic()
            lists = self._lists.read()
            self._draw(lists)
            # A large fleet that changes all the time leaves half of a processor to others.
            self._closed.wait(time.monotonic() - began)

    def _draw(self, lists: Lists | None) -> None:
        problem = self._lists.problem or self._policies.problem
        if lists is None:
            if problem:
                self._show(replace(self._picture, problem=problem))
            return
        with self._lock:
            heard, self._heard = self._heard, []
        for put in heard:
            put()
        world = lists.world()
        pods = waiting_pods(lists.pods.objects, lists.classes.objects)
        wait = with_findings(waiting(pods, (), Scene(world=world)), self._explained)
        fleet = self._gathered.fleet(world, self._usage, waiting=wait, notes=_notes(world, self._usage))
        if (now := time.time()) >= self._sampled_at + EVERY:
            self._sampled_at = now
            self._history.add(sample(fleet, now))
        self._show(Picture(fleet=fleet, policies=_policies(self._policies.found().objects), problem=problem))

    def _show(self, picture: Picture) -> None:
        with self._is_new:
            self._picture = replace(picture, number=self._picture.number + 1)
            self._is_new.notify_all()

    def _explain(self) -> None:
        """Why pods wait: after changes and now and then, while somebody looks."""
        pause = 0.0
        while not self._closed.wait(pause):
            self._changed.wait(_EXPLAINED_AT_LEAST_EVERY)
            self._changed.clear()
            pause = _EXPLAINED_EVERY
            lists = self._lists.read()
            if lists is None or not lists.pods.objects or time.monotonic() - self._looked_at > _NOBODY_LOOKS:
                continue
            began = time.monotonic()
            try:
                found = waiting_of(self._client, lists)
            except (CommandError, ReadError):
                continue  # the watches say so, too
            pause = max(pause, 10 * (time.monotonic() - began))
            self._explained = {(one.namespace, one.pod): one.finding for one in found if one.finding}
            self._lists.wake()

    def _measure(self) -> None:
        """What claims use, as often as it is measured, and the last day, while somebody looks."""
        next_history = 0.0
        while not self._closed.is_set():
            if time.monotonic() - self._looked_at <= _NOBODY_LOOKS:
                try:
                    self._usage = read_usage(self._client, self._prometheus)
                    if self._prometheus and time.monotonic() >= next_history:
                        self._former = read_history(self._prometheus)
                        next_history = time.monotonic() + _HISTORY_EVERY
                except (CommandError, ReadError) as error:
                    self._usage = Usage(missing=notes.not_measured(str(error), "Wait until it answers again."))
                self._lists.wake()
            self._closed.wait(_MEASURED_EVERY)

    # ---------------------------------------------------------------------------------------------------------- details

    def gpu(self, node: str, name: str) -> Details | None:
        def read() -> Details | None:
            sharing = find(self._client, NODE_SHARINGS, node)
            if sharing is None:
                return None
            holders = [
                (one.namespace, one.claim, one.uid)
                for each in self._picture.fleet.nodes
                if each.name == node
                for gpu in each.gpus
                if gpu.name == name
                for one in gpu.holders[:_MOST_USERS]
            ]
            together = Together(self._client)
            together.each(CLAIMS, sorted({(namespace, claim) for namespace, claim, _ in holders}))
            self._ask_for_events(together, [(namespace, uid) for namespace, _, uid in holders])
            self._ask_for_events(together, [(_OF_EVENTS, sharing["metadata"]["uid"])])
            world = self._world(together, node_sharings=[sharing])
            return details.of_gpu(Scene(world=world), node, name)

        return _answered(read)

    def node(self, name: str) -> Details | None:
        def read() -> Details | None:
            node, sharing = find(self._client, NODES, name), find(self._client, NODE_SHARINGS, name)
            there = [one for one in (node, sharing) if one is not None]
            together = Together(self._client)
            self._ask_for_events(together, [(_OF_EVENTS, one["metadata"]["uid"]) for one in there])
            # Of a Node, kubelets say its name in place of its uid.
            self._ask_for_events(together, [(_OF_EVENTS, name)])
            world = self._world(together, nodes=[node] if node else [], node_sharings=[sharing] if sharing else [])
            return details.of_node(Scene(world=world), name)

        return _answered(read)

    def pod(self, namespace: str, name: str) -> Details | None:
        def read() -> Details | None:
            pod = find(self._client, PODS, name, namespace)
            if pod is None:
                return None
            question = Question(self._client)
            (question.running_pod if pod["spec"].get("nodeName") else question.waiting_pod)(pod)
            return details.of_pod(question.scene(), pod)

        return _answered(read)

    def policy(self, name: str) -> Details | None:
        def read() -> Details | None:
            policy = find(self._client, POLICIES, name)
            if policy is None:
                return None
            together = Together(self._client)
            together.list(CLASSES.field, Ask(CLASSES))
            self._ask_for_events(together, [(_OF_EVENTS, policy["metadata"]["uid"])])
            return details.of_policy(Scene(world=self._world(together, policies=[policy])), name)

        return _answered(read)

    def plan(self, text: bytes) -> Plan:
        if not self._planning.acquire(blocking=False):
            raise PlanError("Another plan is being made. Try again when it is there.")
        try:
            return _answered(lambda: plan_of(text, self._read))
        finally:
            self._planning.release()

    def _ask_for_events(self, together: Together, about: Iterable[tuple[str, str]]) -> None:
        """`about`: namespaces and uids."""
        for namespace, uid in about:
            ask = Ask(EVENTS, namespace=namespace, fields=f"involvedObject.uid={uid}")
            together.list(f"{EVENTS.field} {uid}", ask)

    def _world(self, together: Together, **more: Sequence[Json]) -> World:
        found = dict(together.results())
        events = [one for name in list(found) if name.startswith(EVENTS.field) for one in found.pop(name).objects]
        read = {**found, EVENTS.field: Found(events), **{name: Found(objects) for name, objects in more.items()}}
        lists = self._lists.read()
        claims = lists.claims if lists else Found()
        if CLAIMS.field in read:
            read[CLAIMS.field] = read[CLAIMS.field]._replace(only_namespace=claims.only_namespace, unread=claims.unread)
        else:
            read[CLAIMS.field] = claims._replace(objects=())
        return world_of(lists.minor if lists else 0, read)


def picture_now(client: Client, namespace: str, prometheus: str | None) -> Picture:
    """Read once. Raises CommandError."""
    lists = read_lists(client, namespace)
    fleet = fleet_of(lists, waiting_of(client, lists), read_usage(client, prometheus))
    return Picture(fleet=fleet, policies=_policies(read_list(client, Ask(POLICIES)).objects))


def _answered(read: Callable[[], T]) -> T:
    """Raises SourceError."""
    try:
        return read()
    except (CommandError, ReadError) as error:
        raise SourceError(str(error)) from error


def _notes(world: World, usage: Usage) -> Sequence[Finding]:
    return [*notes.notes(world), *([usage.missing] if usage.missing else [])]


def _policies(objects: Sequence[Json]) -> tuple[SharingPolicy, ...]:
    """Those that can be read."""
    found = Scene(world=world_of(0, {POLICIES.field: Found(objects)})).policies
    return tuple(found[name] for name in sorted(found))
