"""k9s takes our views and plugins: by its own schemas, and with commands that exist."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from contrib.k9s import FOLDER, paths, plugins, views
from gpusharing.cli import explain
from gpusharing.cli.main import _COMMANDS
from harness.foreign_modules import Module

SCHEMAS: Final = "internal/config/json/schemas"


def checked(helm: Path, schema: Path, file: Path, folder: Path) -> str:
    """Helm knows JSON schemas: it looks at values by the one of their chart. Empty: they are as it says."""
    chart = folder / "chart"
    (chart / "templates").mkdir(parents=True, exist_ok=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: k9s\nversion: 0.0.0\n")
    described: dict[str, Any] = json.loads(schema.read_text())
    # Helm adds it.
    described["properties"]["global"] = {}
    (chart / "values.schema.json").write_text(json.dumps(described))
    command: list[str | Path] = [helm, "template", "k9s", chart, "--values", file]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else ""


@pytest.mark.cluster
@pytest.mark.parametrize("name", ["views", "plugins"])
def test_it_is_as_the_schema_says(
    name: str, foreign_modules: Mapping[Module, Path], helm: Path, tmp_path: Path
) -> None:
    schema = foreign_modules[Module.K9S] / SCHEMAS / f"{name}.json"
    file = FOLDER / f"{name}.yaml"
    assert checked(helm, schema, file, tmp_path) == ""
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(file.read_text().replace("columns:", "colums:").replace("shortCut:", "key:"))
    assert "missing propert" in checked(helm, schema, wrong, tmp_path)


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
