"""docs/architecture.md links only to what exists, and asks a question for each room of core, controller and agent."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parent.parent
PAGE: Final = ROOT / "docs/architecture.md"
PACKAGE: Final = ROOT / "operator/gpusharing"
TEXT: Final = PAGE.read_text()

LINKS: Final = sorted(set(re.findall(r"\[([^\]]+)\]\(([^)#\s]+)(?:#[^)]*)?\)", TEXT)))
NAMES: Final = [(text.strip("`"), target) for text, target in LINKS if target.endswith(".py") and text.startswith("`")]
ROW: Final = re.compile(r"^\| \[`([\w/.]+)`\]\(\.\./operator/gpusharing/([\w/.]+)\) \| (.+) \|$", re.MULTILINE)
MOST_STEPS: Final = 15
PARTS: Final = ("core", "controller", "agent", "demo")


def rooms() -> set[str]:
    """Packages, and the modules that stand at the top by themselves."""
    return {
        path.relative_to(PACKAGE).as_posix()
        for part in PARTS
        for path in (PACKAGE / part).rglob("*")
        if (path / "__init__.py").is_file()
        or (path.parent == PACKAGE / part and path.suffix == ".py" and path.name != "__init__.py")
    }


@cache
def defined(path: Path) -> frozenset[str]:
    """Names of a module, and of its classes as Class.name."""
    return frozenset(_defined(ast.parse(path.read_text())))


def _defined(scope: ast.Module | ast.ClassDef, prefix: str = "") -> list[str]:
    names: list[str] = []
    for item in scope.body:
        match item:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names.append(prefix + name)
            case ast.ClassDef(name=name):
                names += [prefix + name, *_defined(item, f"{prefix}{name}.")]
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.append(prefix + name)
            case ast.Assign(targets=targets):
                names += [prefix + target.id for target in targets if isinstance(target, ast.Name)]
            case _:
                pass
    return names


@pytest.mark.parametrize(("text", "target"), LINKS)
def test_whatever_is_linked_exists(text: str, target: str) -> None:
    assert "://" in target or (PAGE.parent / target).exists(), text


@pytest.mark.parametrize(("name", "target"), NAMES)
def test_a_name_is_defined_in_the_module_that_it_links_to(name: str, target: str) -> None:
    if name.endswith(".py"):
        assert target.endswith("/" + name)
    else:
        assert name in defined((PAGE.parent / target).resolve())


def test_every_room_has_a_question() -> None:
    rows = {target: (text, question) for text, target, question in ROW.findall(TEXT)}
    listed = {target for target in rows if target.split("/")[0] in PARTS}
    assert listed == rooms()
    assert [target for target, (text, _) in rows.items() if text != target] == []
    assert [target for target in listed if not rows[target][1].endswith("?")] == []


@pytest.mark.parametrize("heading", ["The path of a SharingPolicy", "The path of a ResourceClaim"])
def test_a_path_is_short_and_each_step_names_its_function(heading: str) -> None:
    section = TEXT.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    steps = re.split(r"^\d+\. ", section, flags=re.MULTILINE)[1:]
    assert 0 < len(steps) <= MOST_STEPS
    assert [step for step in steps if not re.search(r"\[`[\w.]+`\]\(\.\./operator/", step)] == []


@pytest.mark.parametrize("event", sorted(set(re.findall(r"\blog `([^`]+)`", TEXT))))
def test_a_log_event_is_logged(event: str) -> None:
    sources = (path.read_text() for part in ("controller", "kube") for path in (PACKAGE / part).rglob("*.py"))
    assert any(f'"{event}"' in source for source in sources)


def test_it_would_find_a_name_that_is_gone() -> None:
    module = PACKAGE / "core/decision/incremental.py"
    assert {"Decider", "Decider.steps", "_Node.view"} <= defined(module)
    assert "Decider.step" not in defined(module)
