"""gpusharing convert: where it reads, where it writes, and how it ends."""

import io
import os
import sys
from pathlib import Path

import pytest

from gpusharing.cli import exits
from gpusharing.cli.main import main

OLD = """\
apiVersion: resource.k8s.io/v1beta1
kind: ResourceClaim
metadata: {name: old}
spec: {devices: {requests: [{name: gpu, deviceClassName: gpu.nvidia.com}]}}
"""
NEW = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: old}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}}
"""
OTHER = "apiVersion: v1\nkind: Namespace\nmetadata:   {name: odd-spaces}\n"
BROKEN = "apiVersion: resource.k8s.io/v1beta1\nkind: ResourceClaim\nspec: []\n"


def run(*arguments: str | Path) -> int:
    """The exit code; 1 also for a message."""
    with pytest.raises(SystemExit) as ended:
        main(["convert", *map(str, arguments)])
    code = ended.value.code
    return code if isinstance(code, int) else exits.FAILED


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sub").mkdir()
    for name, text in (("old.yaml", OLD), ("sub/other.yml", OTHER), ("readme.md", OLD)):
        (tmp_path / name).write_text(text)
    return tmp_path


def test_several_files_become_one_stream(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folder) == exits.OK
    assert capsys.readouterr() == (f"{NEW}---\n{OTHER}", "")
    assert (folder / "old.yaml").read_text() == OLD


def test_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(OLD.encode())))
    assert run("-") == exits.OK
    assert capsys.readouterr().out == NEW


def test_a_file_of_today(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folder / "sub") == exits.OK
    assert capsys.readouterr() == (OTHER, "nothing to convert\n")


def test_into_a_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = folder / "new.yaml"
    assert run(folder / "old.yaml", "-o", target) == exits.OK
    assert target.read_text() == NEW
    assert capsys.readouterr().out == ""


def test_in_place_only_files_that_change_are_written(folder: Path) -> None:
    old, other = folder / "old.yaml", folder / "sub/other.yml"
    old.chmod(0o640)
    os.utime(other, (1, 1))
    assert run(folder, "--in-place") == exits.OK
    assert (old.read_text(), old.stat().st_mode & 0o777) == (NEW, 0o640)
    assert (other.read_text(), other.stat().st_mtime) == (OTHER, 1)
    assert sorted(path.name for path in folder.rglob("*")) == ["old.yaml", "other.yml", "readme.md", "sub"]
    assert run(folder, "--in-place") == exits.OK
    assert old.read_text() == NEW


def test_in_place_a_link_stays_a_link(folder: Path) -> None:
    link = folder / "link.yaml"
    link.symlink_to("old.yaml")
    assert run(link, "--in-place") == exits.OK
    assert link.is_symlink()
    assert (folder / "old.yaml").read_text() == NEW


def test_line_ends_stay(folder: Path) -> None:
    path = folder / "old.yaml"
    path.write_bytes(OLD.replace("\n", "\r\n").encode())
    assert run(path, "--in-place") == exits.OK
    assert path.read_bytes() == NEW.replace("\n", "\r\n").encode()


def test_what_is_not_converted_is_said_and_fails(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = folder / "broken.yaml"
    broken.write_text(f"{BROKEN}---\n{OLD}")
    assert run(broken, "--in-place") == exits.FAILED
    assert broken.read_text() == f"{BROKEN}---\n{NEW}"
    told = capsys.readouterr().err
    assert "GSH0801" in told
    assert f"{broken}:3" in told
    assert run(broken, "--ignore", "gsh0801") == exits.OK
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("arguments", [["-", "--in-place"], ["absent.yaml"], ["image.yaml"], ["large.yaml"]])
def test_what_cannot_be_read_is_one_line(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("image.yaml").write_bytes(b"\xff\xfe\x00")
    Path("large.yaml").write_bytes(b"#" * (16 * 1024 * 1024 + 1))
    with pytest.raises(SystemExit) as ended:
        main(["convert", *arguments])
    assert str(ended.value.code).startswith("gpusharing: ")
    assert "\n" not in str(ended.value.code)
    assert capsys.readouterr().out == ""


def test_the_file_that_is_there_stays_if_the_new_one_cannot_be_written(folder: Path) -> None:
    target = folder / "absent" / "new.yaml"
    assert run(folder / "old.yaml", "-o", target) == exits.FAILED
    assert not target.exists()
