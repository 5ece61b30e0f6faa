"""Files that cannot be read, or that say nothing that can be tried, are told with file, line and remedy."""

import contextlib
import io
from pathlib import Path

import pytest

from gpusharing.cli.main import main

HEAD = """\
apiVersion: gpusharing.dev/v1alpha1
kind: SharingTest
metadata: {name: t}
"""
NODES = "nodes: [{gpus: L4}]\n"
PODS = "pods:\n- class: gpu.nvidia.com\n  expect: {outcome: Fits}\n"
POLICY = "{apiVersion: gpusharing.dev/v1alpha1, kind: SharingPolicy, metadata: {name: a}, spec: {offers: %s}}"


def pod(spec: str, *, kind: str = "Pod", metadata: str = "{name: p}") -> str:
    given = f"{{apiVersion: v1, kind: {kind}, metadata: {metadata}, spec: {spec}}}"
    return f"{HEAD}{NODES}pods:\n- manifest: {given}\n  expect: {{outcome: Waits}}\n"


def said(directory: Path, text: str | bytes, *others: str) -> str:
    """What the command writes, which ends with 2."""
    (directory / "t.yaml").write_bytes(text.encode() if isinstance(text, str) else text)
    stderr = io.StringIO()
    with contextlib.chdir(directory), contextlib.redirect_stderr(stderr), pytest.raises(SystemExit) as ended:
        main(["test", "t.yaml", *others])
    assert ended.value.code == 2
    return stderr.getvalue()


