"""`explain claim`."""

from gpusharing.core.allocate.requests import UnknownRequestError, read_claim
from gpusharing.explaining import pods, running, waiting_pod, wording
from gpusharing.explaining.explanation import Explanation, State, worst
from gpusharing.explaining.scene import Scene
from gpusharing.explaining.waiting_pod import Outcome
from gpusharing.findings import waiting
from gpusharing.findings.finding import Reference
from gpusharing.snapshots.world import Json


def explain(claim: Json, scene: Scene) -> Explanation:
    metadata = claim["metadata"]
    about = Reference("ResourceClaim", metadata["name"], metadata.get("namespace", ""))
    if (claim.get("status") or {}).get("allocation") is not None:
        return running.explain_claim(claim, about, scene)
    users = _users(claim, scene)
    by = f", and so is pod {wording.some(users)}" if users else ""
    headline = f"Claim {about.namespace}/{about.name} is waiting{by}."
    try:
        asked = read_claim(claim)
    except UnknownRequestError as error:
        outcome = Outcome(findings=[waiting.REFUSED.found(about, where="", problem=error)])
    else:
        outcome = waiting_pod.why(scene, about, [asked], excluded={})
        requests = [pods.asked(one) for request in asked.requests for one in request.alternatives]
        headline += f" It asks for {wording.some(requests)}."
    findings = list(outcome.findings)
    if not users and "pods" not in scene.world.unread:
        findings.append(waiting.NO_POD.found(about, name=about.name))
    state = worst(findings)
    return Explanation(
        object=about,
        state=State.WAITS if state is State.RUNS else state,
        headline=headline,
        findings=findings,
        tables=outcome.tables,
    )


def _users(claim: Json, scene: Scene) -> list[str]:
    """Pods of its namespace that name it."""
    namespace, name = claim["metadata"].get("namespace"), claim["metadata"]["name"]
    owners = {one["uid"] for one in claim["metadata"].get("ownerReferences") or ()}
    return [
        pod["metadata"]["name"]
        for pod in scene.world.pods
        if pod["metadata"].get("namespace") == namespace
        and (
            pod["metadata"].get("uid") in owners
            or any(one.get("resourceClaimName") == name for one in pod["spec"].get("resourceClaims") or ())
        )
    ]
