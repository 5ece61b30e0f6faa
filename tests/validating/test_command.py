"""gpusharing validate, as people and programs run it."""

import io
import json
import os
import xml.etree.ElementTree as ET
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from gpusharing.cli.main import main
from gpusharing.validating.validation import Source, validate

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
MISTAKES: Final = HERE / "mistakes.yaml"
RIGHT: Final = (
    "apiVersion: gpusharing.dev/v1alpha1\nkind: SharingPolicy\nmetadata: {name: a}\nspec: {offers: {exclusive: {}}}\n"
)


def run(*arguments: str | Path) -> tuple[int, str]:
    out = io.StringIO()
    with redirect_stdout(out), pytest.raises(SystemExit) as ended:
        main(["validate", *map(str, arguments)])
    return int(str(ended.value.code)), out.getvalue()


@pytest.fixture(autouse=True)
def in_this_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HERE)


@pytest.mark.parametrize("columns", [80, 160])
def test_screens(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    status, screen = run(MISTAKES.name)
    golden = HERE / f"screens/mistakes-{columns}.txt"
    if os.environ.get("GPUSHARING_WRITE_SCREENS"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(screen)
    assert status == 1
    assert screen == golden.read_text()
    assert max(map(len, screen.splitlines())) <= columns


def test_all_formats_say_the_same() -> None:
    findings = validate([Source(MISTAKES.name, MISTAKES.read_bytes())]).findings
    wanted = [(one.finding.code, one.mark.line, one.mark.column) for one in findings]
    value = json.loads(run(MISTAKES.name, "-o", "json")[1])
    assert [(one["code"], one["line"], one["column"]) for one in value["findings"]] == wanted
    sarif = json.loads(run(MISTAKES.name, "-o", "sarif")[1])["runs"][0]
    regions = [one["locations"][0]["physicalLocation"]["region"] for one in sarif["results"]]
    ids = [one["ruleId"] for one in sarif["results"]]
    assert [(code, one["startLine"], one["startColumn"]) for code, one in zip(ids, regions, strict=True)] == wanted
    assert {one["id"] for one in sarif["tool"]["driver"]["rules"]} == set(ids)
    lines = run(MISTAKES.name, "-o", "github")[1].splitlines()
    assert [line.split("::")[1].split(" ", 1)[1].split(",")[1:3] for line in lines] == [
        [f"line={line}", f"col={column}"] for _, line, column in wanted
    ]
    suite = ET.fromstring(run(MISTAKES.name, "-o", "junit")[1])[0]  # noqa: S314 (our own)
    assert [case.get("name") for case in suite] == [
        f"{MISTAKES.name}:{line}:{column} {code}" for code, line, column in wanted
    ]


def test_folders_are_searched_and_right_files_pass(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below/a.yaml").write_text(RIGHT)
    (tmp_path / "b.txt").write_text("a: [")
    status, text = run(tmp_path)
    assert (status, text) == (0, "1 object checked: nothing found\n")


def test_warnings_fail_only_if_that_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(f"{RIGHT}---\n{RIGHT}")
    assert run(tmp_path)[0] == 0
    assert run(tmp_path, "--strict")[0] == 1
    assert run(tmp_path, "--strict", "--ignore", "GSH0614")[0] == 0


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a: [")))
    status, text = run("-")
    assert status == 1
    assert "standard input:2:1 GSH0601" in text


@pytest.mark.parametrize("data", [b"\xff\xfe", b"a: \xc3\x28"])
def test_what_is_not_utf8_is_told(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.yaml").write_bytes(data)
    assert "not UTF-8" in run(tmp_path)[1]


def test_a_missing_file_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("missing.yaml") == (1, "")
    assert "missing.yaml: No such file or directory" in capsys.readouterr().err


def test_a_line_with_an_attack_is_one_line() -> None:
    value = {**yaml.safe_load(RIGHT), "x\n::error::": 1}
    found = validate([Source("a\n::error::.yaml", json.dumps(value).encode())]).findings
    assert found
    text = run_on(value)
    assert len(text.splitlines()) == 1


def run_on(value: Any) -> str:
    from gpusharing.validating.reports import github  # noqa: PLC0415

    found = validate([Source("a\n::error::.yaml", json.dumps(value).encode())]).findings
    return "\n".join(github(found))


def test_our_own_manifests_are_right() -> None:
    status, text = run(ROOT / "docs/examples", ROOT / "manifests", ROOT / "docs/quickstart-kind.yaml")
    assert status == 0, text


def test_the_hook_of_pre_commit_runs_this_command() -> None:
    [hook] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert hook["entry"] == "gpusharing validate"
    assert hook["language"] == "python"
