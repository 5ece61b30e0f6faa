"""Every MIG profile and placement of every model, through our layer, against NVIDIA's published tables."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from gpusharing import sim
from gpusharing.nvidia.facts import Change, MigPlace, Span
from nvidia.nodes import opened, uuid

_CASES: Final = json.loads((Path(__file__).parents[1] / "sim/cases/mig-profiles.json").read_text())

_MODELS: Final = {
    "A30": "A30-24GB",
    "A100-40GB": "A100-40GB",
    "A100-80GB": "A100-80GB",
    "H100-80GB": "H100-80GB",
    "H100-NVL": "H100-NVL-94GB",
    "H200": "H200-141GB",
    "B200": "B200-180GB",
    "RTX-PRO-6000": "RTXPRO6000-Blackwell-96GB",
}


def published(model: str) -> list[dict[str, Any]]:
    (gpu,) = [gpu for gpu in _CASES["gpus"] if gpu["key"] == _MODELS[model]]
    return list(gpu["profiles"])


def test_no_model_is_forgotten() -> None:
    assert sorted(_MODELS) == sorted(name for name, model in sim.MODELS.items() if model.mig_capable)
    assert sorted(_MODELS.values()) == sorted(gpu["key"] for gpu in _CASES["gpus"])


@pytest.mark.parametrize("model", _MODELS)
async def test_profiles(tmp_path: Path, model: str) -> None:
    node = sim.create(tmp_path / "node", model)
    async with opened(node) as hardware:
        (board,) = (await hardware.inventory()).boards
    assert board.mig is not None
    found = {profile.name: profile for profile in board.mig.profiles}
    cases = published(model)
    assert sorted(found) == sorted(case["name"] for case in cases)
    for case in cases:
        profile = found[case["name"]]
        expected = {
            "id": (profile.id, case["id"]),
            "slices": (profile.slices, case["compute_slices"]),
            "size": (profile.size, case["memory_slices"]),
            "starts": (list(profile.starts), [place["start"] for place in case["placements"]]),
            "memory": (profile.memory_mib, case["memory_mib"]),
            "multiprocessors": (profile.engines.multiprocessors, case["multiprocessors"]),
            "copy engines": (profile.engines.copy_engines, case["copy_engines"]),
            "decoders": (profile.engines.decoders, case["decoders"]),
            "encoders": (profile.engines.encoders, case["encoders"]),
            "jpeg": (profile.engines.jpeg_engines, case["jpeg"]),
            "ofa": (profile.engines.ofa_engines, case["ofa"]),
        }
        for what, (ours, theirs) in expected.items():
            # Where nothing is published, the simulation guesses.
            assert theirs is None or ours == theirs, what


@pytest.mark.parametrize("model", _MODELS)
async def test_placements(tmp_path: Path, model: str) -> None:
    """Each is made, found by whoever looks, found again when asked for again, and destroyed without a trace."""
    node = sim.create(tmp_path / "node", model)
    gpu = uuid(node)
    async with opened(node) as hardware:
        await hardware.set_mig_mode(gpu, enabled=True)
        for case in published(model):
            for place in case["placements"]:
                where = MigPlace(case["id"], place["start"])
                made = await hardware.create_mig_instance(gpu, where)
                assert made.found is None
                assert made.now is not None
                assert made.now.place == where
                assert (made.now.profile, made.now.span) == (case["name"], Span(place["start"], place["size"]))
                assert await hardware.create_mig_instance(gpu, where) == Change(made.now, made.now)

                (real,) = node.gpus()[0].gpu_instances
                assert (real.id, real.profile, real.start, real.size) == (
                    made.now.id,
                    case["name"],
                    place["start"],
                    place["size"],
                )
                (device,) = real.compute_instances
                assert (device.uuid, device.size) == (made.now.uuid, case["compute_slices"])
                assert (await hardware.inventory()).gpus[0].instances == (made.now,)

                destroyed = await hardware.destroy_mig_instance(gpu, where)
                assert (destroyed.found, destroyed.now) == (made.now, None)
                assert not (await hardware.destroy_mig_instance(gpu, where)).changed
                assert node.gpus()[0].gpu_instances == ()
