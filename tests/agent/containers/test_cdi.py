"""Our CDI specs, as container runtimes read them."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.samples import prepared_device
from gpusharing import sim
from gpusharing.agent.containers.cdi import CdiDirectory, UnresolvableError, environment, our_device
from gpusharing.agent.state.models import PreparedDevice
from gpusharing.api.sharing.device_settings import MpsSettings
from gpusharing.api.sharing.offers import Interval
from gpusharing.nvidia.cdi_specs import CdiSpecs, nvidia_device
from gpusharing.nvidia.facts import DeviceNode

UID = "3f1c8f0e-6a0d-4a55-9d0c-7f0f3a1d0b11"


def spec_file(directory: Path, uid: str = UID) -> Path:
    return directory / f"gpusharing.dev-claim_{uid}.json"


def assert_valid(spec: Any) -> None:
    """The rules of CDI 0.5.0 (pkg/cdi and pkg/parser of the reference implementation)."""
    assert set(spec) == {"cdiVersion", "kind", "devices"}
    assert spec["cdiVersion"] == "0.5.0"
    vendor, _, class_ = spec["kind"].partition("/")
    assert re.fullmatch(r"[A-Za-z]([A-Za-z0-9._-]*[A-Za-z0-9])?", vendor)
    # A dot in the class would need version 0.6.0.
    assert re.fullmatch(r"[A-Za-z]([A-Za-z0-9_-]*[A-Za-z0-9])?", class_)
    names = [device["name"] for device in spec["devices"]]
    assert names
    assert len(names) == len(set(names))
    for device in spec["devices"]:
        assert set(device) == {"name", "containerEdits"}
        assert re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._:-]*[A-Za-z0-9])?", device["name"])
        assert set(device["containerEdits"]) == {"env"}
        assert device["containerEdits"]["env"]
        for variable in device["containerEdits"]["env"]:
            assert re.fullmatch(r"[A-Z_][A-Z0-9_]*=[^\0\n]+", variable)


def test_spec_is_valid_and_has_the_names_that_the_kubelet_gets(tmp_path: Path) -> None:
    cdi = CdiDirectory(CdiSpecs((tmp_path,)))
    devices = (
        prepared_device("gpu-0-timeslicing", interval=Interval.MEDIUM),
        prepared_device("gpu-0-timeslicing", interval=Interval.MEDIUM, request="other"),
        prepared_device("gpu-12", uuid="GPU-n1-12"),
    )
    cdi.write(UID, devices)
    spec = json.loads(spec_file(tmp_path).read_bytes())
    assert_valid(spec)
    names = [f"{spec['kind']}={device['name']}" for device in spec["devices"]]
    assert names == [our_device(UID, index) for index in range(3)]
    assert cdi.claims() == [UID]
    assert [path.name for path in tmp_path.iterdir()] == [spec_file(tmp_path).name]


def alone(device: PreparedDevice) -> list[str]:
    """Of a claim with one device."""
    return environment(device, [device])


def test_two_gpus_of_a_claim_with_mps_say_the_same() -> None:
    """A container has each variable once, so the limit of one GPU must not take the place of the other's."""
    devices = [with_mps("gpu-1", "GPU-b", memory=2048, threads=50), with_mps("gpu-0", "GPU-a", memory=1024, threads=20)]
    for device in devices:
        variables = dict(line.split("=", 1) for line in environment(device, devices))
        # By their places among the GPUs of their daemon.
        assert variables["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=1024M,1=2048M"
        assert variables["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "50"


def with_mps(name: str, uuid: str, *, memory: int, threads: int) -> PreparedDevice:
    device = prepared_device(name, uuid=uuid)
    mps = MpsSettings(memory=memory, threads=threads, most_threads=threads)
    return device.model_copy(
        update={
            "settings": device.settings.model_copy(update={"mps": mps}),
            "mps_pipe": "/run/gpusharing/uid/clients",
            "mps_shm": "/run/gpusharing/uid/shm",
        }
    )


def test_sockets_of_mps_can_be_used_and_not_replaced(tmp_path: Path) -> None:
    cdi = CdiDirectory(CdiSpecs((tmp_path,)))
    cdi.write(UID, (with_mps("gpu-0", "GPU-a", memory=1024, threads=20),))
    (device,) = json.loads(spec_file(tmp_path).read_bytes())["devices"]
    assert {mount["containerPath"]: mount["options"] for mount in device["containerEdits"]["mounts"]} == {
        "/tmp/nvidia-mps": ["ro", "nosuid", "nodev", "noexec", "bind"],
        "/dev/shm": ["rw", "nosuid", "nodev", "noexec", "bind"],
    }


def test_devices_of_several_claims_stand_side_by_side_in_one_container() -> None:
    shared = alone(prepared_device("gpu-0-timeslicing", interval=Interval.MEDIUM))
    whole = alone(prepared_device("gpu-1", uuid="GPU-n1-1"))
    tuned = alone(prepared_device("gpu-10", uuid="GPU-n1-10", interval=Interval.LONG))
    # The runtime merges them in any order: later values replace earlier ones of the same name.
    assert dict(variable.split("=") for variable in (*shared, *whole, *tuned)) == {
        "GPUSHARING_GPU_0": "GPU-n1-0",
        "GPUSHARING_GPU_0_SHARING": "TimeSlicing",
        "GPUSHARING_GPU_0_INTERVAL": "Medium",
        "GPUSHARING_GPU_1": "GPU-n1-1",
        "GPUSHARING_GPU_1_SHARING": "Exclusive",
        "GPUSHARING_GPU_10": "GPU-n1-10",
        "GPUSHARING_GPU_10_SHARING": "Exclusive",
        "GPUSHARING_GPU_10_INTERVAL": "Long",
    }
    # A second share of the same GPU says the same, also under another name.
    for name in ("gpu-0-timeslicing", "gpu-0r1-timeslicing"):
        assert alone(prepared_device(name, interval=Interval.MEDIUM, request="x")) == shared


def test_spec_is_written_once_and_mended(tmp_path: Path) -> None:
    cdi = CdiDirectory(CdiSpecs((tmp_path,)))
    cdi.write(UID, (prepared_device(),))
    file = spec_file(tmp_path)
    good, before = file.read_bytes(), file.stat()
    cdi.write(UID, (prepared_device(),))
    assert file.stat().st_ino == before.st_ino
    # What a power cut leaves of a file that was not synced.
    file.write_bytes(b"")
    cdi.write(UID, (prepared_device(),))
    assert file.read_bytes() == good
    cdi.delete(UID)
    cdi.delete(UID)
    assert list(tmp_path.iterdir()) == []


def test_leftovers_of_a_killed_agent_go_and_files_of_others_stay(tmp_path: Path) -> None:
    ours = tmp_path / f".{spec_file(tmp_path).name}.4711.tmp"
    theirs = tmp_path / ".nvidia.yaml.4711.tmp"
    for file in (ours, theirs):
        file.write_text("{")
    assert CdiDirectory(CdiSpecs((tmp_path,))).claims() == []
    assert list(tmp_path.iterdir()) == [theirs]


def required(cdi: CdiDirectory, uuid: str = "GPU-a", *, minor: int = 0, is_instance: bool = False) -> tuple[str, ...]:
    return cdi.devices(UID, 0, uuid=uuid, minor=minor, is_instance=is_instance)


OURS = our_device(UID, 0)
DEVICES = [{"name": name, "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}]}} for name in ("0", "GPU-a")]


@pytest.mark.parametrize("format_", ["json", "yaml"])
@pytest.mark.parametrize("place", [0, 1], ids=["first directory", "second directory"])
def test_name_resolves(tmp_path: Path, format_: str, place: int) -> None:
    directories = (tmp_path / "run", tmp_path / "etc")
    for directory in directories:
        directory.mkdir()
    spec = {"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": DEVICES}
    text = json.dumps(spec) if format_ == "json" else yaml.safe_dump(spec)
    (directories[place] / f"nvidia.{format_}").write_text(text)
    cdi = CdiDirectory(CdiSpecs(directories))
    assert required(cdi) == ("nvidia.com/gpu=GPU-a", OURS) == (nvidia_device("GPU-a"), OURS)
    assert required(cdi, is_instance=True) == required(cdi)
    with pytest.raises(UnresolvableError, match="GPU-b"):
        required(cdi, "GPU-b")


def test_simulated_node_has_what_we_require(node: sim.SimNode, tmp_path: Path) -> None:
    cdi = CdiDirectory(CdiSpecs((tmp_path, node.cdi)))
    for gpu in node.gpus():
        required(cdi, gpu.uuid, minor=gpu.minor)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("nvidia.txt", json.dumps({"kind": "nvidia.com/gpu", "devices": DEVICES})),
        ("nvidia.json", json.dumps({"kind": "amd.com/gpu", "devices": DEVICES})),
        ("nvidia.json", "{"),
        ("nvidia.json", "[]"),
        ("nvidia.json", json.dumps({"kind": "nvidia.com/gpu", "devices": None})),
        ("nvidia.json", json.dumps({"kind": "nvidia.com/gpu", "devices": ["GPU-a"]})),
        ("nvidia.yaml", "kind: nvidia.com/gpu\ndevices: [}"),
        ("nvidia.yaml", ""),
    ],
)
def test_what_is_no_spec_resolves_nothing(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    remedy = "has the device nvidia.com/gpu=GPU-a: run `nvidia-ctk cdi generate`"
    with pytest.raises(UnresolvableError, match=f"no CDI spec in {tmp_path}, {tmp_path}/absent {remedy}"):
        required(CdiDirectory(CdiSpecs((tmp_path, tmp_path / "absent"))))


def test_our_own_specs_prove_nothing(tmp_path: Path) -> None:
    spec_file(tmp_path).write_text(json.dumps({"kind": "nvidia.com/gpu", "devices": DEVICES}))
    with pytest.raises(UnresolvableError):
        required(CdiDirectory(CdiSpecs((tmp_path,))))


def test_spec_that_changes_is_read_again(tmp_path: Path) -> None:
    cdi = CdiDirectory(CdiSpecs((tmp_path,)))
    file = tmp_path / "nvidia.json"
    spec = {"kind": "nvidia.com/gpu", "devices": DEVICES}
    file.write_text(json.dumps(spec))
    required(cdi)
    file.write_text(json.dumps(spec | {"devices": DEVICES[:1]}))
    # The clock of the file system is coarser than this test is fast.
    os.utime(file, ns=(1, 1))
    with pytest.raises(UnresolvableError):
        required(cdi)
    file.unlink()
    with pytest.raises(UnresolvableError):
        required(cdi, "0")


def test_a_spec_of_before_the_numbers_changed_is_not_trusted(tmp_path: Path) -> None:
    """A switch of MIG mode or a new load of the driver may give a GPU another number."""
    (tmp_path / "nvidia.json").write_text(json.dumps({"kind": "nvidia.com/gpu", "devices": DEVICES}))
    cdi = CdiDirectory(CdiSpecs((tmp_path,)))
    for is_instance in (False, True):
        with pytest.raises(
            UnresolvableError, match="has /dev/nvidia0, which is another GPU now: this one is /dev/nvidia1"
        ):
            required(cdi, minor=1, is_instance=is_instance)


COMMON = {"env": ["NVIDIA_VISIBLE_DEVICES=void"], "mounts": [{"hostPath": "/lib/a", "containerPath": "/lib/a"}]}


def test_an_instance_of_a_gpu_that_nvidias_specs_do_not_have(tmp_path: Path) -> None:
    written = {"cdiVersion": "0.7.0", "kind": "nvidia.com/gpu", "devices": [], "containerEdits": COMMON}
    (tmp_path / "nvidia.json").write_text(json.dumps(written))
    cdi = CdiDirectory(CdiSpecs((tmp_path,)))
    with pytest.raises(UnresolvableError, match="has the device"):
        required(cdi)
    assert required(cdi, is_instance=True) == (OURS,)
    gpu = DeviceNode(path="/dev/nvidia0", major=195, minor=0, mode=0o666)
    device = prepared_device("gpu-0-mig-3g40gb-9-4", device_nodes=(gpu,)).model_copy(update={"cdi_devices": (OURS,)})
    cdi.write(UID, (device,))
    spec = json.loads(spec_file(tmp_path).read_bytes())
    assert (spec["cdiVersion"], spec["kind"], spec["containerEdits"]) == ("0.7.0", "gpusharing.dev/claim", COMMON)
    [node] = spec["devices"][0]["containerEdits"]["deviceNodes"]
    assert (node["path"], node["major"], node["minor"]) == ("/dev/nvidia0", 195, 0)
    # Without them a container would start, and find no libraries.
    (tmp_path / "nvidia.json").unlink()
    with pytest.raises(UnresolvableError, match="no CDI spec of NVIDIA's is left: run `nvidia-ctk cdi generate`"):
        cdi.write(UID, (device,))
