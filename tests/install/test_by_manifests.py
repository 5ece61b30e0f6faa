"""`kubectl apply --kustomize manifests/overlays/simulated`, as it is written: README's example runs, and neither the
end of an agent's pod nor that of kubelet or containerd disturbs a pod that uses a GPU, nor does a directory that is
removed. A bundle of it answers as it does."""

import json
import re
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
import pytest_asyncio
import yaml

from harness.commands import run
from harness.eventually import eventually
from harness.installed_cluster import NAMESPACE, ROOT, SIMULATED, InstalledCluster
from harness.processes import Process
from harness.workloads import policy, template
from install.replay import said, written
from install.running import mps_daemons, what_runs
from node.test_explain import ALL_MODES
from node.test_modes import of_mps
from node.user import AnyUser

pytestmark = [pytest.mark.cluster, pytest.mark.node, pytest.mark.asyncio(loop_scope="module")]

EXAMPLES: Final = ROOT / "docs" / "examples"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def user(cluster: InstalledCluster) -> AsyncIterator[AnyUser]:
    await cluster.apply()
    yield AnyUser(cluster)


def readme_example() -> list[dict[str, Any]]:
    block = (ROOT / "README.md").read_text().split("```yaml\n")[1].split("```")[0]
    return list(yaml.safe_load_all(block))


def by_mps() -> dict[str, Any]:
    documents = yaml.safe_load_all((EXAMPLES / "all-modes.yaml").read_text())
    return next(document for document in documents if document["metadata"]["name"] == "by-mps")


def named(pod: dict[str, Any], name: str) -> dict[str, Any]:
    return {**pod, "metadata": {**pod["metadata"], "name": name, "labels": {"app": "test"}}}


async def test_the_example_of_the_readme(user: AnyUser) -> None:
    policy, template, pod = readme_example()
    await user.apply(policy, template, named(pod, "sharer"))
    await user.wait("pod/sharer", "--for=condition=Ready")

    async def table_is_as_written() -> None:
        heading, row = (await user.cluster.kubectl("get", "sharingpolicies")).splitlines()
        assert heading.split() == ["NAME", "READY", "REASON", "PROGRESSING", "NODES", "GPUS", "CLIENTS", "MAX", "AGE"]
        assert row.split()[:-1] == ["quarters", "True", "Ready", "Complete", "1", "2", "1", "8"]

    await eventually(table_is_as_written)
    await user.apply(*(named(pod, f"sharer-{number}") for number in range(2, 10)))
    await user.running(8, pending=1)
    await eventually(lambda: top_shows_what_agents_measure(user))
    for running in await user.pods("Running"):
        name = running["metadata"]["name"]
        assert "_SHARING=TimeSlicing" in await user.shell(name, "env", container="main")
        assert "/dev/nvidia" in await user.shell(name, "ls /dev/nvidia[01]", container="main")
    await user.delete("pods", "--all", "--grace-period=0")
    await user.nothing_prepared()
    await user.delete("sharingpolicies", "--all")


async def test_doctor_finds_nothing(user: AnyUser) -> None:
    """Its pods have the image of the agents, which is on the node."""
    await user.apply(ALL_MODES)
    await user.wait("sharingpolicy/all-modes", "--for=condition=Ready")
    command = [sys.executable, "-m", "gpusharing", "doctor", "--wait", "1m", "--probe", "-o", "short"]
    found = await run([*command, "--ignore", "GSH0916", "--kubeconfig", user.cluster.kubeconfig])
    assert found == ""
    await user.nothing_prepared()
    await user.delete("sharingpolicies", "--all")


