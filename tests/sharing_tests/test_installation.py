"""The cluster of a test has the classes and guards of an installation."""

from pathlib import Path
from typing import Any

import yaml

from gpusharing.sharing_tests import installation

BASE = Path(__file__).parents[2] / "manifests/base"


def objects(*files: str) -> list[Any]:
    return [one for file in files for one in yaml.safe_load_all((BASE / file).read_text())]


def test_classes_are_those_of_the_manifests() -> None:
    assert list(installation.classes()) == objects("deviceclasses.yaml")


def test_guards_are_among_those_of_the_manifests() -> None:
    installed = objects("guards.yaml", "closing-guard.yaml")
    guards, bindings = installation.guards()
    assert guards
    assert all(one in installed for one in (*guards, *bindings))
