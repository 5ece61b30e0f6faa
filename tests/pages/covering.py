"""By which test each block of each page is covered."""

from collections.abc import Callable
from typing import Final, NamedTuple

import test_command_documents
from pages import test_commands, test_yaml
from pages.blocks import Block
from recipes import definitions

_PARTLY: Final = {"jupyterhub", "nim"}


class Cover(NamedTuple):
    test: str
    covers: Callable[[Block], bool]


def _of(page: str, *languages: str) -> Callable[[Block], bool]:
    return lambda block: block.page == page and block.language in languages


def _is_of_commands(block: Block) -> bool:
    """Files and outputs of pages whose commands are run."""
    files = [content for _, content in test_command_documents._FILE.findall(_text(block))]
    is_run = block.page.removeprefix("docs/") in test_command_documents.PAGES
    return is_run and (block.language == "console" or block.text in files)


def _text(block: Block) -> str:
    path = test_command_documents.DOCS.parent / block.page
    return path.read_text()


def _is_recipe(block: Block) -> bool:
    page = block.page.removeprefix("docs/recipes/").removesuffix(".md")
    return block.language == "yaml" and (page in definitions.TOOLS or page in _PARTLY)


def _is_output(block: Block) -> bool:
    return block.language == "text" and not any(line.startswith("$ ") for line in block.text.splitlines())


COVERS: Final = (
    Cover("tests/sim/test_documentation.py", _of("docs/simulation.md", "console")),
    Cover("tests/test_command_documents.py", _is_of_commands),
    Cover("tests/pages/test_commands.py", lambda block: block in test_commands.SHOWN),
    Cover("tests/pages/test_yaml.py", lambda block: block in test_yaml.WHOLE or block in test_yaml.PARTS),
    Cover("tests/recipes/test_pages.py", _is_recipe),
    Cover("tests/exporting/test_volcano_crd.py", _of("docs/recipes/volcano.md", "yaml")),
    Cover("tests/cel/test_document.py", _of("docs/cel.md", "cel", "yaml")),
    Cover("tests/manifests/test_ui.py", _of("docs/ui.md", "yaml")),
    Cover("tests/monitoring/test_on_prometheus.py", _of("docs/metrics.md", "promql")),
    # Outputs and drawings have nothing to run. Pages of commands compare theirs with what is printed.
    Cover("tests/pages/test_covering.py", _is_output),
)

EXCEPTIONS: Final = {
    (
        "docs/metrics.md",
        "metricRelabelings:",
    ): "a part of Prometheus' configuration, for which the tests have no schema",
    ("docs/operating.md", "driver:"): "values of NVIDIA's chart, which the tests do not have",
    ("docs/tenants.md", "ignoreDifferences:"): "a part of an Application of Argo CD; tests/manifests/test_argocd.py",
    ("docs/plan.md", "# .gitlab-ci.yml"): "a file of GitLab; test_covering.py parses its commands",
    ("docs/validate.md", "# .pre-commit-config.yaml"): "a file of pre-commit, which is not among our tools",
    (
        "tests/harness/README.md",
        "from harness.cluster import Cluster",
    ): "Python for developers; each test does the same",
}
"""By page and first line: why no test can cover it."""


def covered_by(block: Block) -> str | None:
    return next((cover.test for cover in COVERS if cover.covers(block)), None)


def exception(block: Block) -> tuple[str, str]:
    return block.page, block.text.splitlines()[0]
