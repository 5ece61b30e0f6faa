"""NVIDIA's own programs on simulated nodes."""

from pathlib import Path

import pytest

from harness.toolchain import build_nvidia_tools


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Builds before the first test that needs them: minutes are close to a test's timeout."""
    needed = any("tools" in getattr(item, "fixturenames", ()) for item in session.items)
    if needed and not session.config.option.collectonly:
        capture = session.config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled():
            build_nvidia_tools()


@pytest.fixture(scope="session")
def tools() -> Path:
    """The directory with NVIDIA's programs."""
    return build_nvidia_tools()


@pytest.fixture(autouse=True)
def no_other_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller's shell may have sourced the `env` of a node."""
    for variable in ("GPUSHARING_SIM_STATE", "LD_LIBRARY_PATH", "LD_PRELOAD"):
        monkeypatch.delenv(variable, raising=False)
