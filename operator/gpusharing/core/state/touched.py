"""What a change of claims touches on a node. Of a node with eight GPUs that is mostly one, and those who hold it."""

from dataclasses import dataclass

from gpusharing.api import names
from gpusharing.core.claims import allocation
from gpusharing.core.state.node_view import NodeView


@dataclass(frozen=True, slots=True, kw_only=True)
class Touched:
    """All else of the node is what it was."""

    gpus: frozenset[str]
    """By uuid."""
    claims: frozenset[str]
    """By uid: those that came, changed or went, and those that hold the same GPUs."""


def touched(before: NodeView, after: NodeView, driver: str) -> Touched | None:
    """None: something else than claims has changed."""
    if (
        after.sharing is not before.sharing
        or after.labels != before.labels
        or after.namespaces != before.namespaces
        or after.taint_rules != before.taint_rules
    ):
        return None
    known, there = set(map(id, before.claims)), set(map(id, after.claims))
    changed = [claim for claim in before.claims if id(claim) not in there]
    changed += [claim for claim in after.claims if id(claim) not in known]
    name = after.name
    slots = {
        names.slot_of_device(result.device)
        for claim in changed
        for result in allocation.results_on(claim, name, driver)
    }
    holders = [
        claim
        for claim in after.claims
        if any(names.slot_of_device(result.device) in slots for result in allocation.results_on(claim, name, driver))
    ]
    return Touched(
        gpus=frozenset(status.uuid for status in after.sharing.status.gpus if status.slot in slots),
        claims=frozenset(claim.metadata.uid for claim in (*changed, *holders)),
    )
