"""The examples of docs/cel.md: each does what is said beside it."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpusharing import cel

DOCUMENT = (Path(__file__).parents[2] / "docs" / "cel.md").read_text()
OUTCOMES = {"match", "no match", "fails", "refused"}


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", DOCUMENT, re.DOTALL)


def examples() -> list[Any]:
    """Each example as often as it names a version; without one it holds for all that are supported."""
    found = []
    for line in "".join(blocks("cel")).splitlines():
        expression, said = line.rsplit(" // ", 1)
        for part in said.split(", "):
            version, _, outcome = part.rpartition(": ")
            minors = [int(version.removeprefix("1."))] if version else [36, 37]
            found += [pytest.param(expression.strip(), minor, outcome, id=f"{line} ({minor})") for minor in minors]
    return found


def outcome(expression: str, minor: int, device: cel.Device) -> str:
    try:
        return "match" if cel.compile(expression, minor).match(device) else "no match"
    except cel.CompileError:
        return "refused"
    except cel.EvaluationError:
        return "fails"


@pytest.mark.parametrize(("expression", "minor", "said"), examples())
def test_examples(expression: str, minor: int, said: str) -> None:
    assert said in OUTCOMES
    [text] = blocks("yaml")
    gpu = yaml.safe_load(text)
    assert outcome(expression, minor, cel.Device(gpu["driver"], gpu["attributes"], gpu["capacity"])) == said


def test_the_units_of_the_table_are_those_that_are_counted() -> None:
    rows = re.findall(r"^\| `(.+)`( with 200 uuids)? \| ([0-9,]+) \|$", DOCUMENT, re.MULTILINE)
    assert len(rows) == 7
    uuids = [f"GPU-{number:08x}-0000-0000-0000-000000000000" for number in range(200)]
    for expression, has_uuids, units in rows:
        written = expression.replace("\\|", "|")
        written = written.replace("[...]", str(uuids)) if has_uuids else written
        assert f"{cel.compile(written, 37).max_cost:,}" == units, expression


def test_the_newest_version_that_is_known_is_named() -> None:
    assert f"the newest version that it knows: 1.{cel.NEWEST_MINOR}." in DOCUMENT


def test_there_are_examples_of_every_outcome() -> None:
    assert {example.values[2] for example in examples()} == OUTCOMES


def test_who_asks_the_attributes_for_memory_is_told_where_it_is() -> None:
    program = cel.compile('device.attributes["gpu.nvidia.com"].memory >= "16Gi"', 37)
    with pytest.raises(cel.EvaluationError) as caught:
        program.match(cel.Device("gpu.nvidia.com", {}, {"memory": {"value": "80Gi"}}))
    assert caught.value.message == (
        "no such key: memory; it is a capacity: "
        'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("16Gi")) >= 0'
    )
