"""What people see at 80 columns: golden files, to be looked at when they change; docs/doctor.md shows them.

`GPUSHARING_WRITE_SCREENS=1 pytest tests/diagnosing/test_screens.py` writes them.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from diagnosing.bed import NEWEST, NODES, condition, gpu_node
from diagnosing.test_facts import KINDS, agent, documents, version
from explaining.bed import our_slices
from gpusharing import __version__
from gpusharing.api.names import Sharing
from gpusharing.cli.diagnosis_screen import DiagnosisTable
from gpusharing.cli.output import Screen
from gpusharing.core.publishing.slice_updates import slice_name
from gpusharing.diagnosing import monitoring, reports
from gpusharing.diagnosing.check import Check
from gpusharing.diagnosing.diagnosis import before_installation, of_installation
from gpusharing.diagnosing.facts import (
    ClusterFacts,
    DryRun,
    Gates,
    Granted,
    InstallationFacts,
    LeaseFacts,
    Listed,
    lean_node_sharing,
    lean_slice,
)
from gpusharing.diagnosing.guards import PROBED
from gpusharing.diagnosing.kubernetes import API
from gpusharing.diagnosing.probing import Probed, check_probe, pod_of
from gpusharing.findings import waiting
from gpusharing.findings.finding import Reference
from harness.gpu_cluster import MANIFESTS

SCREENS: Final = Path(__file__).parent / "screens"
COLUMNS: Final = 80


def slices() -> Iterator[Mapping[str, Any]]:
    for node in NODES:
        for index, spec in enumerate(our_slices(node)):
            name = slice_name(index, pool=node, driver="gpu.nvidia.com")
            yield lean_slice({"metadata": {"name": name}, "spec": spec})


def cluster() -> ClusterFacts:
    labels = {"app.kubernetes.io/version": __version__}
    deployment = {
        "metadata": {"name": "gpusharing-operator", "namespace": "gpusharing-system", "labels": labels},
        "spec": {"replicas": 2},
        "status": {"availableReplicas": 2},
    }
    return ClusterFacts(
        version=version("v1.37.1"),
        served={API: KINDS, monitoring.API: frozenset({"podmonitors", "prometheusrules"})},
        nodes=Listed([gpu_node(name) for name in NODES]),
        slices=Listed(list(slices())),
        operators=Listed([deployment]),
        pod_monitors=Listed([{"spec": {"selector": "gpusharing-agent"}}]),
    )


def of_kind(kind: str) -> Listed:
    return Listed([one for one in documents() if one["kind"] == kind])


def definitions() -> Listed:
    texts = [path.read_text() for path in sorted((MANIFESTS.parents[1] / "crds").glob("*.gpusharing.dev*.yaml"))]
    found = [one for text in texts for one in yaml.safe_load_all(text)]
    return Listed([{**one, "status": {"conditions": [condition("Established")]}} for one in found])


def installation() -> InstallationFacts:
    count = len(NODES)
    status = {"desiredNumberScheduled": count, "numberReady": count}
    gpu = {"slot": 0, "published": [{"device": "gpu-0"}], "conditions": [condition("Healthy")]}
    told = {"gpus": [gpu], "conditions": [condition("Ready")]}
    lease = {"spec": {"holderIdentity": "gpusharing-operator-6f7c8-x2x4z_1a2b3c4d"}}
    return InstallationFacts(
        namespace="gpusharing-system",
        definitions=definitions(),
        guards=of_kind("ValidatingAdmissionPolicy"),
        bindings=of_kind("ValidatingAdmissionPolicyBinding"),
        dry_runs=[DryRun(guard, is_refused=True) for guard in PROBED],
        classes=of_kind("DeviceClass"),
        lease=LeaseFacts("gpusharing-system/gpusharing-operator", lease),
        granted=[Granted("gpusharing-system/gpusharing-operator"), Granted("gpusharing-system/gpusharing-agent")],
        daemon_sets=Listed([{"metadata": {"name": "gpusharing-agent"}, "spec": {}, "status": status}]),
        agents=Listed([agent(name) for name in NODES]),
        node_sharings=Listed([lean_node_sharing({"metadata": {"name": name}, "status": told}) for name in NODES]),
    )


def before() -> Iterator[Check]:
    old = {"kubeletVersion": "v1.36.3", "containerRuntimeVersion": "containerd://1.7.27"}
    nodes = [gpu_node("node-1", info=old), gpu_node("node-2", info=NEWEST, offers={"nvidia.com/gpu": "8"})]
    facts = replace(
        cluster(),
        version=version("v1.36.3"),
        nodes=Listed(nodes),
        operators=Listed(),
        slices=Listed(),
        gates=Gates(unread="you may not get /metrics"),
    )
    yield from before_installation(facts)


def well() -> Iterator[Check]:
    yield from of_installation(cluster(), installation())


def probe() -> Iterator[Check]:
    made = {**pod_of("p", image="gpusharing:0.1.0", program=["true"]), "status": {"phase": "Succeeded"}}
    made["spec"] = {**made["spec"], "nodeName": "node-1"}
    yield check_probe(Probed(Sharing.TIME_SLICING, "default", "gpusharing:0.1.0", "true", seconds=3, pod=made))
    waits = {**made, "spec": pod_of("p", image="x", program=["true"])["spec"], "status": {"phase": "Pending"}}
    explained = waiting.NO_CLASS.found(
        Reference("Pod", "p", "default"),
        request="gpu",
        class_="mps.gpu.nvidia.com",
        why="",
        remedy="Apply manifests/base, which has it.",
    )
    yield check_probe(
        Probed(
            Sharing.MPS,
            "default",
            "gpusharing:0.1.0",
            "true",
            seconds=60,
            pod=waits,
            headline="Pod default/p is waiting for claim p (class mps.gpu.nvidia.com).",
            explained=[explained],
        )
    )


CASES: Final[Mapping[str, Callable[[], Iterator[Check]]]] = {"before": before, "well": well, "probe": probe}


@pytest.mark.parametrize("name", CASES)
def test_screens(name: str) -> None:
    checks = list(CASES[name]())
    screen = "\n".join([*DiagnosisTable(Screen(COLUMNS)).lines(checks), "", reports.summary(checks), ""])
    golden = SCREENS / f"{name}-80.txt"
    if os.environ.get("GPUSHARING_WRITE_SCREENS"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(screen)
    assert screen == golden.read_text()
    assert max(map(len, screen.splitlines())) <= COLUMNS


def test_all_is_well() -> None:
    assert [check.state.value for check in well()] == ["Well"] * 18
