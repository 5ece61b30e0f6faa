"""What the layout of the repository promises."""

import subprocess
import sys
from importlib.resources import files
from pathlib import Path

ROOT = Path(__file__).parent.parent
AGENT = ROOT / "operator" / "gpusharing" / "agent"


def _python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def test_the_standard_library_keeps_its_operator_module() -> None:
    # -c puts the working directory first in sys.path: there operator/ lies, and must not be a package.
    where = _python("import os, sys; assert sys.path[0] == ''; import operator; print(operator.__file__)")
    assert Path(where.strip()).name == "operator.py"
    assert ROOT not in Path(where.strip()).parents
    assert not (ROOT / "operator" / "__init__.py").exists()


def test_the_package_ships_its_types() -> None:
    assert files("gpusharing").joinpath("py.typed").is_file()


def test_the_agent_loads_nothing_that_only_the_operator_needs() -> None:
    source_root = ROOT / "operator"
    modules = sorted(
        ".".join(path.relative_to(source_root).with_suffix("").parts).removesuffix(".__init__")
        for path in AGENT.rglob("*.py")
    )
    assert "gpusharing.agent" in modules
    imports = "\n".join(f"import {module}" for module in modules)
    forbidden = {"kopf", "kubernetes_asyncio", "celpy", "prometheus_client"}
    loaded = set(_python(f"{imports}\nimport sys\nprint(*sys.modules)").split())
    assert set(modules) <= loaded
    assert not forbidden & loaded
