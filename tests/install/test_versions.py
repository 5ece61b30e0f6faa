"""From the objects of the first release to a newer version and back, while pods use GPUs and others come and go."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio
import yaml

from gpusharing import __version__
from harness.archives import write_other_image
from harness.eventually import eventually
from harness.installed_cluster import AGENT, NAMESPACE, ROOT, SIMULATED, InstalledCluster
from harness.workloads import claim_spec, pod, template
from image.built import SITE_PACKAGES
from install.churn import RETRIED_WITHIN, come_and_go
from install.running import what_runs
from manifests.stored import FIRST_RELEASE, STORED, has_all_of
from node.user import AnyUser

pytestmark = [pytest.mark.cluster, pytest.mark.node, pytest.mark.asyncio(loop_scope="module")]

IMAGE: Final = "docker.io/library/gpusharing"
NEXT: Final = "99.0.0"
NEXT_FORMAT: Final = 2
# It writes other files on the node, and reads those of before, as each version has to.
CHANGES: Final = {
    "gpusharing/__init__.py": [(f'"{__version__}"', f'"{NEXT}"')],
    "gpusharing/agent/state/files.py": [
        ("FORMAT: Final = 1\n", f"FORMAT: Final = {NEXT_FORMAT}\n"),
        ('if envelope["format"] != FORMAT:', 'if envelope["format"] not in {1, FORMAT}:'),
    ],
}
POLICIES: Final = [item for item in STORED if item["kind"] == "SharingPolicy"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def user(cluster: InstalledCluster) -> AsyncIterator[AnyUser]:
    """With what the first release has left. Its policy of the highest priority is for tenants."""
    for definition in FIRST_RELEASE.glob("*.yaml"):
        await cluster.kubectl("apply", f"--filename={definition}")
    await cluster.kubectl("wait", "--for=condition=Established", "crd", "--all")
    user = AnyUser(cluster)
    await user.apply(*STORED)
    for item in STORED:
        patch = json.dumps({"status": item["status"]})
        address = [item["kind"], item["metadata"]["name"]]
        await cluster.kubectl("patch", *address, "--subresource=status", "--type=merge", f"--patch={patch}")
    await cluster.kubectl("label", "namespace", "default", "team=search")
    yield user


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its manifests."""
    directory = tmp_path_factory.mktemp("newer")
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(SIMULATED, directory)],
        "images": [{"name": "gpusharing", "newName": IMAGE, "newTag": NEXT}],
    }
    (directory / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return directory


def changed_files() -> dict[str, bytes | None]:
    """Without what the image has compiled of them."""
    files: dict[str, bytes | None] = {}
    for name, changes in CHANGES.items():
        code = (ROOT / "operator" / name).read_text()
        for old, new in changes:
            assert code.count(old) == 1, old
            code = code.replace(old, new)
        path = SITE_PACKAGES / name
        files[str(path)] = code.encode()
        for compiled in ("cpython-311.pyc", "cpython-311.opt-2.pyc"):
            files[str(path.parent / "__pycache__" / f"{path.stem}.{compiled}")] = None
    return files


async def agent_version(cluster: InstalledCluster) -> str:
    logged = (await cluster.kubectl("logs", AGENT, f"--namespace={NAMESPACE}", "--container=agent")).splitlines()
    (serving,) = (line for line in map(json.loads, logged) if line["event"] == "serving the kubelet")
    version: str = serving["version"]
    return version


def formats(cluster: InstalledCluster, kind: str) -> set[int]:
    return {json.loads(file.read_bytes())["format"] for file in (cluster.node.state_directory / kind).glob("*.json")}


@asynccontextmanager
async def undisturbed(user: AnyUser, name: str) -> AsyncIterator[None]:
    """Running pods are the same afterwards, and others have come and gone meanwhile."""
    before, done = await what_runs(user), asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        churn = tasks.create_task(come_and_go(user, name, template="share", until=done))
        yield
        done.set()
    assert max(churn.result()) < RETRIED_WITHIN
    await user.wait(*(f"pod/{name}-{number}" for number in range(len(churn.result()))), "--for=delete")
    assert await what_runs(user) == before


async def test_from_the_first_release_to_this_one(user: AnyUser, cluster: InstalledCluster) -> None:
    """The agent comes first, and offers everybody what the operator knows to be the tenants'."""
    installed = yaml.safe_load_all(await cluster.kubectl("kustomize", SIMULATED))
    await user.apply(*(item for item in installed if item["kind"] != "Deployment"))
    await cluster.kubectl("rollout", "status", AGENT, f"--namespace={NAMESPACE}", "--timeout=180s")
    await user.wait("nodesharing/node-1", "--for=jsonpath={.status.gpus[0].pool}=node-1")
    await cluster.apply()
    await user.wait("sharingpolicy/search", "--for=condition=Ready")
    stored = {item["metadata"]["name"]: item for item in (await user.get("sharingpolicies"))["items"]}
    for policy in POLICIES:
        assert has_all_of(stored[policy["metadata"]["name"]]["spec"], policy["spec"])
    await user.apply(template("share", claim_spec("search-timeslicing")), template("mps", claim_spec("search-mps")))
    await user.apply(pod("stays", template="share"))
    await user.wait("pod/stays", "--for=condition=Ready")


async def test_to_a_newer_one(
    user: AnyUser, cluster: InstalledCluster, images: list[Path], newer: Path, tmp_path: Path
) -> None:
    archive, labels = tmp_path / "newer.tar", {"org.opencontainers.image.version": NEXT}
    write_other_image(images[0], archive, name=f"{IMAGE}:{NEXT}", labels=labels, changes=changed_files())
    await cluster.node.import_image(archive)
    assert (await agent_version(cluster), formats(cluster, "claims")) == (__version__, {1})
    async with undisturbed(user, "comes"):
        await cluster.apply(newer)
    assert await agent_version(cluster) == NEXT
    await user.apply(pod("newer", template="mps"))
    await user.wait("pod/newer", "--for=condition=Ready")
    assert NEXT_FORMAT in formats(cluster, "claims") & formats(cluster, "journal")


async def test_back(user: AnyUser, cluster: InstalledCluster) -> None:
    """With files that the older one cannot read: it finds out what they said, and says what it cannot."""
    async with undisturbed(user, "returns"):
        await cluster.apply()
    assert await agent_version(cluster) == __version__

    async def is_told() -> None:
        sharing = (await user.get("nodesharing", "node-1"))["status"]
        (trusted,) = (one for one in sharing["conditions"] if one["type"] == "StateTrusted")
        assert (trusted["status"], trusted["reason"]) == ("False", "FilesPutAside")
        assert "written by a newer agent" in trusted["message"]
        assert "/var/lib/gpusharing/journal/GPU-" in trusted["message"]
        claims = {one["claim"] for one in sharing["claims"]}
        assert claims == {await claim_name(user, "stays"), await claim_name(user, "newer")}

    await eventually(is_told)
    daemons = (await what_runs(user)).daemons
    await user.apply(pod("joins", template="mps"))
    await user.wait("pod/joins", "--for=condition=Ready")
    assert (await what_runs(user)).daemons == daemons


async def claim_name(user: AnyUser, name: str) -> str:
    claim: dict[str, Any] = (await user.claim_of(await user.get("pod", name)))["metadata"]
    return f"{claim['namespace']}/{claim['name']}"


async def test_with_the_definitions_of_the_first_release(user: AnyUser, cluster: InstalledCluster) -> None:
    """Fields that they do not have are dropped when an object is written; nothing else."""
    for definition in FIRST_RELEASE.glob("*.yaml"):
        await cluster.kubectl("apply", f"--filename={definition}")
    async with undisturbed(user, "last"):
        # Each writes its status anew.
        await cluster.kubectl("rollout", "restart", AGENT, f"--namespace={NAMESPACE}")
        await cluster.rolled_out()
    await user.wait("sharingpolicy/search", "--for=condition=Ready")
