"""Everything about one object, in the words of `explain`."""

from collections.abc import Iterable

from gpusharing.explaining import claims, gpus, pods, policies
from gpusharing.explaining.names_of_claims import names_of_claims
from gpusharing.explaining.scene import Scene
from gpusharing.snapshots.world import NODES, PODS, POLICIES, Json
from gpusharing.ui.picture import Details, Event

_MOST_EVENTS = 20


def of_gpu(scene: Scene, node: str, name: str) -> Details | None:
    """With its claims, as far as the scene has them."""
    found = gpus.find(f"{node}/{name}", list(scene.node_sharings.values()))
    if not found:
        return None
    status, sharing = found[0]
    explanation = gpus.explain_gpu(status, sharing, scene)
    gpu = next((one for one in sharing.spec.gpus if one.uuid == status.uuid), None)
    uids = {one.claim for one in gpu.allocated} if gpu else set()
    users = [one for one in scene.world.claims if one["metadata"].get("uid") in uids]
    named = sorted(users, key=lambda one: (one["metadata"].get("namespace", ""), one["metadata"]["name"]))
    return Details(
        explanation=explanation,
        users=tuple(claims.explain(one, scene) for one in named),
        events=_events(scene.world.events, {*uids, sharing.metadata.uid or ""}),
    )


def of_node(scene: Scene, name: str) -> Details | None:
    node = scene.world.get(NODES, name)
    sharing = scene.node_sharing(name)
    if node is None and sharing is None:
        return None
    conditions = {one["type"]: one["status"] for one in ((node or {}).get("status") or {}).get("conditions") or ()}
    is_ready = conditions.get("Ready", "True") == "True"
    uids = {(node or {}).get("metadata", {}).get("uid", ""), sharing.metadata.uid if sharing else ""}
    return Details(
        explanation=gpus.explain_node(name, sharing, scene, is_ready=is_ready),
        events=_events(scene.world.events, uids),
    )


def of_policy(scene: Scene, name: str) -> Details | None:
    policy = scene.policies.get(name)
    if policy is None:
        return None
    raw = scene.world.get(POLICIES, name) or {}
    uid = raw.get("metadata", {}).get("uid", "")
    explanation = policies.explain(policy, scene)
    return Details(explanation=explanation, policy=policy, events=_events(scene.world.events, {uid}))


def of_pod(scene: Scene, pod: Json) -> Details:
    namespace = pod["metadata"].get("namespace", "")
    claims_ = [scene.whole_claims.get((namespace, name), {}) for name in names_of_claims(pod)]
    uids = {one.get("metadata", {}).get("uid", "") for one in (pod, *claims_)}
    return Details(explanation=pods.explain(pod, scene), events=_events(scene.world.events, uids))


def of_pod_named(scene: Scene, namespace: str, name: str) -> Details | None:
    pod = scene.world.get(PODS, name, namespace)
    return None if pod is None else of_pod(scene, pod)


def _events(found: Iterable[Json], uids: Iterable[str]) -> tuple[Event, ...]:
    wanted = set(uids) - {""}
    events = [_event(one) for one in found if _about(one).get("uid") in wanted]
    return tuple(sorted(events, key=lambda one: one.at, reverse=True)[:_MOST_EVENTS])


def _about(one: Json) -> Json:
    about: Json = one.get("involvedObject") or one.get("regarding") or {}
    return about


def _event(one: Json) -> Event:
    about = _about(one)
    series = one.get("series") or {}
    at = series.get("lastObservedTime") or one.get("lastTimestamp") or one.get("eventTime") or ""
    name = f"{about['namespace']}/{about.get('name', '')}" if about.get("namespace") else str(about.get("name", ""))
    return Event(
        at=str(at),
        about=f"{about.get('kind', '')} {name}",
        reason=str(one.get("reason") or ""),
        message=str(one.get("message") or one.get("note") or ""),
        is_warning=one.get("type") == "Warning",
        count=int(series.get("count") or one.get("count") or 1),
    )
