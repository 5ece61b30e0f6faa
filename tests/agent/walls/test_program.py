"""Our hook gets to the host, and runs there whatever that is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpusharing.agent.walls.program import NoProgramError, install


def test_needs_no_loader(program: Path) -> None:
    headers = subprocess.run(["readelf", "--program-headers", program], capture_output=True, text=True, check=True)
    assert "LOAD" in headers.stdout
    assert "INTERP" not in headers.stdout
    assert program.stat().st_size < 1 << 20


@pytest.mark.parametrize("arguments", [[], ["one", "two"]])
def test_usage(program: Path, arguments: list[str]) -> None:
    done = subprocess.run([program, *arguments], input="", capture_output=True, text=True, timeout=20, check=False)
    assert (done.returncode, done.stderr) == (1, "usage: gpusharing-wall DIRECTORY < STATE\n")


@pytest.mark.parametrize("path", ["walls", '/"', "/\\", "/\n", ""])
def test_path_that_is_none_of_ours(program: Path, path: str) -> None:
    done = subprocess.run([program, path], input="", capture_output=True, text=True, timeout=20, check=False)
    assert (done.returncode, "is no path of a directory that the agent writes" in done.stderr) == (1, True)


def test_installed_only_if_it_is_another(program: Path, tmp_path: Path) -> None:
    path = install(tmp_path / "state/bin", program)
    assert path == tmp_path / "state/bin/gpusharing-wall"
    assert path.read_bytes() == program.read_bytes()
    assert path.stat().st_mode & 0o777 == 0o755
    first = path.stat().st_ino
    assert install(tmp_path / "state/bin", program).stat().st_ino == first
    path.chmod(0o644)
    assert os.access(install(tmp_path / "state/bin", program), os.X_OK)


def test_replaced_while_it_runs(tmp_path: Path, program: Path) -> None:
    old = tmp_path / "old"
    old.write_bytes(Path("/bin/sleep").read_bytes())
    path = install(tmp_path / "bin", old)
    with subprocess.Popen([path, "30"]) as running:
        try:
            (tmp_path / "bin/.gpusharing-wall.7.tmp").touch()
            install(tmp_path / "bin", program)
            assert running.poll() is None
        finally:
            running.kill()
    assert path.read_bytes() == program.read_bytes()
    assert [entry.name for entry in path.parent.iterdir()] == ["gpusharing-wall"]


def test_one_that_was_not_built(tmp_path: Path) -> None:
    with pytest.raises(NoProgramError, match=r"absent is missing: build it .* -m gpusharing\.agent\.walls\.build"):
        install(tmp_path / "bin", tmp_path / "absent")


def test_file_system_from_which_nothing_runs(tmp_path: Path, program: Path) -> None:
    """In a mount namespace of its own, which goes with the process."""
    code = (
        "from pathlib import Path; from gpusharing.agent.walls.program import install, NoProgramError\n"
        f"try: install(Path('{tmp_path}/bin'), Path('{program}'))\n"
        "except NoProgramError as error: print(error)"
    )
    (tmp_path / "bin").mkdir()
    script = f'mount -t tmpfs -o noexec none {tmp_path}/bin && exec "$0" -c "$1"'
    command = ["unshare", "--mount", "sh", "-euc", script, sys.executable, code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.endswith("(noexec): choose another --state-dir\n"), done.stderr


def test_build_tells_what_is_wrong(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "gpusharing.agent.walls.build", str(tmp_path / "deep/gpusharing-wall")]
    environment = {**os.environ, "PATH": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "'cc'" in done.stderr
