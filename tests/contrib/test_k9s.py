"""k9s takes our views and plugins: by its own schemas, and with commands that exist."""

import json
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from contrib.k9s import FOLDER, paths, plugins, views
from gpusharing.cli import explain
from gpusharing.cli.main import _COMMANDS
from harness.toolchain import GoModule, download

pytestmark = pytest.mark.cluster

K9S: Final = GoModule("github.com/derailed/k9s", "v0.51.0", "h1:do0fkB1JuN9uURg6bH99I/6phINeFmaGJcldWn8GwSY=")
SCHEMAS: Final = "internal/config/json/schemas"


@pytest.fixture(scope="module")
def schemas() -> Path:
    (folder,) = download([K9S])
    return folder / SCHEMAS


def checked(helm: Path, schema: Path, file: Path, folder: Path) -> str:
    """Helm knows JSON schemas: it looks at values by the one of their chart. Empty: they are as it says."""
    chart = folder / "chart"
    (chart / "templates").mkdir(parents=True, exist_ok=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: k9s\nversion: 0.0.0\n")
    described: dict[str, Any] = json.loads(schema.read_text())
    # Helm adds it.
    described["properties"]["global"] = {}
    (chart / "values.schema.json").write_text(json.dumps(described))
    command = [helm, "template", "k9s", chart, "--values", file]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else ""


@pytest.mark.parametrize("name", ["views", "plugins"])
def test_it_is_as_the_schema_says(name: str, schemas: Path, helm: Path, tmp_path: Path) -> None:
    file = FOLDER / f"{name}.yaml"
    assert checked(helm, schemas / f"{name}.json", file, tmp_path) == ""
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(file.read_text().replace("columns:", "colums:").replace("shortCut:", "key:"))
    assert "missing propert" in checked(helm, schemas / f"{name}.json", wrong, tmp_path)


def test_plugins_call_commands_that_exist() -> None:
    for plugin in plugins().values():
        assert plugin["args"][1].startswith("kubectl gpusharing ")
        assert plugin["args"][1].split()[2] in _COMMANDS


def test_explain_knows_what_it_is_called_with() -> None:
    assert set(plugins()["gpusharing-explain"]["scopes"]) <= explain._KINDS.keys()


def test_a_key_does_one_thing_in_a_view() -> None:
    keys = [(plugin["shortCut"], scope) for plugin in plugins().values() for scope in plugin["scopes"]]
    assert len(set(keys)) == len(keys)


def test_the_page_names_all_views_and_keys() -> None:
    page = (FOLDER / "README.md").read_text()
    assert all(f"| {plugin['shortCut']} |" in page for plugin in plugins().values())
    for resource, columns in views().items():
        assert f"| `:{resource.rpartition('/')[2]}` |" in page
        assert paths(columns) or resource.endswith("sharingpolicies")
