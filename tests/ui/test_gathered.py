"""A fleet that became so change by change is the fleet that is made of all objects at once."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gpusharing.explaining.lean import Claim, Lean
from gpusharing.explaining.scene import Scene
from gpusharing.occupancy.of_scene import fleet_of
from gpusharing.occupancy.sharing import NodeSharing
from gpusharing.occupancy.usage import Usage
from gpusharing.snapshots.world import World
from gpusharing.ui.gathered import Gathered
from ui.fleets import example, large

WORLDS = [example(), large(3)]
NODES = ("node-0", "node-1", "node-2")


def sharings_of(world: World) -> dict[str, NodeSharing]:
    return {one.metadata.name: one for one in Lean(NodeSharing).of_objects(world.node_sharings)}


def claims_of(world: World) -> dict[str, Claim]:
    return {one.metadata.name: one for one in Lean(Claim).of_objects(world.claims)}


SHARINGS = [sharings_of(world) for world in WORLDS]
CLAIMS = [claims_of(world) for world in WORLDS]
STATES: dict[str, Sequence[Any]] = {
    **{name: [None, *(world.get(name) for world in SHARINGS)] for name in NODES},
    **{f"claim {name}": [None, *(world.get(name) for world in CLAIMS)] for name in sorted({*CLAIMS[0], *CLAIMS[1]})},
}
"""Of each object: it is not there, or as one of the worlds has it."""
steps = st.lists(
    st.tuples(st.sampled_from(sorted(STATES)), st.integers(0, len(WORLDS)), st.booleans(), st.booleans()), max_size=60
)


@given(steps)
@settings(max_examples=60, deadline=None)
def test_histories(history: Sequence[tuple[str, int, bool, bool]]) -> None:
    gathered = Gathered()
    there: dict[str, Any] = {}
    for name, number, is_drawn, is_tenant in history:
        old, new = there.pop(name, None), STATES[name][number]
        if new is not None:
            there[name] = new
        (gathered.put_claim if name.startswith("claim ") else gathered.put_sharing)(old, new)
        if is_drawn:
            only = {"claims": "ml"} if is_tenant else {}
            world = replace(WORLDS[0], claims=(), node_sharings=(), only_namespace=only)
            claims = [one for name, one in there.items() if name.startswith("claim ")]
            sharings = [one for name, one in there.items() if not name.startswith("claim ")]
            expected = fleet_of(Scene(world=world, visible_claims=claims), sharings)
            assert gathered.fleet(world, Usage()) == expected
