"""What pages of recipes name exists."""

import re

import pytest

from gpusharing.cli.main import main
from recipes.definitions import TOOLS
from recipes.pages import EXAMPLE, FOLDER, NAMESPACE, PAGES, manifests, pod_specs, text

TEMPLATES = {"research-exclusive", "research-timeslicing", "research-mps", "research-large"}
"""What the operator makes in the namespace: tests/node/test_by_label.py."""


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_a_manifest_a_check_and_a_claim(page: str) -> None:
    assert re.search(r"^Check: ", text(page), re.MULTILINE)
    specs = pod_specs(page)
    assert specs
    for spec in specs:
        named = {one["resourceClaimTemplateName"] for one in spec["resourceClaims"]}
        assert named <= TEMPLATES
        claims = {one["name"] for one in spec["resourceClaims"]}
        used = [one["name"] for container in spec["containers"] for one in container["resources"]["claims"]]
        assert set(used) == claims


@pytest.mark.parametrize("page", PAGES)
def test_everything_is_in_the_namespace_of_the_example(page: str) -> None:
    assert f"name: {NAMESPACE}\n" in EXAMPLE.read_text()
    for manifest in manifests(page):
        assert manifest["kind"] == "NodePool" or manifest["metadata"]["namespace"] == NAMESPACE


def test_the_index_names_all_pages_and_versions() -> None:
    index = (FOLDER / "README.md").read_text()
    for page in PAGES:
        assert f"({page}.md)" in index
    for page, tool in TOOLS.items():
        assert re.search(
            rf"\({page}\.md\).* {re.escape(tool.module.version.removeprefix('v'))} \|$", index, re.MULTILINE
        )


def test_the_forecast_of_karpenters_page(capsys: pytest.CaptureFixture[str]) -> None:
    (command,) = re.findall(r"`gpusharing (forecast --gpus .*?) -f policies/`", text("karpenter"))
    with pytest.raises(SystemExit) as ended:
        main([*command.split(), "-f", str(EXAMPLE)])
    assert ended.value.code == 0
    assert "name: gpu-3" in capsys.readouterr().out
