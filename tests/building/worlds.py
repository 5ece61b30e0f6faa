"""Random worlds: a few nodes and policies that differ in everything that decisions look at."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from building import (
    EXCLUSIVE,
    class_of,
    config,
    decided,
    gpu_config,
    gpu_status,
    interval_config,
    node,
    node_sharing,
    policy,
    reference,
    result,
    taint_rule,
    template_of,
    time_slicing,
    world,
)
from building import claim as build_claim
from building.from_nothing import World
from building.guards import bound, installed, knowing
from gpusharing.api.dra import ResourceClaim
from gpusharing.api.meta import LabelSelector, key_of
from gpusharing.api.names import Sharing
from gpusharing.api.sharing.classes import Classes, TemplateVariant
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.api.sharing.node_spec import NodeSharingSpec
from gpusharing.api.sharing.offers import Interval
from gpusharing.api.sharing.policy import SharingPolicy, UnreadablePolicy
from gpusharing.api.sharing.policy_status import LastReady, SharingPolicyStatus
from gpusharing.api.sharing.rollout import Disruption, Rollout, RolloutMode
from gpusharing.api.sharing.tenants import Allowance, Quota, Tenants
from gpusharing.core.rollout.gpu_change import EVICT

NODES = ("n1", "n2", "n3")
POLICIES = ("a", "b", "c")


def was_ready(tenants: Tenants | None) -> SharingPolicyStatus:
    if tenants is None:
        return SharingPolicyStatus()
    spec = {"tenants": tenants.model_dump(mode="json", by_alias=True, exclude_defaults=True)}
    return SharingPolicyStatus(last_ready=LastReady(generation=1, spec=spec))


offers = st.one_of(
    st.just(EXCLUSIVE),
    st.builds(time_slicing, st.integers(min_value=2, max_value=8), st.sampled_from(Interval), exclusive=st.booleans()),
)
selectors = st.sampled_from(
    [
        'device.attributes["gpu.nvidia.com"].architecture == "Hopper"',
        'device.attributes["gpu.nvidia.com"].uuid != "GPU-n1-0"',
        'device.attributes["gpu.nvidia.com"].nowhere == "x"',
        'device.attributes["gpu.nvidia.com"].uuid == "GPU-n2-1" && device.attributes["gpu.nvidia.com"].nowhere == "x"',
    ]
)
EVERYONE, TEAM_X, TEAM_Y = (
    Tenants(namespaces=LabelSelector(match_labels=labels)) for labels in ({}, {"team": "x"}, {"team": "y"})
)
LIMITED = Tenants(namespaces=TEAM_X.namespaces, quota=Quota(time_slicing=1000, mps=0), allow=Allowance(max_shares=2))
FEW = Tenants(namespaces=TEAM_X.namespaces, quota=Quota(exclusive=1, time_slicing=1))
TEMPLATES = Classes(
    templates=True,
    template_variants=(
        TemplateVariant(name="two", mode=Sharing.TIME_SLICING, shares=2),
        TemplateVariant(name="large", mode=Sharing.EXCLUSIVE, memory="64Gi"),
    ),
)
tenants = st.sampled_from([EVERYONE, EVERYONE, TEAM_X, TEAM_Y, LIMITED, FEW])
rollouts = st.builds(
    Rollout,
    disruption=st.sampled_from(Disruption),
    max_unavailable=st.sampled_from([1, 2, "1%", "50%", "100%"]),
    mode=st.sampled_from([RolloutMode.APPLY, RolloutMode.APPLY, RolloutMode.PLAN]),
    paused=st.sampled_from([False, False, True]),
)
policies = st.builds(
    policy,
    name=st.sampled_from(POLICIES),
    priority=st.integers(min_value=0, max_value=1),
    generation=st.integers(min_value=1, max_value=3),
    nodes=st.sampled_from([{}, {"pool": "x"}]),
    max_per_node=st.sampled_from([None, 1, 2, "50%"]),
    selectors=st.lists(selectors, max_size=1),
    accepted=st.sampled_from([True, True, True, False]),
    offers=offers,
    tenants=tenants,
    classes=st.sampled_from([None, Classes(), TEMPLATES]),
    rollout=st.none() | rollouts,
    # What it said before, if it is suspended.
    status=st.builds(was_ready, st.none() | tenants),
)
devices = st.builds(
    result,
    st.sampled_from(["gpu-0", "gpu-1", "gpu-0-timeslicing", "gpu-1-timeslicing", "gpu-7", "nic-0"]),
    request=st.sampled_from(["gpu", "gpu/big", "other"]),
    pool=st.sampled_from(["n1", "n1", *NODES, "n9", "n1/a", "n2/b"]),
    driver=st.sampled_from(["gpu.nvidia.com", "gpu.nvidia.com", "other"]),
    admin_access=st.sampled_from([None, None, True]),
)
configs = st.builds(
    config,
    st.sampled_from([interval_config("Short"), gpu_config(), gpu_config({"strategy": "MPS"}), ["broken"]]),
    source=st.sampled_from(["FromClaim", "FromClass"]),
    requests=st.sampled_from([(), ("gpu",), ("other",)]),
)


@st.composite
def claims(draw: st.DrawFn, names: Sequence[str] = ("c1", "c2", "c3")) -> ResourceClaim:
    results = draw(st.lists(devices, min_size=1, max_size=3))
    return build_claim(
        draw(st.sampled_from(names)),
        *results,
        configs=draw(st.lists(configs, max_size=2)),
        allocated=draw(st.integers(0, 5)) > 0,
        namespace=draw(st.sampled_from(["team", "team", "default", "unknown"])),
        pods=draw(st.sampled_from([(), ("p1",)])),
        classes=draw(st.sampled_from([(), ("a-timeslicing",), ("b-timeslicing", "c-timeslicing")])),
        made_for=draw(st.sampled_from([None, "p1"])),
    )


namespaces = st.fixed_dictionaries({"team": st.sampled_from([{"team": "x"}, {}]), "default": st.just({})})
taint_rules = st.lists(
    st.builds(taint_rule, st.sampled_from(["gpu-0", "gpu-0-timeslicing", "gpu-7"]), pool=st.sampled_from(["n1", "n9"])),
    max_size=1,
)


@st.composite
def node_sharings(draw: st.DrawFn, name: str, known: list[SharingPolicy]) -> NodeSharing:
    """A node in any state of affairs: what was decided and what is in force need not fit together."""
    some: st.SearchStrategy[Any] = st.sampled_from([None, *known])
    some_references = some.map(lambda of: of and reference(of))
    slots = range(draw(st.integers(min_value=0, max_value=3)))
    gpus = [gpu_status(slot, node=name).model_copy(update={"policy": draw(some_references)}) for slot in slots]
    # One that the agent does not report any more may be among them.
    known_slots = range(len(slots) + draw(st.sampled_from([0, 0, 1])))
    drains = st.sampled_from([None, None, EVICT])
    before = NodeSharingSpec(
        gpus=tuple(
            decided(slot, draw(some), node=name).model_copy(update={"drain": draw(drains)}) for slot in known_slots
        )
    )
    generation = draw(st.integers(min_value=1, max_value=3))
    return node_sharing(
        name,
        gpus=gpus,
        spec=draw(st.sampled_from([NodeSharingSpec(), before])),
        generation=generation,
        observed_generation=draw(st.sampled_from([None, generation - 1, generation])),
    )


# As manifests/base installs them; not at all; in part; with tenants of policies that have been edited since.
installations = st.sampled_from(
    [
        (installed(with_namespaces=True), bound()),
        (installed(), bound()),
        (knowing({"a": '[["In", "team=x"]]', "b": '[["Exists", "team"]]'}), bound()),
        ({}, {}),
        ({"gpusharing-allocation": installed()["gpusharing-allocation"]}, {}),
    ]
)

# One in eight is of another version.
policies_or_unreadable = st.tuples(policies, st.integers(0, 7)).map(
    lambda drawn: drawn[0] if drawn[1] else UnreadablePolicy.of(drawn[0].metadata)
)


# As they were made for a policy, as somebody has edited one, and as somebody else has made one.
templates = st.builds(
    template_of,
    st.sampled_from(POLICIES),
    st.sampled_from(["timeslicing", "exclusive", "two", "gone"]),
    labelled=st.booleans(),
    owned=st.booleans(),
    spec=st.sampled_from([{}, {"spec": {"devices": {}}}]),
)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    known = draw(st.lists(policies_or_unreadable, max_size=3, unique_by=lambda item: item.metadata.name))
    names = NODES[: draw(st.integers(min_value=0, max_value=3))]
    guards, bindings = draw(installations)
    found = world(
        policies=known,
        nodes=[node(name, **draw(st.sampled_from([{}, {"pool": "x"}]))) for name in names],
        node_sharings=[draw(node_sharings(name, known)) for name in names],
        claims=draw(st.lists(claims(), max_size=3)),
        namespaces=draw(namespaces),
        taint_rules=draw(taint_rules | st.none()),
        classes=[class_of(name) for name in draw(st.sets(st.sampled_from(POLICIES)))],
    )
    made = draw(st.lists(templates, max_size=2, unique_by=key_of))
    return replace(found, guards=guards, bindings=bindings, templates={key_of(item): item for item in made})
