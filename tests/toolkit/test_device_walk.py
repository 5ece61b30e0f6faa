"""go-nvlib and nvidia-ml-py, walking over the same nodes, find what our inventory says."""

from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from gpusharing.sim.drivers import KNOWN
from toolkit import nodes, views


@pytest.mark.parametrize("layout", nodes.LAYOUTS)
async def test_same_devices(tmp_path: Path, tools: Path, layout: str) -> None:
    node = nodes.create(tmp_path / "node", layout)
    by_go, by_python = views.of_go_nvlib(node, tools), views.of_nvidia_ml_py(node)
    assert _sorted(by_go) == _sorted(by_python)
    assert _without_what_inventories_lack(by_go) == _sorted(await views.of_inventory(node))


@pytest.mark.parametrize("layout", nodes.LAYOUTS)
def test_whole_instances_have_what_their_profile_says(tmp_path: Path, tools: Path, layout: str) -> None:
    for gpu in views.of_go_nvlib(nodes.create(tmp_path / "node", layout), tools):
        profiles = {profile["name"]: profile for profile in gpu["profiles"]}
        for device in gpu["migDevices"]:
            if device["profile"] in profiles:
                assert device["engines"] == profiles[device["profile"]]["engines"]


@pytest.mark.parametrize("driver", [str(driver.branch) for driver in KNOWN])
async def test_on_every_driver(tmp_path: Path, tools: Path, driver: str) -> None:
    node = nodes.create(tmp_path / "node", "cut", driver=driver)
    expected = await views.of_inventory(node)
    for gpu in expected:
        # go-nvlib has a word for what the driver does not tell yet.
        gpu["addressingMode"] = gpu["addressingMode"] or ""
    assert _without_what_inventories_lack(views.of_go_nvlib(node, tools)) == _sorted(expected)


def _sorted(view: views.View) -> views.View:
    """Which order MIG devices and profiles come in is each one's own affair."""
    return [
        {
            **gpu,
            "profiles": sorted(gpu["profiles"], key=itemgetter("id")),
            "migDevices": sorted(gpu["migDevices"], key=itemgetter("uuid")),
        }
        for gpu in view
    ]


def _without_what_inventories_lack(view: views.View) -> views.View:
    return [{**gpu, "migDevices": [_identity(device) for device in gpu["migDevices"]]} for gpu in _sorted(view)]


def _identity(device: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in device.items() if name not in {"index", "engines"}}
