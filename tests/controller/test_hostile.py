"""Whatever stands in the API: nothing breaks, everything has a reason, and nobody else is affected."""

import copy
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs

from building import DRIVER, MINOR, NOW, hostile
from building import gpu_status as good_gpu
from building.incremental import decide
from gpusharing.api import strict_json
from gpusharing.api.meta import ObjectMeta, key_of
from gpusharing.api.sharing.node_spec import ClaimSharing, NodeSharingSpec, Verdict
from gpusharing.api.sharing.policy_status import SharingPolicyStatus
from gpusharing.controller.metrics import Metrics
from gpusharing.controller.watching.store import Store
from gpusharing.core.decision.incremental import Decider
from gpusharing.core.intents import Intent, PatchStatus, ReplaceSpec
from gpusharing.core.state.cluster_state import Setup
from gpusharing.kube import kinds
from gpusharing.kube.kinds import Kind

WATCHED: Final[tuple[Kind[Any], ...]] = (
    kinds.SHARING_POLICIES,
    kinds.NODE_SHARINGS,
    kinds.RESOURCE_CLAIMS,
    kinds.DEVICE_CLASSES,
    kinds.NODES,
    kinds.NAMESPACES,
    kinds.DEVICE_TAINT_RULES,
    kinds.RESOURCE_QUOTAS,
    kinds.RESOURCE_CLAIM_TEMPLATES,
)
BODIES: Final[Mapping[Kind[Any], dict[str, Any]]] = {
    kinds.SHARING_POLICIES: hostile.POLICY,
    kinds.NODE_SHARINGS: hostile.NODE_SHARING,
    kinds.RESOURCE_CLAIMS: hostile.CLAIM,
    kinds.DEVICE_CLASSES: hostile.DEVICE_CLASS,
    kinds.NODES: hostile.NODE,
    kinds.NAMESPACES: hostile.NAMESPACE,
    kinds.DEVICE_TAINT_RULES: hostile.TAINT_RULE,
    kinds.RESOURCE_QUOTAS: hostile.QUOTA,
    kinds.RESOURCE_CLAIM_TEMPLATES: hostile.TEMPLATE,
}
GOOD_NODES: Final = ("good-1", "good-2")


class Object(NamedTuple):
    kind: Kind[Any]
    value: dict[str, Any]

    @property
    def name(self) -> str:
        metadata = self.value["metadata"]
        return "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))


def named(kind: Kind[Any], name: str, body: Mapping[str, Any]) -> Object:
    metadata = body.get("metadata", {}) | {"name": name, "uid": f"uid-{kind.kind}-{name}", "resourceVersion": "1"}
    return Object(kind, {**body, "metadata": metadata})


def allocated(node: str, device: str) -> dict[str, Any]:
    result = {"request": "gpu", "driver": DRIVER, "pool": node, "device": device, "shareID": "s"}
    return {"allocation": {"devices": {"results": [result]}}}


def good() -> list[Object]:
    """Two nodes that a policy shares, and claims that run on them."""
    status = allocated("good-1", "gpu-0-timeslicing")
    claims = [
        named(
            kinds.RESOURCE_CLAIMS,
            name,
            {"metadata": {"namespace": "team"}, "status": status},
        )
        for name in ("c1", "c2")
    ]
    prepared = [
        {
            "uid": item.value["metadata"]["uid"],
            "claim": item.name,
            "settings": [{"request": "gpu", "device": "gpu-0-timeslicing"}],
        }
        for item in claims
    ]
    gpus = {name: [good_gpu(slot, node=name).to_json() for slot in range(2)] for name in GOOD_NODES}
    return [
        named(
            kinds.SHARING_POLICIES,
            "good",
            {"spec": {"nodes": {"matchLabels": {"pool": "good"}}, "offers": {"timeSlicing": {"maxClients": 4}}}},
        ),
        *(named(kinds.NODES, name, {"metadata": {"labels": {"pool": "good"}}}) for name in GOOD_NODES),
        *(
            named(
                kinds.NODE_SHARINGS,
                name,
                {"spec": {}, "status": {"gpus": gpus[name], "claims": prepared if name == "good-1" else []}},
            )
            for name in GOOD_NODES
        ),
        *claims,
        named(kinds.NAMESPACES, "team", {}),
    ]


@st.composite
def crowds(draw: st.DrawFn) -> list[Object]:
    """A dozen objects that fit together or do not: most of them speak of one another."""
    names = {
        kinds.NODE_SHARINGS: "bad-1",
        kinds.NODES: "bad-1",
        kinds.SHARING_POLICIES: "bad",
        kinds.RESOURCE_QUOTAS: "gpusharing-bad",
    }
    found: dict[tuple[Kind[Any], str], Object] = {}
    for number in range(12):
        kind = draw(st.sampled_from(WATCHED))
        name = draw(st.sampled_from([names.get(kind, "bad-1"), f"bad-{number}"]))
        body = draw(hostile.damaged(BODIES[kind]))
        found[kind, name] = named(kind, name, body)
    # What holds devices needs somebody who has them.
    for kind in (kinds.NODES, kinds.NODE_SHARINGS, kinds.SHARING_POLICIES):
        found.setdefault((kind, names[kind]), named(kind, names[kind], BODIES[kind]))
    return list(found.values())


class Answer(NamedTuple):
    intents: Sequence[Intent]
    logged: Sequence[Mapping[str, Any]]
    store: Store
    page: str
    """Of metrics."""


