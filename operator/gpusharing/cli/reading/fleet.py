"""What `top` and `ui` read of a cluster: NodeSharings, claims, and pods that wait for devices."""

import itertools
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from gpusharing.cli.reading.client import Client
from gpusharing.cli.reading.cluster import Ask, Found, decode_list, read_minor, world_of
from gpusharing.cli.reading.questions import Question
from gpusharing.cli.reading.together import Together
from gpusharing.cli.reading.watching import Heard, Watched
from gpusharing.explaining.lean import Claim, Lean
from gpusharing.snapshots.world import CLAIMS, CLASSES, NODE_SHARINGS, PODS, Json, World

if TYPE_CHECKING:
    from gpusharing.occupancy.fleet import Fleet, Waiting
    from gpusharing.occupancy.usage import Usage

WAITING: Final = "spec.nodeName=,status.phase=Pending"
"""A field selector of pods."""


@dataclass(frozen=True, kw_only=True)
class Lists:
    minor: int
    node_sharings: Found
    """Decoded as far as `occupancy` needs them; so are the claims."""
    claims: Found
    pods: Found
    """Those that wait, and ask for more than CPU and memory."""
    classes: Found
    changes: int = 0
    """How many changes of them were heard of."""

    def world(self) -> World:
        """Of NodeSharings and claims only whether they could be read: here they are no JSON."""
        found = {
            NODE_SHARINGS.field: self.node_sharings._replace(objects=()),
            CLAIMS.field: self.claims._replace(objects=()),
            PODS.field: self.pods,
            CLASSES.field: self.classes,
        }
        return world_of(self.minor, found)


def asks(namespace: str) -> Mapping[str, Ask]:
    """By the field of `Lists`. `namespace`: whose objects are read if those of all may not be."""
    return {
        "node_sharings": Ask(NODE_SHARINGS, decode=_node_sharings),
        "claims": Ask(CLAIMS, fallback=namespace, decode=_claims),
        "pods": Ask(PODS, fallback=namespace, fields=WAITING, decode=_pods),
        "classes": Ask(CLASSES),
    }


def read_lists(client: Client, namespace: str) -> Lists:
    together = Together(client)
    together.ask("minor", lambda: Found([{"minor": read_minor(client)}]))
    for name, ask in asks(namespace).items():
        together.list(name, ask)
    # Loaded while the API server works.
    import gpusharing.occupancy.of_scene  # noqa: F401, PLC0415

    found: dict[str, Any] = dict(together.results())
    return Lists(minor=found.pop("minor").objects[0]["minor"], **found)


class LiveLists:
    """Stay up to date."""

    def __init__(self, client: Client, namespace: str, heard: Mapping[str, Heard] | None = None) -> None:
        """`heard`, by the field of `Lists`, is called by other threads, before `wait` ends."""
        self._minor = read_minor(client)
        self._changes = itertools.count(1)
        self._last_change = 0
        self._changed = threading.Event()
        self._watched = {
            name: Watched(client, ask, partial(self._hear, (heard or {}).get(name)))
            for name, ask in asks(namespace).items()
        }

    def _hear(self, hear: Heard | None, old: Any, new: Any) -> None:
        if hear is not None:
            hear(old, new)
        if old is not new:
            self._last_change = next(self._changes)
        self._changed.set()

    @property
    def problem(self) -> str:
        """Why they are out of date; empty: they are not."""
        return next((one.problem for one in self._watched.values() if one.problem), "")

    def wake(self) -> None:
        """As if something had changed."""
        self._changed.set()

    def wait(self, seconds: float) -> bool:
        """Until something changes; whether it did."""
        has_changed = self._changed.wait(seconds)
        self._changed.clear()
        return has_changed

    def read(self) -> Lists | None:
        """None: they were not all read yet."""
        if not all(one.is_read.is_set() for one in self._watched.values()):
            return None
        changes = self._last_change
        found = {name: one.found() for name, one in self._watched.items()}
        return Lists(minor=self._minor, changes=changes, **found)


def fleet_of(lists: Lists, waiting: Sequence["Waiting"], usage: "Usage") -> "Fleet":
    from gpusharing.explaining.scene import Scene  # noqa: PLC0415
    from gpusharing.occupancy import notes, of_scene  # noqa: PLC0415

    world = lists.world()
    claims: Any = lists.claims.objects
    sharings: Any = lists.node_sharings.objects
    scene = Scene(world=world, visible_claims=claims)
    found = [*notes.notes(world), *([usage.missing] if usage.missing else [])]
    return of_scene.fleet_of(scene, sharings, usage, waiting=waiting, notes=found)


def waiting_of(client: Client, lists: Lists) -> Sequence["Waiting"]:
    """Reads what explanations need, if pods wait."""
    from gpusharing.occupancy import waiting  # noqa: PLC0415

    pods = waiting.waiting_pods(lists.pods.objects, lists.classes.objects)
    if not pods:
        return ()
    chosen = waiting.to_explain(pods, len(lists.node_sharings.objects))
    question = Question(client)
    question.waiting_pods(chosen, lists.claims)
    return waiting.waiting(pods, chosen, question.scene())


def _node_sharings(page: bytes) -> Sequence[Json]:
    from gpusharing.occupancy.sharing import NodeSharing  # noqa: PLC0415

    found: Any = Lean(NodeSharing).of_page(page)
    return found  # type: ignore[no-any-return]


def _claims(page: bytes) -> Sequence[Json]:
    found: Any = Lean(Claim).of_page(page)
    return found  # type: ignore[no-any-return]


def _pods(page: bytes) -> Sequence[Json]:
    """Most that wait in a cluster ask for no device."""
    return [_lean(pod) for pod in decode_list(page) if _may_ask_for_devices(pod)]


def _may_ask_for_devices(pod: Json) -> bool:
    spec = pod["spec"]
    containers = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    limits = [(one.get("resources") or {}).get("limits") or {} for one in containers]
    return bool(spec.get("resourceClaims")) or any("/" in name for some in limits for name in some)


def _lean(pod: Json) -> Json:
    return {**pod, "metadata": {name: value for name, value in pod["metadata"].items() if name != "managedFields"}}
