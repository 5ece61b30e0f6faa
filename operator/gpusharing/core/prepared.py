"""Which claims run on a node: what its agent says it has prepared."""

from collections.abc import Set as AbstractSet

from gpusharing.api.dra import AllocationResult
from gpusharing.core import allocation
from gpusharing.core.world import NodeView


def running(view: NodeView, driver: str) -> AbstractSet[str]:
    """Uids of the claims of which exactly that is prepared what they are allocated: under the same uid a claim can lose
    its devices and get others."""
    held = {claim.metadata.uid: _named(allocation.results_on(claim, view.name, driver)) for claim in view.claims}
    return {
        status.uid
        for status in view.sharing.status.claims
        if held.get(status.uid) == {(settings.request, settings.device) for settings in status.settings}
    }


def _named(results: tuple[AllocationResult, ...]) -> set[tuple[str, str]]:
    return {(result.request, result.device) for result in results}
