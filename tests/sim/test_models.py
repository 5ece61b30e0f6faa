"""The models against NVIDIA's published tables, and through the library as nvidia-ml-py reads them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pynvml as nvml
import pytest

from gpusharing import sim
from sim import calls
from sim.conftest import UseNvml

CASES = json.loads((Path(__file__).parent / "cases/mig-profiles.json").read_text())

TABLES = {
    "A30": "A30-24GB",
    "A100-40GB": "A100-40GB",
    "A100-80GB": "A100-80GB",
    "H100-80GB": "H100-80GB",
    "H100-NVL": "H100-NVL-94GB",
    "H200": "H200-141GB",
    "B200": "B200-180GB",
    "RTX-PRO-6000": "RTXPRO6000-Blackwell-96GB",
}

MEDIA = ("default", "one", "all", "none")


def table(model: str) -> dict[str, Any]:
    found: dict[str, Any] = next(gpu for gpu in CASES["gpus"] if gpu["key"] == TABLES[model])
    return found


def test_every_table_has_its_model() -> None:
    assert set(TABLES.values()) == {gpu["key"] for gpu in CASES["gpus"]}
    assert {name for name, model in sim.MODELS.items() if model.mig_capable} == set(TABLES)


@pytest.mark.parametrize("name", TABLES)
def test_boards(name: str) -> None:
    model, published = sim.MODELS[name], table(name)
    assert model.product_name in published["products"]
    assert f"{model.pci_device_id:#06x}10DE".upper().replace("X", "x") in published["pci_device_ids"]
    assert model.architecture.name.lower() == published["architecture"]
    assert ".".join(map(str, model.compute_capability)) == published["compute_capability"]
    assert model.memory_mib == published["total_memory_mib"]
    assert model.driver >= int(published["min_driver"].split(".")[0])
    assert model.max_mig_devices == published["compute_slices"]
    if published["mig_toggle_needs_reset"] is not None:
        assert model.mig_mode_needs_reset == published["mig_toggle_needs_reset"]
        assert model.mig_mode_persists == published["mig_mode_persists_reboot"]


@pytest.mark.parametrize("name", TABLES)
def test_profiles(name: str) -> None:
    profiles = {profile.name: profile for profile in sim.MODELS[name].mig_profiles}
    published = {row["name"]: row for row in table(name)["profiles"]}
    assert profiles.keys() == published.keys()
    for row in published.values():
        profile = profiles[row["name"]]
        shape = profile.shape
        known = {
            "nvml_profile_enum": shape.kind,
            "id": shape.id,
            "compute_slices": shape.slices,
            "max_instances": shape.max_instances,
            "memory_mib": profile.memory_mib,
            "multiprocessors": shape.multiprocessors,
            "copy_engines": shape.copy_engines,
            "decoders": shape.decoders,
            "encoders": shape.encoders,
            "jpeg": shape.jpegs,
            "ofa": shape.ofas,
            "media_extensions": MEDIA[profile.media],
            "graphics": profile.graphics,
            "placements": [{"start": start, "size": shape.memory_slices} for start in sorted(shape.starts)],
        }
        # Null is what NVIDIA has not published.
        assert known == {key: row[key] if row[key] is not None else known[key] for key in known}
        assert profile.memory_mib <= sim.MODELS[name].memory_mib


@pytest.mark.parametrize("name", TABLES)
def test_names_are_those_that_nvidias_programs_compute(name: str) -> None:
    """go-nvlib and the device plugin make a profile's name from its memory and the GPU's."""
    model = sim.MODELS[name]
    whole_gib = math.ceil(model.memory_mib / 1024)
    for profile in model.mig_profiles:
        eighths = math.ceil(profile.memory_mib / model.memory_mib * 8)
        gigabytes = math.floor(eighths / 8 * whole_gib + 0.5)
        assert profile.name.split("+")[0].split("-")[0] == f"{profile.shape.slices}g.{gigabytes}gb"


@pytest.mark.parametrize("name", TABLES)
def test_compute_profiles(name: str) -> None:
    """In what numbers they fit, and that no smaller one has more than the whole."""
    family = f"family_{sim.MODELS[name].max_mig_devices}"
    published = CASES["compute_instance_profiles_by_gi_slices"][family]
    for profile in sim.MODELS[name].mig_profiles:
        whole = profile.shape.slices
        assert [[each.slices, len(each.starts)] for each in profile.compute_profiles] == published[str(whole)]
        for each in profile.compute_profiles:
            assert each.name == (profile.name if each.slices == whole else f"{each.slices}c.{profile.name}")
            assert each.multiprocessors * len(each.starts) <= profile.shape.multiprocessors
            assert all(start + each.slices <= whole for start in each.starts)


@pytest.mark.parametrize("name", TABLES)
def test_through_nvml(name: str, tmp_path: Path, use_nvml: UseNvml) -> None:
    node = sim.create(tmp_path / "node", name)
    use_nvml(node)
    gpu = calls.gpu()
    rows = {row["name"]: row for row in table(name)["profiles"]}
    models = {profile.name: profile for profile in sim.MODELS[name].mig_profiles}
    read = list(calls.profiles(gpu))
    assert {info.name for info in read} == rows.keys()
    for info in read:
        shape = models[info.name].shape
        assert (info.id, info.sliceCount, info.instanceCount) == (shape.id, shape.slices, shape.max_instances)
        assert (info.memorySizeMB, info.isP2pSupported) == (models[info.name].memory_mib, 0)
        engines = (info.copyEngineCount, info.decoderCount, info.encoderCount, info.jpegCount, info.ofaCount)
        assert (info.multiprocessorCount, *engines) == shape[6:]
        assert calls.placements(gpu, info.id) == [
            (placement["start"], placement["size"]) for placement in rows[info.name]["placements"]
        ]
    assert [info.id for info in calls.profiles(gpu, version=1)] == [info.id for info in read]


@pytest.mark.parametrize("name", TABLES)
def test_compute_profiles_through_nvml(name: str, tmp_path: Path, use_nvml: UseNvml) -> None:
    use_nvml(sim.create(tmp_path / "node", name))
    gpu = calls.enable_mig()
    for profile in sim.MODELS[name].mig_profiles:
        instance = calls.place(gpu, profile.name, min(profile.shape.starts))
        read = list(_compute_profiles(instance))
        assert [
            (info.id, info.name, info.sliceCount, info.instanceCount, info.multiprocessorCount) for info in read
        ] == [
            (each.kind, each.name, each.slices, len(each.starts), each.multiprocessors)
            for each in profile.compute_profiles
        ]
        assert {(info.sharedCopyEngineCount, info.sharedDecoderCount, info.sharedOfaCount) for info in read} == {
            (profile.shape.copy_engines, profile.shape.decoders, profile.shape.ofas)
        }
        nvml.nvmlGpuInstanceDestroy(instance)


def _compute_profiles(instance: calls.Handle) -> Iterator[Any]:
    for number in range(1000):
        try:
            yield nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, number, 0, version=2)
        except nvml.NVMLError_NotSupported:
            continue
        except nvml.NVMLError_InvalidArgument:
            return