WRONG = {
    "no test": ("a: 1\n", "t.yaml: no SharingTest"),
    "empty": ("", "t.yaml: no SharingTest"),
    "another version": (
        HEAD.replace("v1alpha1", "v1") + NODES,
        't.yaml:1:13: apiVersion: is "gpusharing.dev/v1": must be gpusharing.dev/v1alpha1',
    ),
    "nothing to test on": (HEAD, "t.yaml:1:1: the document: needs either nodes or snapshot"),
    "both": (HEAD + NODES + "snapshot: a.json\n", "t.yaml:1:1: the document: needs either nodes or snapshot"),
    "an unknown field": (
        HEAD + NODES + "policy: []\n",
        "t.yaml:5:1: policy: is not a known field: did you mean policies?",
    ),
    "an unknown field inside": (
        HEAD + NODES + "pods:\n- class: a\n  expect: {outcome: Fits, gpu: x}\n",
        "t.yaml:7:27: pods[0].expect.gpu: is not a known field: known are outcome, because, mode, policy, node",
    ),
    "a key twice": (HEAD + NODES + NODES, "t.yaml:5:1: nodes: is given twice: remove one"),
    "no name": (HEAD.replace("{name: t}", "{}") + NODES, "t.yaml:3:1: metadata.name: is missing"),
    "another type": (HEAD + "nodes: L4\n", "t.yaml:4:8: nodes: must be a list"),
    "a number as text": (
        HEAD + "nodes: [{gpus: L4, driver: 580}]\n",
        "t.yaml:4:28: nodes[0].driver: must be a string (put it in quotes)",
    ),
    "text as a number": (
        HEAD + 'nodes: [{gpus: L4, count: "2"}]\n',
        "t.yaml:4:27: nodes[0].count: must be a whole number",
    ),
    "an unknown model": (
        HEAD + "nodes: [{gpus: H1000}]\n",
        "t.yaml:4:16: nodes[0].gpus: unknown GPU model 'H1000': known are",
    ),
    "too many GPUs": (
        HEAD + 'nodes: [{gpus: "L4:999"}]\n',
        "t.yaml:4:16: nodes[0].gpus: a node has at most 32 GPUs, not 999",
    ),
    "not models": (HEAD + 'nodes: [{gpus: "L4:9999999999"}]\n', "nodes[0].gpus: must be models with counts"),
    "an unknown driver": (
        HEAD + 'nodes: [{gpus: L4, driver: "1"}]\n',
        "t.yaml:4:28: nodes[0].driver: unknown driver '1'",
    ),
    "a driver that is too old": (
        HEAD + 'nodes: [{gpus: B200-180GB, driver: "535"}]\n',
        "t.yaml:4:16: nodes[0].gpus: ",
    ),
    "nodes of one name": (
        HEAD + "nodes:\n- {gpus: L4}\n- {gpus: T4}\n",
        "t.yaml:6:3: nodes[1]: another node has the name node: set name",
    ),
    "a version that nobody knows": (
        HEAD + NODES + 'kubernetes: "1.20"\n',
        't.yaml:5:13: kubernetes: must be a version from "1.36" to "1.37", in quotes',
    ),
    "no outcome": (HEAD + NODES + "pods: [{class: a, expect: {}}]\n", "pods[0].expect.outcome: is missing"),
    "an unknown outcome": (
        HEAD + NODES + "pods: [{class: a, expect: {outcome: fits}}]\n",
        't.yaml:5:37: pods[0].expect.outcome: is "fits": must be Fits, Waits or Denied',
    ),
    "an unknown mode": (
        HEAD + NODES + "pods: [{class: a, expect: {outcome: Fits, mode: Mps}}]\n",
        'pods[0].expect.mode: is "Mps": must be Exclusive, TimeSlicing, MPS or MIG',
    ),
    "a reason for what fits": (
        HEAD + NODES + "pods: [{class: a, expect: {outcome: Fits, because: x}}]\n",
        "t.yaml:5:19: pods[0].expect: because is for Waits and Denied, not for Fits",
    ),
    "a place for what waits": (
        HEAD + NODES + "pods: [{class: a, expect: {outcome: Waits, mode: MPS}}]\n",
        "t.yaml:5:19: pods[0].expect: mode is for Fits, not for Waits",
    ),
    "no pod": (HEAD + NODES + "pods: [{expect: {outcome: Fits}}]\n", "pods[0]: needs either manifest or class"),
    "an amount that is none": (
        HEAD + NODES + "pods: [{class: a, capacity: {memory: 8X}, expect: {outcome: Fits}}]\n",
        "t.yaml:5:38: pods[0].capacity.memory: must be an amount such as 8Gi, or 25",
    ),
    "a file that is missing": (
        HEAD + NODES + "policies: [none.yaml]\n" + PODS,
        "t.yaml: none.yaml: No such file or directory",
    ),
    "a snapshot that is missing": (HEAD + "snapshot: none.json\n", "t.yaml: none.json: No such file or directory"),
    "a snapshot that is none": (HEAD + "snapshot: t.yaml\n", "t.yaml: not a snapshot: apiVersion must be"),
    "a manifest without policies": (
        HEAD + NODES + "policies: [t.yaml]\n" + PODS,
        "t.yaml:5:1: policies: no SharingPolicy is in these manifests",
    ),
    "a manifest without pods": (
        HEAD + NODES + "pods: [{manifest: t.yaml, expect: {outcome: Fits}}]\n",
        "t.yaml:5:19: pods[0].manifest: has no Pod",
    ),
    "a path that is no path": (
        HEAD + NODES + "policies: [5]\n",
        "t.yaml:5:12: policies[0]: must be the path of a file or folder, or an object",
    ),
    "an object of another kind": (
        HEAD + NODES + "policies: [{apiVersion: v1, kind: Secret, metadata: {name: a}}]\n",
        "t.yaml:5:12: policies[0]: is no object that a test can use: see its apiVersion, kind and metadata.name",
    ),
    "a policy that Kubernetes refuses": (
        HEAD + NODES + "policies:\n- " + POLICY % "{timeSlicing: {maxClients: 1}}" + "\n",
        "SharingPolicy a: spec.offers.timeSlicing.maxClients: ",
    ),
    "a claim of an old version": (
        HEAD
        + NODES
        + "pods: [{manifest: {apiVersion: resource.k8s.io/v1beta1, kind: ResourceClaim, metadata: {name: a}}, "
        + "expect: {outcome: Waits}}]\n",
        "`gpusharing convert` does that.",
    ),
    "a pod that the scheduler does not place": (
        pod("{nodeName: node, containers: []}"),
        "t.yaml:6:79: Pod p: spec.nodeName: is set: the scheduler places no such pod; to expect a node, set ",
    ),
    "claims that are no list": (
        pod("{containers: [], resourceClaims: 5}"),
        "Pod p: spec.resourceClaims: is 5: must be a list.",
    ),
    "a claim without name": (
        pod("{containers: [], resourceClaims: [{}]}"),
        "Pod p: spec.resourceClaims[0].name: is missing. Add name.",
    ),
    "containers that are none": (pod("{containers: [5]}"), "Pod p: spec.containers[0]: is 5: must be a mapping."),
    "an amount of a container": (
        pod('{containers: [{resources: {limits: {"a.b/c": many}}}]}'),
        'Pod p: spec.containers[0].resources.limits[a.b/c]: is "many": must be an amount.',
    ),
    "labels that are none": (
        pod("{containers: []}", metadata="{name: p, labels: [a]}"),
        'Pod p: metadata.labels: is ["a"]: must be a mapping.',
    ),
    "an affinity that is none": (
        pod("{containers: [], affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [1]}}}"),
        "is [1]: must be a mapping.",
    ),
}


