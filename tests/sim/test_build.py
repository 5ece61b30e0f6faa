from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpusharing import sim
from gpusharing.sim import build, drivers


@pytest.mark.slow
def test_two_builds_at_once(tmp_path: Path) -> None:
    """In an empty home both compile; both end with the one finished result and leave nothing else behind."""
    command = [sys.executable, "-c", "from gpusharing.sim.build import build; print(build())"]
    environment = {**os.environ, "HOME": str(tmp_path)}
    builders = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    outputs = [builder.communicate(timeout=200) for builder in builders]

    assert [builder.returncode for builder in builders] == [0, 0], outputs
    (first, _), (second, _) = outputs
    assert first == second
    cache = tmp_path / ".cache/gpusharing/sim"
    assert [str(entry) for entry in cache.iterdir()] == [first.strip()]
    assert {file.name for file in Path(first.strip()).iterdir()} == {
        "libgpusharing-sim.so",
        "libcuda.so",
        *(build.library_of(driver) for driver in drivers.KNOWN),
        "node_state.h",
        *build.PROGRAMS,
    }


def test_second_build_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    first = build.build()
    monkeypatch.setattr(build, "_compile", lambda _: pytest.fail("compiled again"))
    assert build.build() == first


def test_no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(sim.SimError, match="apt-get install gcc"):
        build.build()


def test_compiler_errors_are_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sources = tmp_path / "csrc"
    (sources / "nvml").mkdir(parents=True)
    (sources / "nvml/broken.c").write_text("int broken(void) { return missing; }\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(build, "SOURCES", sources)
    with pytest.raises(sim.SimError, match="missing"):
        build.build()
    assert list((tmp_path / ".cache/gpusharing/sim").iterdir()) == []
