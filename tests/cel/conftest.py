import pytest

from harness.toolchain import build_cel_oracles


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Builds the oracles before the first test that asks them: minutes are more than a test's timeout."""
    needed = any(item.get_closest_marker("cluster") and "cel" in item.path.parts for item in session.items)
    if needed and not session.config.option.collectonly:
        capture = session.config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled():
            build_cel_oracles()