def begin() -> tuple[Store, Decider]:
    """As the operator puts them together."""
    decider = Decider(Setup(driver=DRIVER, minor=MINOR, has_taint_rules=True))

    def take(kind: type[Any], *, before: Any | None, after: Any | None) -> None:
        if after is not None:
            decider.state.put(kind, after)
        elif before is not None:
            decider.state.remove(kind, key_of(before))

    return Store(WATCHED, on_change=take), decider


def decided_on(objects: Sequence[Object]) -> Answer:
    """As the operator does it, from what Kopf makes of the bytes that the API server sends."""
    store, decider = begin()
    with capture_logs() as logged:
        for kind, value in objects:
            store.apply(kind, json.loads(json.dumps(value)))
        intents = decide(decider, now=NOW)
        metrics = Metrics()
        metrics.watch_figures(lambda: decider.figures)
        page = metrics.exposition().decode()
    return Answer(intents, logged, store, page)


def of_good(intents: Sequence[Intent]) -> tuple[dict[str, NodeSharingSpec], dict[str, SharingPolicyStatus]]:
    """What is decided about the good ones, without what a hostile claim has or wants there."""
    specs = {
        intent.before.metadata.name: ours(intent.spec)
        for intent in intents
        if isinstance(intent, ReplaceSpec) and intent.before.metadata.name in GOOD_NODES
    }
    statuses = {
        intent.before.metadata.name: intent.status.model_copy(update={"clients": None})
        for intent in intents
        if isinstance(intent, PatchStatus) and intent.before.metadata.name == "good"
    }
    return specs, statuses


def ours(spec: NodeSharingSpec) -> NodeSharingSpec:
    gpus = tuple(gpu.model_copy(update={"allocated": ()}) for gpu in spec.gpus)
    claims = tuple(entry for entry in spec.claims if entry.claim in {"team/c1", "team/c2"})
    return spec.model_copy(update={"gpus": gpus, "claims": claims})


def wants_good_nodes(answer: Answer) -> bool:
    """By its own right, as any policy may."""
    return any(
        policy.metadata.name != "good" and policy.spec.nodes.matches({"pool": "good"})
        for policy in answer.store.all(kinds.SHARING_POLICIES)
    )


ALONE: Final = of_good(decided_on(good()).intents)


def test_the_good_ones_are_good() -> None:
    specs, _ = ALONE
    entries: list[ClaimSharing] = [entry for spec in specs.values() for entry in spec.claims]
    assert [(entry.claim, entry.verdict) for entry in entries] == [
        ("team/c1", Verdict.ALLOWED),
        ("team/c2", Verdict.ALLOWED),
    ]
    assert all(gpu.policy and gpu.policy.name == "good" for spec in specs.values() for gpu in spec.gpus)


@hypothesis_settings(max_examples=90)
@given(crowd=crowds(), first=st.booleans())
def test_a_thousand_hostile_objects_break_nothing_and_change_nothing_for_others(
    crowd: list[Object], *, first: bool
) -> None:
    answer = decided_on([*crowd, *good()] if first else [*good(), *crowd])
    read = {
        (kind.kind, "/".join(filter(None, (metadata.namespace, metadata.name))))
        for kind in WATCHED
        for item in answer.store.all(kind)
        if isinstance(metadata := item.metadata, ObjectMeta)
    }
    explained = {(entry["kind"], entry["object"]) for entry in answer.logged if entry.get("error")}
    assert {(kind.kind, Object(kind, value).name) for kind, value in crowd} <= read | explained
    for intent in answer.intents:
        _is_explained(intent)
    assert list(text_string_to_metric_families(answer.page))
    if not wants_good_nodes(answer):
        assert of_good(answer.intents) == ALONE
        assert 'gpusharing_policy_gpus{policy="good",state="won"} 4.0' in answer.page


def _is_explained(intent: Intent) -> None:
    """And it can be written."""
    match intent:
        case PatchStatus():
            accepted = next(one for one in intent.status.conditions if one.type == "Accepted")
            assert accepted.status == "True" or accepted.message
            strict_json.canonical(intent.status.to_json())
        case ReplaceSpec():
            assert all(entry.reason for entry in intent.spec.claims if entry.verdict is Verdict.DENIED)
            strict_json.canonical(intent.spec.to_json())
        case _:
            pass


@pytest.mark.parametrize("body", BODIES.values(), ids=[kind.kind for kind in BODIES])
def test_what_is_damaged_was_good_before(body: dict[str, Any]) -> None:
    kind = next(kind for kind, of in BODIES.items() if of is body)
    assert decided_on([named(kind, "bad-1", body)]).logged == []


@pytest.mark.parametrize("device", [None, "gpu-0", "gpu-0-timeslicing", "gpu-1"])
def test_a_claim_in_the_place_of_another_of_its_name_inherits_nothing(device: str | None) -> None:
    """One was deleted and the other made while nobody watched; what is listed then is the other alone."""
    *others, first, second, namespace = good()
    after = Object(first.kind, copy.deepcopy(first.value))
    after.value["metadata"] |= {"uid": "uid-of-the-other", "resourceVersion": "9"}
    after.value["status"] = allocated("good-1", device) if device else {}
    store, decider = begin()
    for kind, value in [*others, first, second, namespace]:
        store.apply(kind, value)
    decide(decider, now=NOW)
    before = store.known(kinds.RESOURCE_CLAIMS)
    listed = [after, second]
    for kind, value in listed:
        store.apply(kind, value)
    store.remove_unlisted(
        kinds.RESOURCE_CLAIMS, {item.value["metadata"]["uid"] for item in listed}, as_of="9", before=before
    )
    assert decide(decider, now=NOW) == decided_on([*others, *listed, namespace]).intents
    store.remove(kinds.RESOURCE_CLAIMS, after.value)
    assert decide(decider, now=NOW) == decided_on([*others, second, namespace]).intents