async def test_the_page_in_the_cluster(user: AnyUser, cluster: InstalledCluster) -> None:
    """With the component, by port-forward, and a token of somebody who may see one namespace."""
    policy, template, pod = readme_example()
    await user.apply(policy, template, named(pod, "sharer"))
    directory = cluster.directory / "with-page"
    directory.mkdir()
    up = "../" * (len(directory.parts) - 1)
    resources = [f"{up}{SIMULATED.relative_to('/')}"]
    components = [f"{up}{(ROOT / 'manifests/components/ui').relative_to('/')}"]
    (directory / "kustomization.yaml").write_text(json.dumps({"resources": resources, "components": components}))
    await cluster.apply(directory)
    page, namespace = "deployment/gpusharing-ui", f"--namespace={NAMESPACE}"
    await cluster.kubectl("rollout", "status", page, namespace, "--timeout=180s")
    await cluster.kubectl("create", "serviceaccount", "reader")
    await cluster.kubectl("create", "rolebinding", "reader", "--clusterrole=view", "--serviceaccount=default:reader")
    token = (await cluster.kubectl("create", "token", "reader")).strip()
    await user.wait("pod/sharer", "--for=condition=Ready")
    log = cluster.directory / "logs" / "port-forward.log"

    async def forwards() -> bool:
        return "Forwarding from" in log.read_text()

    common = (f"--kubeconfig={cluster.kubeconfig}", namespace)
    forward = ("port-forward", "--address=127.0.0.1", "service/gpusharing-ui", ":80")
    forwarding = Process([cluster.programs / "kubectl", *common, *forward], log=log, ready=forwards)
    async with forwarding.killed_at_end(), aiohttp.ClientSession() as session:
        port = log.read_text().split(" ->")[0].rpartition(":")[2]

        async def seen(**headers: str) -> str:
            async with session.get(f"http://localhost:{port}/", headers=headers) as answer:
                return await answer.text()

        async def shows_its_pod() -> None:
            assert "default/sharer" in await seen(Authorization=f"Bearer {token}")

        await eventually(shows_its_pod)
        text = await seen(Authorization=f"Bearer {token}")
        assert "system:serviceaccount:default:reader" in text
        assert "You may not read SharingPolicies." in text
        assert "Your token for the API server" in await seen()
    await cluster.kubectl("delete", page, "service/gpusharing-ui", namespace)
    await user.delete("pods", "--all", "--grace-period=0")
    await user.nothing_prepared()
    await user.delete("sharingpolicies", "--all")


async def top_shows_what_agents_measure(user: AnyUser) -> None:
    """It asks them through the API server."""
    command = [sys.executable, "-m", "gpusharing", "top", "-o", "json", "--kubeconfig", str(user.cluster.kubeconfig)]
    found = json.loads(await run(command))
    assert found["notes"] == []
    holders = [holder for node in found["nodes"] for gpu in node["gpus"] for holder in gpu["holders"]]
    assert [(one["mode"], one["ratio"], one.get("utilization")) for one in holders] == [("TimeSlicing", 0.25, 0.0)] * 8
    assert [one["finding"]["code"] for one in found["waiting"]] == ["GSH0206"]


async def agent_is_replaced(user: AnyUser, cluster: InstalledCluster) -> None:
    before = await cluster.agent_pod()
    await user.delete("pod", before["metadata"]["name"], f"--namespace={NAMESPACE}")
    await cluster.rolled_out()
    assert (await cluster.agent_pod())["metadata"]["uid"] != before["metadata"]["uid"]


async def agent_is_killed(user: AnyUser, cluster: InstalledCluster) -> None:
    """As if it had run out of memory."""
    before = await cluster.agent_pod()
    (status,) = before["status"]["containerStatuses"]
    tasks = await cluster.node.run("sh", "-c", f"cat /sys/fs/cgroup/k8s.io/{_id(status)}/cgroup.procs")
    await cluster.node.run("kill", "-KILL", *tasks.split())

    async def runs_again() -> None:
        (now,) = (await cluster.agent_pod())["status"]["containerStatuses"]
        assert now["restartCount"] == status["restartCount"] + 1
        assert now["ready"]

    await eventually(runs_again)


async def kubelet_restarts(user: AnyUser, cluster: InstalledCluster) -> None:
    await cluster.node.kubelet.restart()


async def containerd_restarts(user: AnyUser, cluster: InstalledCluster) -> None:
    await cluster.node.containerd.restart()


async def cdi_directory_is_removed(user: AnyUser, cluster: InstalledCluster) -> None:
    """The agent goes on in its next container, which has the node's directory, and containerd is told."""
    before = await cluster.agent_pod()
    (status,) = before["status"]["containerStatuses"]
    specs = await cluster.node.run("ls", "/var/run/cdi")
    assert "gpusharing.dev-claim_" in specs
    await cluster.node.run("rm", "-r", "/var/run/cdi")

    async def all_is_there_again() -> None:
        (now,) = (await cluster.agent_pod())["status"]["containerStatuses"]
        assert now["restartCount"] > status["restartCount"]
        assert now["ready"]
        assert await cluster.node.run("ls", "/var/run/cdi") == specs

    await eventually(all_is_there_again)


def _id(status: dict[str, Any]) -> str:
    identity: str = status["containerID"]
    return identity.removeprefix("containerd://")


