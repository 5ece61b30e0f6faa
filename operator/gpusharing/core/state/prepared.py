"""Which claims run on a node: what its agent says it has prepared."""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from gpusharing.api.dra import AllocationResult
from gpusharing.api.sharing.node_status import ClaimStatus
from gpusharing.core.claims import allocation
from gpusharing.core.state.node_view import NodeView


def running(view: NodeView, driver: str) -> AbstractSet[str]:
    """Uids of the claims of which exactly that is prepared what they are allocated: under the same uid a claim can lose
    its devices and get others."""
    held = {claim.metadata.uid: allocation.results_on(claim, view.name, driver) for claim in view.claims}
    return {
        status.uid
        for status in view.sharing.status.claims
        if status.uid in held and is_running(status, held[status.uid])
    }


def is_running(status: ClaimStatus, results: Iterable[AllocationResult]) -> bool:
    """`results`: what it is allocated of the node now."""
    return {(one.request, one.device) for one in status.settings} == {(one.request, one.device) for one in results}