@pytest.mark.parametrize(("text", "message"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_told(tmp_path: Path, text: str, message: str) -> None:
    assert message in said(tmp_path, text)


def test_a_manifest_is_told_by_its_own_line(tmp_path: Path) -> None:
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies/a.yaml").write_text("# A policy\n" + POLICY % "\n  {timeSlicng: {}}" + "\n")
    message = said(tmp_path, HEAD + NODES + "policies: [policies]\n")
    assert message.startswith("gpusharing: policies/a.yaml:3:4: SharingPolicy a: spec.offers.timeSlicng: ")
    assert "Did you mean timeSlicing?" in message


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    assert said(tmp_path, HEAD + NODES + PODS, "none.yaml") == "gpusharing: none.yaml: No such file or directory\n"


# ------------------------------------------------------------------------------------------------------------ hostile

NESTED = 200
LAUGHS = "a: &a [1]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 10)}]\n" for n in range(8)
)
HOSTILE = {
    "bytes": (b"\xff\xfe\x00", "not UTF-8"),
    "a NUL": (b"kind: \x00", "t.yaml:1:"),
    "deep": (HEAD + "nodes: " + "[" * NESTED + "]" * NESTED, "nested more than 100 levels deep"),
    "laughs": (LAUGHS, "values, with all aliases"),
    "contains itself": (HEAD + "nodes: &a [*a]\n", "no anchor is named a before this"),
    "half a character": (HEAD + NODES + 'policies: ["\\ud800"]\n', "t.yaml:5:15: found invalid Unicode character"),
    "a long number": (HEAD + f"nodes: [{{gpus: L4, count: {'9' * 5000}}}]\n", "nodes[0].count: must be a whole number"),
    "no number": (HEAD + "nodes: [{gpus: L4, count: .nan}]\n", "nodes[0].count: must be a whole number"),
    "many nodes": (HEAD + "nodes:\n" + "- {gpus: L4, count: 1000}\n" * 2, "has more than 1000 nodes"),
    "many pods": (
        pod("{replicas: 2000000000, template: {spec: {containers: []}}}", kind="Deployment"),
        "pods[0].manifest: makes more than 1,000 pods",
    ),
    "less than nothing": (
        pod("{replicas: -1, template: {spec: {containers: []}}}", kind="Deployment"),
        "Deployment p: spec.replicas: ",
    ),
    "a selector without end": (
        HEAD
        + NODES
        + "policies: [{apiVersion: gpusharing.dev/v1alpha1, kind: SharingPolicy, metadata: {name: a}, spec: {gpus: "
        + "{selectors: [{cel: {expression: '"
        + "(" * 5000
        + "'}}]}, offers: {exclusive: {}}}}]\n",
        "SharingPolicy a: spec.gpus.selectors[0].cel.expression: ",
    ),
}


@pytest.mark.parametrize(("text", "message"), HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.timeout(30)
def test_hostile_files_are_refused_soon(tmp_path: Path, text: str | bytes, message: str) -> None:
    assert message in said(tmp_path, text)


def test_a_test_may_come_from_a_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.yaml").write_text(POLICY % "{exclusive: {}}")
    given = HEAD + NODES + "policies: [a.yaml]\n" + PODS
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given.encode())))
    with contextlib.chdir(tmp_path), pytest.raises(SystemExit) as ended:
        main(["test", "-"])
    assert ended.value.code == 0
