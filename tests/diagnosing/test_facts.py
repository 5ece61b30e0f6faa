"""What follows from facts that no API server here has: versions of Kubernetes above all, and a thousand agents."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from xml.etree import ElementTree as ET

import pytest
import yaml

from diagnosing.bed import HAS_GPUS, condition
from gpusharing import cel
from gpusharing.api.names import Sharing
from gpusharing.cli.diagnosis_screen import DiagnosisTable
from gpusharing.cli.output import Screen
from gpusharing.diagnosing import monitoring, reports, rights
from gpusharing.diagnosing.agents import check_agents
from gpusharing.diagnosing.check import Check, State
from gpusharing.diagnosing.diagnosis import before_installation
from gpusharing.diagnosing.facts import ClusterFacts, Gates, InstallationFacts, LeaseFacts, Listed, lean_node_sharing
from gpusharing.diagnosing.faults import FAULTS, Version, read_version
from gpusharing.diagnosing.guards import OF_CLAIMS, OF_PROGRAMS
from gpusharing.diagnosing.kubernetes import API, GATES
from gpusharing.diagnosing.probing import Probed, check_offers, check_probe, claim_of, offered_modes, pod_of
from gpusharing.findings import waiting
from gpusharing.findings.finding import Reference
from harness.gpu_cluster import MANIFESTS

Json = Mapping[str, Any]

KINDS: Final = frozenset(
    {"deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices", "devicetaintrules"}
)


def version(text: str, *, minor: str | None = None, **more: str) -> Json:
    return {"gitVersion": text, "major": "1", "minor": minor or text.split(".")[1], **more}


def node(name: str = "n", *, runtime: str = "containerd://2.1.4", kubelet: str = "v1.37.1", **labels: str) -> Json:
    info = {"containerRuntimeVersion": runtime, "kubeletVersion": kubelet}
    return {"metadata": {"name": name, "labels": {**HAS_GPUS, **labels}}, "status": {"nodeInfo": info}}


WELL: Final = ClusterFacts(
    version=version("v1.37.1"),
    served={API: KINDS, monitoring.API: frozenset({"podmonitors", "prometheusrules"})},
    nodes=Listed([node()]),
)


def found(checks: Sequence[Check]) -> dict[str, str]:
    return {one.code: one.sentence for check in checks for one in check.findings}


def before(facts: ClusterFacts) -> dict[str, str]:
    return found(list(before_installation(facts)))


def test_all_is_well_before() -> None:
    assert before(WELL) == {}


CASES: Final[Mapping[str, tuple[ClusterFacts, str, str]]] = {
    "an old API server": (
        replace(WELL, version=version("v1.35.8")),
        "GSH0902",
        "The API server is Kubernetes v1.35.8, and the oldest version that is supported is 1.36.",
    ),
    "one that behaves as an old one": (
        replace(WELL, version=version("v1.37.1", emulationMinor="35")),
        "GSH0902",
        "The API server is Kubernetes 1.35 (v1.37.1), and the oldest version that is supported is 1.36.",
    ),
    "a new API server": (
        replace(WELL, version=version(f"v1.{cel.NEWEST_MINOR + 1}.0")),
        "GSH0903",
        (
            f"The API server is Kubernetes v1.{cel.NEWEST_MINOR + 1}.0, and the newest version whose selectors are "
            f"known is 1.{cel.NEWEST_MINOR}."
        ),
    ),
    "a scheduler that gives GPUs away twice": (
        replace(WELL, version=version("v1.36.1-eks-4d5f6", minor="36+")),
        "GSH0905",
        (
            "kube-scheduler 1.36.1 has kubernetes#139034: it can allocate a GPU in two modes at once, because it "
            "forgets shares that were allocated before."
        ),
    ),
    "a scheduler that can be ended": (
        replace(WELL, version=version("v1.37.0")),
        "GSH0904",
        (
            "kube-scheduler 1.37.0 has kubernetes#141323: a claim with huge counts ends it, and whoever may create "
            "claims can write one."
        ),
    ),
    "a version that nobody knows": (
        replace(WELL, version=version("v1.37.0-rc.1")),
        "GSH0901",
        "Known faults of kube-scheduler: not checked, because the version is not that of a release.",
    ),
    "an API that is switched off": (
        replace(WELL, served={**WELL.served, API: KINDS - {"deviceclasses", "resourceslices"}}),
        "GSH0906",
        "The API server does not serve deviceclasses, resourceslices of resource.k8s.io/v1.",
    ),
    "cri-dockerd": (
        replace(WELL, nodes=Listed([node("a", runtime="docker://27.0.0"), node("b", runtime="cri-o://1.36.1")])),
        "GSH0910",
        "docker 27.0.0 on node a gives containers no CDI devices.",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_finding_before(case: str) -> None:
    facts, code, sentence = CASES[case]
    assert before(facts)[code] == sentence


@pytest.mark.parametrize(
    ("text", "issues"),
    [
        ("v1.36.0", {139034, 138882, 141323, 140436, 140435, 140769, 140600}),
        ("v1.36.2", {141323, 140436, 140435, 140769, 140600}),
        ("v1.36.4", {141323, 140769, 140600}),
        ("v1.36.5", {140769, 140600}),
        ("v1.37.0", {141323}),
        ("v1.37.1", set()),
        ("v1.37.2", set()),
    ],
)
def test_faults_of_a_scheduler(text: str, issues: set[int]) -> None:
    checks = {check.name: check for check in before_installation(replace(WELL, version=version(text)))}
    told = [one.values["issue"] for one in checks["scheduler"].findings]
    assert set(told) == {f"kubernetes#{issue}" for issue in issues}
    assert told[:1] == (["kubernetes#139034"] if 139034 in issues else told[:1])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("v1.36.3", Version(36, 3)),
        ("v1.36.3-gke.1200", Version(36, 3)),
        ("v1.36.3+k3s1", Version(36, 3)),
        ("v1.37.0-rc.1", None),
        ("v1.37.0-alpha.0", None),
        ("", None),
        ("v2.1", None),
        (f"v1.{'9' * 5000}.1", None),
    ],
)
def test_versions(text: str, expected: Version | None) -> None:
    assert read_version(text) == expected


def test_a_fault_names_a_release_that_does_not_have_it() -> None:
    for fault in FAULTS:
        for text in fault.fixed.split(" or "):
            repaired = read_version(text)
            assert repaired is not None
            assert not fault.is_in(repaired)


@pytest.mark.parametrize("gate", GATES)
def test_a_gate_that_is_off(gate: str) -> None:
    told = before(replace(WELL, gates=Gates({gate: False})))
    assert told == {"GSH0908": f"Feature gate {gate} is off in the API server: {GATES[gate]}."}


# ----------------------------------------------------------------------------------------------------------- a thousand


def agent(name: str, *, waiting_for: str = "") -> Json:
    state = {"waiting": {"reason": waiting_for}} if waiting_for else {"running": {}}
    return {
        "metadata": {"name": f"agent-{name}"},
        "spec": {"nodeName": name},
        "status": {
            "conditions": [condition("Ready", is_so=not waiting_for)],
            "containerStatuses": [{"name": "agent", "state": state}],
        },
    }


def sharing(name: str, *, problem: str = "") -> Json:
    ready = condition("Ready", is_so=not problem, reason=problem or "Ready", message=f"{problem} of {name}")
    return lean_node_sharing({"metadata": {"name": name}, "status": {"conditions": [ready], "gpus": []}})


def test_a_thousand_agents_in_a_sentence() -> None:
    names = [f"node-{number:04}" for number in range(1000)]
    unwell = dict.fromkeys(names[10:500], "NotRegistered") | {names[7]: "DriverDown"}
    status = {"desiredNumberScheduled": 1000, "numberReady": 995}
    installed = InstallationFacts(
        namespace="gpusharing-system",
        lease=LeaseFacts("gpusharing-system/gpusharing-operator"),
        daemon_sets=Listed([{"metadata": {"name": "gpusharing-agent"}, "spec": {}, "status": status}]),
        agents=Listed([agent(name, waiting_for="OOMKilled" if name in names[-5:] else "") for name in names]),
        node_sharings=Listed([sharing(name, problem=unwell.get(name, "")) for name in names[:-1]]),
    )
    checks = {check.name: check for check in check_agents(replace(WELL, slices=Listed()), installed)}
    told = found(list(checks.values()))
    assert told["GSH0931"] == (
        "The agents of nodes node-0995, node-0996, node-0997 and 2 more do not run or are not ready: agent: OOMKilled."
    )
    sentences = [one.sentence for one in checks["reports"].findings]
    assert sentences == [
        "Node node-0007: DriverDown: DriverDown of node-0007",
        "Nodes node-0010, node-0011, node-0012 and 487 more: NotRegistered: NotRegistered of node-0499",
    ]
    healthy = replace(
        installed,
        agents=Listed([agent(name) for name in names]),
        node_sharings=Listed([sharing(name) for name in names]),
    )
    (first, second, *_) = check_agents(WELL, healthy)
    assert first.well == "Agents are ready on 995 of 1000 nodes."
    assert second.well == "1000 agents reported, and none has a problem."


def test_a_gpu_that_is_not_healthy_is_no_problem_of_its_agent() -> None:
    gpu = {"slot": 3, "conditions": [condition("Healthy", is_so=False, reason="FatalXid", message="Xid 79")]}
    ready = condition("Ready", is_so=False, reason="GpuUnhealthy", message="GPU gpu-3: Xid 79")
    told = lean_node_sharing({"metadata": {"name": "n"}, "status": {"conditions": [ready], "gpus": [gpu]}})
    lease = LeaseFacts("gpusharing-system/gpusharing-operator")
    installed = InstallationFacts(namespace="gpusharing-system", lease=lease, node_sharings=Listed([told]))
    checks = {check.name: check for check in check_agents(WELL, installed)}
    assert checks["reports"].state is State.WELL
    assert found([checks["gpus"]]) == {"GSH0933": "n/gpu-3: FatalXid: Xid 79"}


# --------------------------------------------------------------------------------------------------------------- probes

POD: Final = pod_of("probe", image="image", program=["true"])


def pod(phase: str = "Pending", *, node: str = "", state: Json | None = None) -> Json:
    containers = [{"name": "probe", "state": state}] if state else []
    return {
        **POD,
        "spec": {**POD["spec"], **({"nodeName": node} if node else {})},
        "status": {"phase": phase, "containerStatuses": containers},
    }


IN_USE: Final = waiting.IN_USE.found(
    Reference("Pod", "probe", "ns"),
    request="gpu",
    needed="1 device",
    count="1 device",
    number="1 is",
    holders="pod a/b",
)
PROBED: Final = Probed(Sharing.MPS, "ns", "image", "true", seconds=3.4)
PROBE_CASES: Final[Mapping[str, tuple[Probed, list[str], str]]] = {
    "ended well": (PROBED._replace(pod=pod("Succeeded", node="n")), [], ""),
    "refused": (
        PROBED._replace(refused="exceeded quota"),
        ["GSH0938"],
        "The pod or claim for mode MPS in namespace ns was refused: exceeded quota",
    ),
    "container waits": (
        PROBED._replace(
            pod=pod(node="n", state={"waiting": {"reason": "ErrImagePull", "message": "not found"}}),
            headline="It waits.",
        ),
        ["GSH0939"],
        "The pod for mode MPS did not end within 3 s: its container waits: ErrImagePull (not found)",
    ),
    "failed": (
        PROBED._replace(pod=pod("Failed", node="n", state={"terminated": {"exitCode": 1, "reason": "Error"}})),
        ["GSH0940"],
        "The pod for mode MPS got its GPU on node n, and failed: exit code 1 (Error)",
    ),
    "no room": (
        PROBED._replace(pod=pod(), explained=[IN_USE]),
        ["GSH0941", "GSH0205"],
        "The pod for mode MPS found no free device within 3 s, so the mode was not tried.",
    ),
    "left": (
        PROBED._replace(pod=pod("Succeeded", node="n"), left="it is still ending after 60 s"),
        ["GSH0942"],
        "Pod probe could not be deleted, or its end was not seen: it is still ending after 60 s.",
    ),
}


@pytest.mark.parametrize("case", PROBE_CASES)
def test_what_became_of_a_probe(case: str) -> None:
    probed, codes, sentence = PROBE_CASES[case]
    check = check_probe(probed)
    assert [one.code for one in check.findings] == codes
    assert (check.findings[0].sentence if codes else "") == sentence
    assert check.name == "probe-mps"


def test_modes_that_are_offered_to_everybody() -> None:
    closing = {"device": "gpu-0-mps", "closingSince": "2026-11-20T00:00:00Z"}
    sharings: list[Json] = [
        {"spec": {"gpus": [{"offers": {"timeSlicing": {}, "new": {}}}, {"offers": {"mps": {}}, "restricted": True}]}},
        {"status": {"gpus": [{"pool": "n", "published": [{"device": "gpu-0-mig-1g10gb-19-0"}, closing]}]}},
        {"status": {"gpus": [{"pool": "n/policy", "published": [{"device": "gpu-0"}]}]}},
    ]
    assert offered_modes(sharings) == [Sharing.TIME_SLICING, Sharing.MIG]
    assert list(check_offers(Listed(sharings))) == []
    (unread,) = check_offers(Listed(unread="you may not list nodesharings"))
    assert unread.state is State.NOT_CHECKED


def test_the_claim_goes_with_its_pod() -> None:
    made = {**POD, "metadata": {**POD["metadata"], "uid": "1"}}
    (owner,) = claim_of(made, Sharing.MIG)["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Pod", "probe", "1")


# -------------------------------------------------------------------------------------------- what the manifests have


def documents() -> list[dict[str, Any]]:
    return [one for path in sorted(MANIFESTS.glob("*.yaml")) for one in yaml.safe_load_all(path.read_text()) if one]


def test_all_admission_policies_are_known() -> None:
    policies = {one["metadata"]["name"] for one in documents() if one["kind"] == "ValidatingAdmissionPolicy"}
    assert {*OF_CLAIMS, *OF_PROGRAMS} == policies


@pytest.mark.parametrize(
    ("account", "known"), [("gpusharing-operator", rights.of_operator()), ("gpusharing-agent", rights.of_agent())]
)
def test_rights_are_those_of_the_roles(account: str, known: Any) -> None:
    roles = {(one["kind"], one["metadata"]["name"]): one for one in documents() if one["kind"].endswith("Role")}
    granted = set()
    for binding in documents():
        if not binding["kind"].endswith("RoleBinding") or binding["subjects"][0]["name"] != account:
            continue
        namespace = binding["metadata"].get("namespace", "")
        role = roles[binding["roleRef"]["kind"], binding["roleRef"]["name"]]
        for rule in role["rules"]:
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    for verb in rule["verbs"]:
                        for name in rule.get("resourceNames", [""]):
                            granted.add((verb, group, resource, name, namespace))
    meant = {rights.OWN_NAMESPACE: "gpusharing-system", rights.LEASE: "gpusharing-operator"}
    wanted = {
        (*right[:3], meant.get(right.name, right.name), meant.get(right.namespace, right.namespace)) for right in known
    }
    assert granted == wanted


# -------------------------------------------------------------------------------------------------------------- reports


def test_reports() -> None:
    facts = replace(
        WELL, version=version("v1.36.1"), gates=Gates(unread="you may not get /metrics"), served={API: KINDS}
    )
    checks = list(before_installation(facts))
    assert reports.summary(checks) == "14 checks: 11 well, 1 well with a remark, 1 with an error, 1 not checked"
    assert (reports.is_well(checks, strict=False), reports.is_well(checks[:1], strict=True)) == (False, True)
    value = json.loads(json.dumps(reports.to_json(checks, strict=False)))
    assert value["well"] is False
    assert value["checks"][0] == {
        "section": "Kubernetes",
        "name": "version",
        "state": "Well",
        "message": "The API server is Kubernetes v1.36.1.",
        "findings": [],
    }
    lines = list(reports.short(checks))
    assert lines[0].startswith("✗ GSH0905 kube-scheduler 1.36.1 has kubernetes#139034: ")
    assert lines[-1].startswith("· GSH0916 ")
    (suite,) = ET.fromstring(reports.junit(checks))  # noqa: S314 (it is ours)
    assert suite.attrib == {"name": "gpusharing doctor", "tests": "14", "failures": "1", "skipped": "1"}
    results = {case.attrib["name"]: [child.tag for child in case] for case in suite}
    assert (results["version"], results["scheduler"], results["feature-gates"], results["prometheus"]) == (
        [],
        ["failure"],
        ["skipped"],
        ["system-out"],
    )


def test_what_others_wrote_stays_a_line() -> None:
    check = check_probe(PROBED._replace(refused="no\x1b[2J\nroom"))
    (line,) = reports.short([check])
    assert line.endswith("was refused: no\N{REPLACEMENT CHARACTER}[2J room")
    assert "\x1b" not in "".join(DiagnosisTable(Screen(80)).lines([check]))


def test_what_is_ignored_is_not_reported() -> None:
    (check,) = [one for one in before_installation(replace(WELL, served={})) if one.name == "prometheus"]
    assert check.without(["GSH0916"]).state is State.WELL


CODES: Final = {code for _, code, _ in CASES.values()} | {
    code for _, codes, _ in PROBE_CASES.values() for code in codes
}
