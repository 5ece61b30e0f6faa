"""By which names the claims of a pod are to be read."""

from gpusharing.snapshots.world import Json


def names_of_claims(pod: Json) -> list[str]:
    """Those that exist by name, or were made for the pod."""
    status = pod.get("status") or {}
    made = {one["name"]: one.get("resourceClaimName") for one in status.get("resourceClaimStatuses") or ()}
    found = [one.get("resourceClaimName") or made.get(one["name"]) for one in pod["spec"].get("resourceClaims") or ()]
    extended = (status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName")
    return [name for name in (*found, extended) if name]
