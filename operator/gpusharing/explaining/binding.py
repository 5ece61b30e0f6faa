"""Devices that are allocated, and of which their driver has to report something before the pod is bound."""

from collections.abc import Iterator, Mapping
from typing import Any

from gpusharing.explaining.names_of_claims import names_of_claims
from gpusharing.explaining.scene import Scene
from gpusharing.explaining.wording import some
from gpusharing.findings import waiting
from gpusharing.findings.finding import Finding, Reference
from gpusharing.snapshots.world import Json


def not_reported(pod: Json, about: Reference, scene: Scene) -> Iterator[Finding]:
    for name in names_of_claims(pod):
        claim = scene.whole_claims.get((about.namespace, name))
        status = (claim or {}).get("status") or {}
        for result in ((status.get("allocation") or {}).get("devices") or {}).get("results") or ():
            if missing := _missing(result, status):
                driver, device = result["driver"], f"{result['driver']}/{result['pool']}/{result['device']}"
                yield waiting.NOT_BOUND.found(about, claim=name, device=device, driver=driver, conditions=some(missing))


def _missing(result: Mapping[str, Any], status: Mapping[str, Any]) -> list[str]:
    """A condition counts as soon as it is true."""
    reported = {
        condition["type"]
        for one in status.get("devices") or ()
        if all(one.get(key) == result.get(key) for key in ("driver", "pool", "device", "shareID"))
        for condition in one.get("conditions") or ()
        if condition["status"] == "True"
    }
    return [one for one in result.get("bindingConditions") or () if one not in reported]
