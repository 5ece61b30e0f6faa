"""Findings that need no scheduler: about running pods, GPUs, nodes and policies, and what is rare in front of one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from unittest import mock

import pytest

from explaining.bed import ALL_MODES, DRIVER, Json, our_slices, request
from explaining.scenes import EARLIER, SHARED, WHOLE, claim, node, node_sharing, pod, result, slices, world
from gpusharing.api.names import GROUP, Sharing, policy_class
from gpusharing.api.sharing.node_spec import RefusalReason
from gpusharing.api.sharing.offers import ExclusiveOffer, Offers
from gpusharing.core.allocate import search
from gpusharing.explaining import claims, gpus, pods, policies, wording
from gpusharing.explaining.explanation import Explanation, State
from gpusharing.explaining.scene import Scene
from gpusharing.findings.table import AREAS
from gpusharing.snapshots.world import World

SHARE: Final = "gpu-0-timeslicing"


def explain_pod(found: World) -> Explanation:
    return pods.explain(found.pods[0], Scene.of_file(found))


def codes(explanation: Explanation) -> list[str]:
    return [one.code for one in explanation.findings]


# ------------------------------------------------------------------------------------------------------ pods and claims


def starting(**changes: Any) -> World:
    """A pod that is bound, and whose claim the operator allowed; `changes` of its entry in the NodeSharing."""
    mine = claim("mine", request(SHARED), result("node-1", SHARE, {"shares": "1"}))
    sharing = node_sharing("node-1", (mine, SHARE))
    sharing["spec"]["claims"][0] |= changes
    sharing["status"]["claims"] = []
    bound = pod("train-7", "mine", node="node-1")
    bound["status"] = {"phase": "Pending"}
    return world(claims=[mine], pods=[bound], node_sharings=[sharing])


def test_a_claim_is_denied() -> None:
    reason = "SharingPolicy search: namespace ml is not one of its tenants"
    found = explain_pod(starting(verdict="Denied", reason=reason))
    assert (codes(found)[0], found.state) == ("GSH0301", State.NEVER)
    assert found.findings[0].sentence == f"The operator denied claim mine on node node-1: {reason}"


def test_devices_could_not_be_prepared() -> None:
    event = {
        "metadata": {"name": "e"},
        "reason": "FailedPrepareDynamicResources",
        "message": "driver gpu.nvidia.com is not registered",
        "involvedObject": {"uid": "uid-train-7"},
    }
    found = explain_pod(replace(starting(), events=[event]))
    assert (codes(found)[0], found.state) == ("GSH0302", State.WAITS)
    assert found.findings[0].sentence.endswith("driver gpu.nvidia.com is not registered")


def test_settings_are_ignored_or_not_applied_yet() -> None:
    settings = {"request": "gpu", "device": SHARE, "ignored": ["interval Long: the interval belongs to the policy"]}
    found = explain_pod(starting(settings=[settings]))
    assert codes(found) == ["GSH0305", "GSH0303", "GSH0304"]
    assert found.state is State.WAITS
    assert found.findings[1].sentence == "Claim mine: interval Long: the interval belongs to the policy."


def test_a_claim_that_256_pods_share() -> None:
    full = claim("mine", request(WHOLE), result("node-1", "gpu-0"))
    full["status"]["reservedFor"] = [{"resource": "pods", "name": f"p{n}", "uid": f"u{n}"} for n in range(256)]
    found = explain_pod(world(claims=[full], pods=[pod("train-7", "mine")], slices=slices("node-1")))
    assert (codes(found)[0], found.state) == ("GSH0222", State.WAITS)


def test_one_device_matches_and_two_are_needed() -> None:
    asked = claim("mine", request(SHARED, count=2))
    found = explain_pod(world(claims=[asked], pods=[pod("train-7", "mine")], slices=slices("node-1", "node-2")))
    assert (codes(found), found.state) == (["GSH0235"], State.NEVER)
    assert found.findings[0].sentence == "Request gpu needs 2 devices, and no node has more than 1 that match."


def test_what_no_node_has_is_not_waited_for() -> None:
    """Two nodes with two GPUs each, of which one is in use on each: three on one node will never be free."""
    published = [
        {"metadata": {"name": f"{number}-{name}"}, "spec": spec}
        for name in ("node-1", "node-2")
        for number, spec in enumerate(our_slices(name, gpus=2))
    ]
    held = [claim(f"on-{name}", request(WHOLE), result(name, "gpu-0")) for name in ("node-1", "node-2")]

    def explained(count: int) -> Explanation:
        asked = claim("mine", request(WHOLE, count=count))
        return explain_pod(world(claims=[*held, asked], pods=[pod("train-7", "mine")], slices=published))

    assert (codes(explained(3)), explained(3).state) == (["GSH0235"], State.NEVER)
    assert (codes(explained(2)), explained(2).state) == (["GSH0205"], State.WAITS)
    assert explained(2).findings[0].sentence == (
        "Request gpu needs 2 of 4 devices, and 2 are in use: pod ml/on-node-1 (for 2 h), pod ml/on-node-2 (for 2 h)."
    )


def test_holders_are_counted_once_for_all_nodes_that_are_alike() -> None:
    """A claim on each of ten nodes keeps all its MIG devices from being allocated."""
    nodes = [f"node-{number}" for number in range(10)]
    held = [claim(f"on-{name}", request(WHOLE), result(name, "gpu-0")) for name in nodes]
    asked = claim("mine", request("mig.nvidia.com"))
    found = explain_pod(
        world(
            nodes=[node(name) for name in nodes],
            claims=[*held, asked],
            pods=[pod("train-7", "mine")],
            slices=slices(*nodes),
        )
    )
    assert codes(found) == ["GSH0207"]
    assert found.findings[0].sentence.endswith(
        "pod ml/on-node-0 (for 2 h), pod ml/on-node-1 (for 2 h), pod ml/on-node-2 (for 2 h) and 7 other claims."
    )


def test_too_many_combinations() -> None:
    constraint = {"distinctAttribute": "resource.kubernetes.io/pciBusID"}
    asked = claim("mine", request(WHOLE, count=2))
    asked["spec"]["devices"]["constraints"] = [constraint]
    found = world(claims=[asked], pods=[pod("train-7", "mine")], slices=slices("node-1", "node-2"))
    with mock.patch.object(search, "_MOST_TRIES_ON_A_NODE", -1):
        explanation = explain_pod(found)
    assert codes(explanation)[0] == "GSH0232"


def test_a_device_that_was_allocated_under_another_of_its_names() -> None:
    """After it was withdrawn, a device comes back as gpu-0r1-..."""
    renamed = "gpu-0r1-timeslicing"
    share = claim("share", request(SHARED), result("node-1", renamed, {"shares": "1"}), user="notebook")
    published = slices("node-1", only=SHARE.__eq__)
    for one in published:
        for device in one["spec"].get("devices", ()):
            device["name"] = renamed
    found = explain_pod(
        world(
            nodes=[node("node-1")],
            slices=published,
            claims=[share, claim("mine", request(WHOLE))],
            pods=[pod("train-7", "mine")],
            node_sharings=[node_sharing("node-1", (share, renamed))],
        )
    )
    assert (codes(found), found.state) == (["GSH0207"], State.WAITS)
    assert "pod ml/notebook" in found.findings[0].sentence


def test_a_claim_of_a_running_pod() -> None:
    mine = claim("mine", request(SHARED), result("node-1", SHARE, {"shares": "1"}), user="train-7")
    found = world(claims=[mine], node_sharings=[node_sharing("node-1", (mine, SHARE))])
    explanation = claims.explain(mine, Scene.of_file(found))
    assert explanation.headline == "Claim ml/mine has 1 device, used by train-7."
    assert explanation.state is State.RUNS


def test_a_claim_names_the_pods_that_wait_for_it() -> None:
    mine = claim("mine", request(WHOLE))
    found = world(claims=[mine], pods=[pod("train-7", "mine")])
    explanation = claims.explain(mine, Scene.of_file(found))
    assert explanation.headline == (
        "Claim ml/mine is waiting, and so is pod train-7. It asks for class gpu.nvidia.com."
    )
    assert codes(explanation) == ["GSH0201"]
    assert "kubectl -n gpusharing-system get daemonset" in explanation.findings[0].remedy


def test_where_policies_offer_nothing_no_driver_has_to_be_started() -> None:
    published = slices("node-1", only=lambda _: False)
    policy = {"metadata": {"name": "walled", "uid": "u"}, "spec": {"offers": {"timeSlicing": {"maxClients": 2}}}}
    found = explain_pod(
        world(
            nodes=[node("node-1")],
            slices=published,
            claims=[claim("mine", request(WHOLE))],
            pods=[pod("train-7", "mine")],
            policies=[policy],
        )
    )
    assert codes(found) == ["GSH0201"]
    assert "gpusharing explain policy walled" in found.findings[0].remedy


@pytest.mark.parametrize("namespace", ["gpusharing-system", "gpus"])
def test_an_agent_that_does_not_run_is_looked_for_where_it_is(namespace: str) -> None:
    labels = {"app.kubernetes.io/name": "gpusharing-agent"}
    state = {"waiting": {"reason": "ImagePullBackOff"}}
    agent = {
        "metadata": {"name": "agent", "namespace": namespace, "labels": labels},
        "spec": {"nodeName": "node-1"},
        "status": {"containerStatuses": [{"state": state}]},
    }
    asked = claim("mine", request(WHOLE))
    found = explain_pod(world(claims=[asked], pods=[pod("train-7", "mine"), agent]))
    assert codes(found) == ["GSH0202", "GSH0201"]
    assert f"kubectl -n {namespace} describe pods" in found.findings[0].remedy


def reserved_slices(*nodes: str) -> list[Json]:
    return [
        {"metadata": {"name": f"{number}-{name}"}, "spec": spec}
        for name in nodes
        for number, spec in enumerate(our_slices(name, policy="search"))
    ]


def of_search(name: str = "search", **status: Any) -> Json:
    return {
        "metadata": {"name": name, "uid": "u", "resourceVersion": "1"},
        "spec": {"offers": ALL_MODES.to_json(), "tenants": {"namespaces": {"matchLabels": {"team": "search"}}}},
        "status": status,
    }


def class_of_search(mode: Sharing) -> Json:
    device_class = policy_class("search", mode)
    ours = f'device.attributes["{GROUP}"]'
    expression = f'{ours}.?policy.orValue("") == "search" && {ours}.?sharing.orValue("") == "{mode}"'
    return {
        "metadata": {"name": device_class, "uid": "u"},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }


def asking(
    asked: Json, published: list[Json], *, team: str | None = None, held: Sequence[Json] = (), **others: Any
) -> World:
    """Pod ml/train-7 with this request, in a cluster with policy search. `team`: of namespace ml."""
    namespaces = [] if team is None else [{"metadata": {"name": "ml", "labels": {"team": team}}}]
    found = world(
        slices=published,
        claims=[*held, claim("mine", asked)],
        pods=[pod("train-7", "mine")],
        namespaces=namespaces,
        **{"policies": [of_search()], **others},
    )
    of_classes = [class_of_search(mode) for mode in (Sharing.EXCLUSIVE, Sharing.MPS)]
    return replace(found, classes=[*found.classes, *of_classes])


@pytest.mark.parametrize(
    ("team", "remedy"),
    [
        (None, "Ask the owner of the policy to add namespace ml to its tenants, or wait for other GPUs."),
        ("ml", "Ask the owner of the policy to add namespace ml to its tenants, or wait for other GPUs."),
        ("search", "Namespace ml is a tenant: use a class of the policy (search-exclusive, search-mps)."),
    ],
)
def test_all_gpus_are_reserved(team: str | None, remedy: str) -> None:
    found = explain_pod(asking(request(WHOLE), reserved_slices("node-1", "node-2"), team=team))
    assert (codes(found), found.state) == (["GSH0239"], State.NEVER)
    (finding,) = found.findings
    assert finding.sentence == "All 2 GPUs for request gpu are reserved for tenants of SharingPolicy search."
    assert finding.remedy == remedy
    steps = next(table for table in found.tables if table.name == "steps")
    assert steps.rows[0][2].endswith("2 reserved by their policy")


def test_the_only_gpu_is_reserved_by_a_policy_that_may_not_be_read() -> None:
    found = explain_pod(asking(request("mig.nvidia.com"), reserved_slices("node-1"), policies=[]))
    assert codes(found) == ["GSH0239"]
    assert found.findings[0].sentence == (
        "The only GPU for request gpu is reserved for tenants of SharingPolicy search."
    )


def test_a_reserved_gpu_that_the_request_does_not_select_is_not_the_cause() -> None:
    selector = f'device.attributes["{DRIVER}"].productName == "B200"'
    found = explain_pod(asking(request(WHOLE, selector=selector), reserved_slices("node-1")))
    assert codes(found) == ["GSH0203"]
    assert found.findings[0].sentence.startswith("None of 1 device matches the selector of request gpu")


def test_beside_reserved_gpus_the_others_are_waited_for() -> None:
    """A free GPU that is reserved, and one that is in use: whole, or in a mode in which it publishes nothing else."""
    whole = claim("on-1", request(WHOLE), result("node-1", "gpu-0"))
    shared = claim("on-1", request(SHARED), result("node-1", SHARE, {"shares": "1"}))
    for held, device, code in ((whole, "gpu-0", "GSH0205"), (shared, SHARE, "GSH0207")):
        published = [*reserved_slices("node-2"), *slices("node-1", only=device.__eq__)]
        sharings = [node_sharing("node-1", (held, device))]
        found = explain_pod(asking(request(WHOLE), published, held=[held], node_sharings=sharings))
        assert (codes(found), found.state) == ([code], State.WAITS)


@pytest.mark.parametrize(
    ("status", "why"),
    [
        ({"gpus": {"won": 0, "lost": 1}}, "which has no GPUs"),
        ({"gpus": {"won": 1, "lost": 0}}, "none of whose GPUs has it now"),
        ({}, "none of whose GPUs has it now"),
    ],
)
def test_a_class_whose_policy_has_no_such_gpu(status: Json, why: str) -> None:
    policies_ = [of_search(**status)]
    found = explain_pod(asking(request("search-mps"), slices("node-1"), team="search", policies=policies_))
    assert (codes(found), found.state) == (["GSH0240"], State.NEVER)
    assert found.findings[0].sentence == f"Class search-mps is for MPS on GPUs of SharingPolicy search, {why}."
    assert found.findings[0].remedy == "Run `gpusharing explain policy search`: it has the cause."


@pytest.mark.parametrize(
    ("asked", "consumed", "sentence"),
    [
        (request(SHARED), {"shares": "4"}, "asks for 1 share, and no device has one left: "),
        (
            request(SHARED, capacity={"requests": {"memory": "60Gi"}}),
            {"shares": "1", "memory": "40Gi"},
            "asks for 60Gi of memory, and no device has more than 40599Mi left: ",
        ),
        (
            request(SHARED, capacity={"requests": {"memory": "60Gi"}}),
            {"shares": "1", "memory": "79Gi"},
            "asks for 60Gi of memory, and no device has more than ",
        ),
        (request(SHARED), {"shares": "1", "memory": "70Gi"}, "asks for the default of memory, and no device has more"),
    ],
)
def test_too_little_is_left(asked: Json, consumed: Mapping[str, str], sentence: str) -> None:
    held = claim("on-1", request(SHARED), result("node-1", SHARE, consumed))
    found = explain_pod(asking(asked, slices("node-1", only=SHARE.__eq__), held=[held]))
    assert codes(found) == ["GSH0206"]
    assert found.findings[0].sentence.startswith(f"Request gpu {sentence}")


@pytest.mark.parametrize(
    ("amount", "name", "text"),
    [(1, "shares", "1 share"), (2, "shares", "2 shares"), (50, "threads", "50 threads"), (5, "slots", "5 of slots")],
)
def test_amounts_of_capacities_in_words(amount: int, name: str, text: str) -> None:
    assert wording.of_capacity(amount * 10**9, name) == text


def test_admin_access_to_a_gpu_that_is_used_whole() -> None:
    held = claim("on-1", request(WHOLE), result("node-1", "gpu-0"))
    found = explain_pod(asking(request(WHOLE, adminAccess=True), slices("node-1"), held=[held]))
    assert (codes(found), found.state) == (["GSH0241"], State.WAITS)
    assert found.findings[0].sentence == (
        "Request gpu: 1 device is in use, and Kubernetes gives no admin access to a GPU in use before its other modes "
        "are withdrawn: pod ml/on-1 (for 2 h)."
    )


def test_admin_access_to_a_gpu_that_is_shared() -> None:
    held = claim("on-1", request(SHARED), result("node-1", SHARE, {"shares": "1"}))
    found = explain_pod(asking(request(WHOLE, adminAccess=True), slices("node-1"), held=[held]))
    assert (codes(found), found.state) == (["GSH0207"], State.WAITS)


# ------------------------------------------------------------------------------------------------------- GPUs and nodes


def of_gpu(**status: Any) -> Callable[[Json], None]:
    def change(sharing: Json) -> None:
        sharing["status"]["gpus"][0] |= status

    return change


def of_decision(**decided: Any) -> Callable[[Json], None]:
    def change(sharing: Json) -> None:
        sharing["spec"]["gpus"][0] |= decided

    return change


def undecided(sharing: Json) -> None:
    sharing["spec"]["gpus"] = []


def ampere(sharing: Json) -> None:
    """Its MIG mode is off, and a switch resets the GPU."""
    sharing["status"]["models"][0]["switchResets"] = True


def not_ready(sharing: Json) -> None:
    condition = {"type": "Ready", "status": "False", "reason": "DriverDown", "message": "no driver"}
    sharing["status"]["conditions"] = [condition | {"lastTransitionTime": EARLIER}]


@pytest.mark.parametrize(
    ("reason", "has_mig", "remedy"),
    [
        ("UnknownMigProfile", True, "Use a profile of the list in the message."),
        ("UnknownMigProfile", False, "Leave mig out of the offers of SharingPolicy all-modes for such GPUs."),
        ("MemoryTooSmall", True, "Select larger GPUs, or use percentages."),
        ("InternalError", True, "Report it with the message."),
    ],
)
def test_what_helps_depends_on_why_a_mode_is_refused(reason: str, has_mig: bool, remedy: str) -> None:
    sharing = node_sharing("node-1")
    of_decision(refused=[REFUSAL | {"sharing": "MIG", "reason": reason}])(sharing)
    if not has_mig:
        sharing["status"]["models"] = []
    scene = Scene.of_file(world(node_sharings=[sharing]))
    found = gpus.explain_node("node-1", scene.node_sharings["node-1"], scene)
    assert (codes(found), found.findings[0].remedy) == (["GSH0404"], remedy)


@pytest.mark.parametrize("reason", RefusalReason)
def test_each_refusal_has_a_remedy(reason: RefusalReason) -> None:
    assert gpus.refusal_remedy(reason, "search", has_mig=True).endswith(".")


REFUSAL: Final = {"sharing": "MPS", "reason": "MemoryTooSmall", "message": "90Gi is more than the GPU has"}


@pytest.mark.parametrize(
    ("change", "code", "state"),
    [
        (not_ready, "GSH0402", State.WAITS),
        (of_decision(refused=[REFUSAL]), "GSH0404", State.WAITS),
        (of_gpu(published=[{"device": "gpu-0-mps", "closingSince": EARLIER}]), "GSH0405", State.RUNS),
        (of_decision(policy=None), "GSH0406", State.RUNS),
        (undecided, "GSH0407", State.WAITS),
        (ampere, "GSH0409", State.RUNS),
    ],
)
def test_nodes_and_gpus(change: Callable[[Json], None], code: str, state: State) -> None:
    sharing = node_sharing("node-1")
    change(sharing)
    scene = Scene.of_file(world(node_sharings=[sharing]))
    decoded = scene.node_sharings["node-1"]
    of_node = gpus.explain_node("node-1", decoded, scene)
    assert (codes(of_node), of_node.state) == ([code], state)
    ((status, _),) = gpus.find("node-1/gpu-0", [decoded])
    assert gpus.find(status.uuid, [decoded]) == [(status, decoded)]
    of_gpu_ = gpus.explain_gpu(status, decoded, scene)
    assert (codes(of_gpu_), of_gpu_.state) == ([code], state)


@pytest.mark.parametrize(
    ("change", "policy", "offers", "expected"),
    [
        (ampere, "all-modes", ALL_MODES, ["MIG is not offered on 2 GPUs (NVIDIA H100 80GB HBM3) of node-1, node-2"]),
        (lambda _: None, "all-modes", ALL_MODES, []),
        (ampere, "another", ALL_MODES, []),
        (ampere, "all-modes", Offers(exclusive=ExclusiveOffer()), []),
    ],
)
def test_gpus_that_would_have_to_be_reset(
    change: Callable[[Json], None], policy: str, offers: Offers, expected: list[str]
) -> None:
    sharings = [node_sharing("node-1"), node_sharing("node-2")]
    for one in sharings:
        change(one)
    value = {
        "metadata": {"name": policy, "uid": "u", "resourceVersion": "1", "generation": 2},
        "spec": {"offers": offers.to_json()},
        "status": {"observedGeneration": 2},
    }
    scene = Scene.of_file(world(policies=[value], node_sharings=sharings))
    found = policies.explain(scene.policies[policy], scene)
    assert [one.sentence.partition(":")[0] for one in found.findings] == expected
    assert found.state is State.RUNS


def test_a_node_without_an_agent_that_is_not_ready() -> None:
    found = gpus.explain_node("node-1", None, Scene.of_file(world(nodes=[node("node-1")])), is_ready=False)
    assert (codes(found), found.state) == (["GSH0408", "GSH0401"], State.NEVER)


# ---------------------------------------------------------------------------------------------------- policies


def condition(type_: str, status: str, reason: str, message: str = "so it is") -> Json:
    return {"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": EARLIER}


@pytest.mark.parametrize(
    ("status", "expected", "state"),
    [
        ({"observedGeneration": 1, "conditions": [condition("Ready", "True", "Ready")]}, ["GSH0507"], State.WAITS),
        ({"conditions": [condition("Accepted", "False", "InvalidSelector")]}, ["GSH0501"], State.NEVER),
        ({"conditions": [condition("Ready", "False", "Paused")]}, ["GSH0502"], State.WAITS),
        ({"conditions": [condition("Ready", "False", "NoMatchingNodes")]}, ["GSH0503"], State.WAITS),
        ({"conditions": [condition("Ready", "False", "WaitingForGuards")]}, ["GSH0508"], State.WAITS),
        (
            {
                "conditions": [condition("Ready", "False", "WaitingForNodes")],
                "lagging": [{"node": "node-1", "reason": "InUse", "message": "in use by claim ml/mine"}],
            },
            ["GSH0504"],
            State.WAITS,
        ),
        ({"conditions": [condition("Conflicted", "True", "LostGpus")]}, ["GSH0505"], State.RUNS),
        ({"conditions": [condition("Degraded", "True", "SelectorError")]}, ["GSH0506"], State.WAITS),
        ({"conditions": [condition("Ready", "True", "Ready")]}, [], State.RUNS),
    ],
)
def test_policies(status: Mapping[str, Any], expected: list[str], state: State) -> None:
    value = {
        "metadata": {"name": "all-modes", "uid": "u", "resourceVersion": "1", "generation": 2},
        "spec": {"offers": ALL_MODES.to_json()},
        "status": {"observedGeneration": 2, **status},
    }
    scene = Scene.of_file(world(policies=[value]))
    found = policies.explain(scene.policies["all-modes"], scene)
    assert (codes(found), found.state) == (expected, state)


@pytest.mark.parametrize(("selected", "text"), [(1, "1 of 1 node"), (2, "1 of 2 nodes")])
def test_nodes_of_a_policy_are_counted(selected: int, text: str) -> None:
    scene = Scene.of_file(world(policies=[of_search(nodes={"selected": selected, "ready": 1})]))
    found = policies.explain(scene.policies["search"], scene)
    assert found.headline == f"SharingPolicy search is in force on {text}."


# --------------------------------------------------------------------------------------------------------- completeness


def test_each_finding_of_explain_and_top_is_brought_about_by_a_test() -> None:
    here = Path(__file__).parent
    paths = (*here.glob("*.py"), *here.glob("screens/*.txt"), *(here.parent / "top").glob("*.py"))
    texts = [path.read_text() for path in paths]
    ours = [entry.code for area in AREAS if area.number <= 5 for entry in area.entries]
    assert [code for code in ours if not any(code in text for text in texts)] == []
