"""Who lacks something to build the image hears what."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

from image.built import NEEDED, ROOT


def test_missing_programs_are_named_with_their_packages(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools/image/build.py"],
        env={**os.environ, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == "error: buildah and mmdebstrap and git missing: apt-get install buildah mmdebstrap git\n"


def test_ci_installs_what_tests_need() -> None:
    [line] = [line for line in (ROOT / ".ci/run").read_text().splitlines() if line.startswith("packages=(")]
    installed = shlex.split(line.removeprefix("packages=(").removesuffix(")"))
    assert set(installed) == set(" ".join(NEEDED.values()).split())


def test_machine_that_no_image_is_made_for(tmp_path: Path) -> None:
    script = ROOT / "tools/image/install_compiler.sh"
    done = subprocess.run(["sh", script, "amd64", "riscv64"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, 'TARGETARCH is "riscv64": the image is made for amd64 and arm64\n')
