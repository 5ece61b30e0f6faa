"""What programs in containers can read of their devices. How kubelet and runtime bring it there, tests/node shows."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from agent.samples import prepared_claim, prepared_device
from building import DRIVER
from gpusharing.agent.containers.device_metadata import MetadataFiles
from gpusharing.agent.state.models import PreparedClaim
from gpusharing.api.dra import ResourceClaim
from gpusharing.kube.kinds import RESOURCE_CLAIMS

ATTRIBUTES = {"type": {"string": "gpu"}, "driverVersion": {"version": "580.1.0"}}


def stream(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def files(tmp_path: Path) -> MetadataFiles:
    return MetadataFiles(tmp_path, DRIVER)


def claim(name: str, **annotations: str) -> ResourceClaim:
    metadata = {"name": name, "namespace": "ml", "uid": "u", "annotations": annotations}
    found: ResourceClaim = RESOURCE_CLAIMS.from_json({"metadata": metadata})
    return found


@pytest.mark.parametrize(
    ("given", "request_", "path"),
    [
        (claim("train"), "gpu", f"resourceclaims/train/gpu/{DRIVER}-metadata.json"),
        (claim("train"), "gpu/large", f"resourceclaims/train/gpu/{DRIVER}-metadata.json"),
        (
            claim("pod-gpus-x7f2k", **{"resource.kubernetes.io/pod-claim-name": "gpus"}),
            "gpu",
            f"resourceclaimtemplates/gpus/gpu/{DRIVER}-metadata.json",
        ),
        *(
            (
                claim("train", **{"resource.kubernetes.io/pod-claim-name": name}),
                "gpu",
                f"resourceclaims/train/gpu/{DRIVER}-metadata.json",
            )
            for name in (
                "",
                "../../etc",
                "/abs",
                "a/b",
                "..",
                "a\nb",
                "A",
                "-a",
                "a" * 64,
                "😀" + "a" * 255_000,
                "\x00",
            )
        ),
    ],
)
def test_where_containers_find_it(files: MetadataFiles, given: ResourceClaim, request_: str, path: str) -> None:
    mount = files.mount(given, request_)
    assert mount.path == f"/var/run/kubernetes.io/dra-device-attributes/{path}"
    assert mount.file.endswith("/u/gpu.json")


def two_requests() -> PreparedClaim:
    devices = (
        prepared_device("gpu-0", request="a/big"),
        prepared_device("gpu-1", uuid="GPU-n1-1", request="b"),
        prepared_device("gpu-2", uuid="GPU-n1-2", request="b"),
    )
    return prepared_claim("train", *devices).model_copy(update={"pod_claim_name": "gpus"})


def test_each_request_has_its_devices_in_every_version(files: MetadataFiles, tmp_path: Path) -> None:
    prepared = two_requests()
    files.write(prepared, [ATTRIBUTES, ATTRIBUTES, {}])
    assert files.claims() == [prepared.uid]
    told = stream(tmp_path / prepared.uid / "b.json")
    assert [one.pop("apiVersion") for one in told] == [
        "metadata.resource.k8s.io/v1beta1",
        "metadata.resource.k8s.io/v1alpha1",
    ]
    devices = [
        {"driver": DRIVER, "pool": "n1", "name": "gpu-1", "attributes": ATTRIBUTES},
        {"driver": DRIVER, "pool": "n1", "name": "gpu-2", "attributes": {}},
    ]
    expected = {
        "kind": "DeviceMetadata",
        "metadata": {"name": prepared.name, "namespace": prepared.namespace, "uid": prepared.uid, "generation": 1},
        "podClaimName": "gpus",
        "requests": [{"name": "b", "devices": devices}],
    }
    assert told == [expected, expected]
    (first, _) = stream(tmp_path / prepared.uid / "a.json")
    assert [request["name"] for request in first["requests"]] == ["a/big"]
    assert (tmp_path / prepared.uid / "a.json").stat().st_mode & 0o777 == 0o644


def test_written_once_and_gone_with_the_claim(files: MetadataFiles, tmp_path: Path) -> None:
    prepared = two_requests()
    attributes = [ATTRIBUTES] * 3
    files.write(prepared, attributes)
    path = tmp_path / prepared.uid / "b.json"
    before = path.stat().st_ino
    files.write(prepared, attributes)
    assert path.stat().st_ino == before
    path.write_text("damaged")
    files.write(prepared, attributes)
    assert len(stream(path)) == 2
    files.delete(prepared.uid)
    files.delete(prepared.uid)
    assert (files.claims(), files.has(prepared.uid)) == ([], False)


@pytest.mark.parametrize("is_on", [True, False])
def test_with_selinux_containers_may_read_it(tmp_path: Path, is_on: bool) -> None:
    if is_on:
        (tmp_path / "sys/fs/selinux").mkdir(parents=True)
        (tmp_path / "sys/fs/selinux/enforce").write_text("1")
    files = MetadataFiles(tmp_path / "metadata", DRIVER, sysfs=tmp_path / "sys")
    prepared = two_requests()
    files.write(prepared, [ATTRIBUTES, ATTRIBUTES, {}])
    file = tmp_path / "metadata" / prepared.uid / "b.json"
    labels = [os.getxattr(file, name) for name in os.listxattr(file) if name == "security.selinux"]
    assert labels == ([b"system_u:object_r:container_file_t:s0\0"] if is_on else [])
