"""Each example and each policy of the pages has a test that passes; docs/test.md has every field, and no others."""

import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from gpusharing.cli import exits
from gpusharing.cli.test import Files
from gpusharing.sharing_tests.comparing import Difference
from gpusharing.sharing_tests.form import Change, Expectation, Nodes, Outcome, Pods, SharingTest
from gpusharing.sharing_tests.reading import Loaded, read_tests
from gpusharing.sharing_tests.running import run
from gpusharing.validating.kinds import pod_spec
from gpusharing.validating.validation import Source

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
TESTS: Final = DOCS / "examples/tests"
EXAMPLES: Final = sorted((DOCS / "examples").glob("*.yaml"))
PAGES: Final = (ROOT / "README.md", *sorted(DOCS.glob("*.md")))
PAGE: Final = (DOCS / "test.md").read_text()

_BLOCK: Final = re.compile(r"^( *)```yaml\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_WHOLE: Final = "apiVersion: "


def loaded(path: Path) -> list[Loaded]:
    return list(read_tests(Source(str(path), path.read_bytes())))


ALL: Final = [one for path in sorted(TESTS.glob("*.yaml")) for one in loaded(path)]


@pytest.mark.parametrize("one", ALL, ids=lambda one: f"{Path(one.file).stem}-{one.test.metadata.name}")
def test_it_is_as_documented(one: Loaded) -> None:
    differences = [(check.name, found) for check in run(one, Files()).checks for found in check.differences]
    assert not differences, "\n".join(f"{name}: {in_words(found)}" for name, found in differences)


def in_words(difference: Difference) -> str:
    return "; ".join([difference.found, *(finding.sentence for finding in difference.findings)])


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_each_example_has_a_test_of_its_policies_and_pods(example: Path) -> None:
    tests = [one.test for one in loaded(TESTS / example.name)]
    given = f"../{example.name}"
    assert any(given in test.policies for test in tests)
    objects = list(yaml.safe_load_all(example.read_text()))
    pods = {one["metadata"]["name"] for one in objects if pod_spec(one) is not None}
    tried = {
        name
        for test in tests
        for entry in test.pods
        if entry.manifest == given and entry.expect.outcome is Outcome.FITS
        for name in ([entry.name] if entry.name else pods)
    }
    assert tried == pods


def test_each_policy_of_the_pages_has_a_test() -> None:
    tried = [manifest for one in ALL for manifest in one.test.policies if isinstance(manifest, dict)]
    shown = [
        (page.name, one)
        for page in PAGES
        for _, block in _BLOCK.findall(page.read_text())
        if block.startswith(_WHOLE)
        for one in yaml.safe_load_all(block)
        if one["kind"] == "SharingPolicy"
    ]
    assert len({page for page, _ in shown}) >= 4
    # The page about tests runs its own.
    missing = [(page, one["metadata"]["name"]) for page, one in shown if page != "test.md" and one not in tried]
    assert not missing, "add them to docs/examples/tests/pages.yaml"


@pytest.mark.parametrize(
    ("title", "form"),
    [
        ("SharingTest", SharingTest),
        ("nodes[]", Nodes),
        ("pods[]", Pods),
        ("expect", Expectation),
        ("changes[]", Change),
    ],
)
def test_the_page_has_every_field(title: str, form: Any) -> None:
    table = PAGE.partition(f"\n`{title}`")[2].partition("| field |")[2].partition("\n\n")[0]
    described = [name for line in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", line.split("|")[1])]
    assert sorted(described) == sorted(form.model_json_schema()["properties"])


def test_the_page_has_the_exit_codes() -> None:
    table = PAGE.partition("| exit code |")[2].partition("\n\n")[0]
    codes = [int(line.split("|")[1]) for line in table.splitlines()[2:]]
    assert codes == [exits.OK, exits.FAILED, exits.UNREADABLE] == [0, 1, exits.USAGE]
