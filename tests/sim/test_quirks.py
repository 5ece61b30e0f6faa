"""What is peculiar about a node: said in the documentation, in the state, and each for a reason."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pynvml
import pytest

from gpusharing import sim
from gpusharing.sim import Quirk, SimError
from gpusharing.sim.quirks import NONE, parse_quirks
from sim import calls
from sim.conftest import UseNvml

PAGE = (Path(__file__).parents[2] / "docs/simulation.md").read_text()
SOURCES = Path(sim.__file__).parent


def test_every_quirk_is_documented() -> None:
    assert re.findall(r"^\| `([\w-]+)` \| [^|]+ \|$", PAGE.partition("### Quirks")[2], re.MULTILINE) == [
        quirk.option for quirk in Quirk
    ]


def test_every_quirk_is_used() -> None:
    text = "".join(
        file.read_text() for file in SOURCES.rglob("*.*") if file.suffix in {".c", ".py"} and file.name != "quirks.py"
    )
    used = {quirk for quirk in Quirk if re.search(rf"\b(QUIRK_|Quirk\.){quirk.name}\b", text)}
    assert used == set(Quirk)


@pytest.mark.parametrize(
    ("text", "quirks"),
    [
        ("", NONE),
        ("slow-nvml", Quirk.SLOW_NVML),
        ("slow-nvml,timeslice-unreadable", Quirk.SLOW_NVML | Quirk.TIMESLICE_UNREADABLE),
        (",".join(quirk.option for quirk in Quirk), ~NONE),
    ],
)
def test_as_they_are_written(tmp_path: Path, text: str, quirks: Quirk) -> None:
    assert parse_quirks(text) == quirks
    assert sim.create(tmp_path / "node", "L4", quirks=quirks).quirks == quirks
    assert sim.SimNode.open(tmp_path / "node").quirks == quirks


def test_what_is_no_quirk_is_refused() -> None:
    with pytest.raises(SimError, match=r"unknown quirk 'slow': known are host-libc, .*slow-nvml"):
        parse_quirks("slow")


@pytest.mark.usefixtures("root")
def test_quirks_outlive_a_reboot(tmp_path: Path) -> None:
    node = sim.create(tmp_path / "node", "L4", quirks=Quirk.SLOW_NVML)
    node.reboot()
    assert node.quirks == Quirk.SLOW_NVML


@pytest.mark.usefixtures("root")
def test_slow_nvml(tmp_path: Path, use_nvml: UseNvml) -> None:
    """Changes of MIG take their time; what only asks does not, also while they do."""
    node = sim.create(tmp_path / "node", "H100-80GB", quirks=Quirk.SLOW_NVML)
    use_nvml(node)
    began = time.monotonic()
    gpu = calls.gpu(0)
    pynvml.nvmlDeviceGetMigMode(gpu)
    assert time.monotonic() - began < 1
    calls.enable_mig(0)
    assert 1.9 < time.monotonic() - began < 4
