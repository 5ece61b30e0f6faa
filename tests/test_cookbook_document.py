"""docs/cookbook.md shows each example of docs/examples/claims as it is, and each has an expectation."""

import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

DOCS: Final = Path(__file__).parent.parent / "docs"
PAGE: Final = (DOCS / "cookbook.md").read_text()
EXAMPLES: Final = sorted((DOCS / "examples/claims").glob("*.yaml"))
SECTIONS: Final = PAGE.split("\n## ")


def blocks(section: str) -> list[Any]:
    found = re.findall(r"^```yaml\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
    return [document for block in found for document in yaml.safe_load_all(block)]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_its_section_shows_the_claim(example: Path) -> None:
    (section,) = [one for one in SECTIONS if f"(examples/claims/{example.name})" in one]
    objects = list(yaml.safe_load_all(example.read_text()))
    assert parts(objects) & {str(block) for block in blocks(section)}


def test_whole_objects_are_those_of_the_examples() -> None:
    shown = [block for section in SECTIONS for block in blocks(section) if isinstance(block, dict) and "kind" in block]
    of_files = [one for path in EXAMPLES for one in yaml.safe_load_all(path.read_text())]
    assert shown
    assert [one for one in shown if one not in of_files] == []


def test_each_has_an_expectation() -> None:
    (test,) = yaml.safe_load_all((DOCS / "examples/tests/claims.yaml").read_text())
    assert sorted(one["manifest"] for one in test["pods"]) == [f"../claims/{path.name}" for path in EXAMPLES]


def parts(objects: list[Any]) -> set[str]:
    """What a section may show: the devices of a claim, or the container of a pod without one."""
    specs = [one["spec"] for one in objects if "spec" in one]
    devices = [spec.get("spec", spec).get("devices") for spec in specs]
    return {str(one) for one in devices if one} or {
        str(container) for spec in specs for container in spec["containers"]
    }
