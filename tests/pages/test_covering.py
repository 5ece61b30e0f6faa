"""Each fenced block of each page is run or validated by a test, which `covering.py` names."""

import shlex
from collections import Counter

import pytest
import yaml

from pages.blocks import BLOCKS, ROOT, blocks_of
from pages.covering import COVERS, EXCEPTIONS, covered_by, exception
from pages.test_commands import fault_of


def test_each_block_is_covered() -> None:
    missing = [f"{block} [{block.language}]" for block in BLOCKS if not covered_by(block)]
    excepted = [f"{block} [{block.language}]" for block in BLOCKS if exception(block) in EXCEPTIONS]
    assert [one for one in missing if one not in excepted] == []
    assert [one for one in excepted if one not in missing] == [], "it is covered: remove the exception"


def test_each_exception_is_of_a_block() -> None:
    assert EXCEPTIONS.keys() <= {exception(block) for block in BLOCKS}


@pytest.mark.parametrize("cover", COVERS, ids=lambda cover: cover.test)
def test_each_test_exists_and_covers_something(cover: object) -> None:
    assert isinstance(cover, type(COVERS[0]))
    assert (ROOT / cover.test).is_file()
    counts = Counter(covered_by(block) for block in BLOCKS)
    assert counts[cover.test] > 0


def test_commands_of_a_pipeline() -> None:
    [block] = [block for block in BLOCKS if block.text.startswith("# .gitlab-ci.yml")]
    script = yaml.safe_load(block.text)["plan"]["script"]
    for line in script:
        assert fault_of(shlex.split(line.partition(" > ")[0])) == ""


@pytest.mark.parametrize(
    "fence",
    [
        "```\ngpusharing top\n```",
        "```text\n$ gpusharing top\n```",
        "```yaml\noffers: {}\n```",
        "```yaml\napiVersion: example.com/v1\nkind: Unknown\n```",
        "```json\n{}\n```",
        "- in a list:\n\n  ```bash\n  ls\n  ```",
    ],
)
def test_it_would_find(fence: str) -> None:
    [block] = blocks_of("docs/policies.md", f"# Page\n\n{fence}\n")
    assert covered_by(block) is None