async def test_nothing_disturbs_a_running_pod(user: AnyUser, cluster: InstalledCluster) -> None:
    await user.cluster.kubectl("apply", f"--filename={EXAMPLES}/all-modes.yaml")
    await user.wait("pod/by-mps", "pod/in-an-instance", "--for=condition=Ready")
    before = await what_runs(user)
    assert before.daemons
    assert "CUDA_MPS_PIPE_DIRECTORY" in await user.shell("by-mps", "env", container="main")
    ends = (agent_is_replaced, agent_is_killed, kubelet_restarts, containerd_restarts, cdi_directory_is_removed)
    for number, end in enumerate(ends):
        await end(user, cluster)
        assert await what_runs(user) == before, end.__name__
        # And everything works.
        await user.apply(named(by_mps(), f"after-{number}"))
        await user.wait(f"pod/after-{number}", "--for=condition=Ready")
        assert (await what_runs(user)).daemons == before.daemons, end.__name__
        await user.delete("pod", f"after-{number}", "--grace-period=0")


async def test_a_bundle_says_what_the_cluster_says(user: AnyUser, cluster: InstalledCluster, tmp_path: Path) -> None:
    """Pods use GPUs in two modes, one waits, and the agent was killed before."""
    greedy = named(by_mps(), "greedy")
    await user.apply(template("too-much", of_mps("500Gi", 10)))
    greedy["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "too-much"}]
    await user.apply(greedy)
    bundle, wanted = tmp_path / "bundle.tar.gz", tmp_path / "wanted.yaml"
    wanted.write_text(yaml.safe_dump(policy("all-modes", offers={"timeSlicing": {"maxClients": 2}})))
    kubeconfig = f"--kubeconfig={cluster.kubeconfig}"
    questions: list[tuple[str | Path, ...]] = [
        *(("explain", "pod", name) for name in ("by-mps", "in-an-instance", "greedy")),
        ("explain", "node", "node-1"),
        ("explain", "gpu", "node-1/gpu-0"),
        ("explain", "policy", "all-modes"),
        ("plan", "-f", wanted),
    ]

    async def both_say_the_same() -> None:
        files = written(bundle, kubeconfig)
        assert "All was read." in files["README.txt"]
        for question in questions:
            assert said(*question, "--snapshot", bundle) == said(*question, kubeconfig)
        assert holders(said("top", "--snapshot", bundle)) == holders(said("top", kubeconfig))
        assert said("explain", "pod", "greedy", kubeconfig)[1]["findings"][0]["code"] == "GSH0204"

    await eventually(both_say_the_same)
    texts = written(bundle, kubeconfig)
    agent = f"agents/node-1/{(await cluster.agent_pod())['metadata']['name']}"
    assert "serving the kubelet" in texts[f"{agent}/log.txt"]
    assert "serving the kubelet" in texts[f"{agent}/previous-log.txt"]
    assert "gpusharing_" in texts[f"{agent}/metrics.txt"]
    assert len([name for name in texts if name.startswith("operator/") and name.endswith("/metrics.txt")]) == 2

    hidden = written(bundle, kubeconfig, "--anonymous")
    assert hidden.keys() != texts.keys()
    assert samples(hidden) == samples(texts)
    everything = "\n".join((*hidden, *hidden.values()))
    named_by_people = [
        one["metadata"]["name"]
        for kind in ("pods", "resourceclaims", "resourceclaimtemplates", "nodes", "sharingpolicies")
        for one in (await user.get(kind, "--all-namespaces"))["items"]
    ]
    assert len(named_by_people) > 10
    assert [name for name in named_by_people if re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", everything)] == []
    await user.delete("pod", "greedy", "--grace-period=0")


def holders(top: Any) -> list[Any]:
    """Not what they use at that moment, which agents measure."""
    _, found = top
    return [
        (gpu["uuid"], gpu["modes"], gpu["ratio"], [one["claim"] for one in gpu["holders"]])
        for node in found["nodes"]
        for gpu in node["gpus"]
    ]


def samples(texts: Mapping[str, str]) -> set[str]:
    """The names of metrics."""
    pages = [text for name, text in texts.items() if name.endswith("/metrics.txt")]
    return {re.split(r"[{ ]", line)[0] for page in pages for line in page.splitlines() if not line.startswith("#")}


async def test_a_node_is_drained(user: AnyUser, cluster: InstalledCluster) -> None:
    agent = await cluster.agent_pod()
    # There is no other node for the operator.
    others = "--pod-selector=app.kubernetes.io/part-of!=gpu-sharing"
    await cluster.kubectl("drain", cluster.node.name, "--ignore-daemonsets", "--force", others, "--timeout=120s")
    assert (await user.get("pods"))["items"] == []
    await user.nothing_prepared()
    assert await mps_daemons(user) == frozenset()
    assert (await cluster.agent_pod())["metadata"]["uid"] == agent["metadata"]["uid"]

    await cluster.kubectl("uncordon", cluster.node.name)
    await user.apply(named(by_mps(), "back"))
    await user.wait("pod/back", "--for=condition=Ready")
    await user.delete("pod", "back", "--grace-period=0")
    await user.nothing_prepared()
