"""The files of contrib/k9s."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

FOLDER: Final = Path(__file__).parents[2] / "contrib/k9s"


def views() -> Mapping[str, Sequence[str]]:
    """Columns, by group, version and resource."""
    found = yaml.safe_load((FOLDER / "views.yaml").read_text())["views"]
    return {resource: view["columns"] for resource, view in found.items()}


def plugins() -> Mapping[str, Mapping[str, Any]]:
    found: Mapping[str, Mapping[str, Any]] = yaml.safe_load((FOLDER / "plugins.yaml").read_text())["plugins"]
    return found


def paths(columns: Sequence[str]) -> dict[str, str]:
    """Of columns that are not the API server's own: k9s takes them as kubectl does."""
    split = (column.partition(":") for column in columns)
    return {name: path.partition("|")[0] for name, _, path in split if path}


def names(columns: Sequence[str]) -> list[str]:
    return [column.partition(":")[0].partition("|")[0] for column in columns]
