"""Compiles the C part with the system's compiler, once for each version of it."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from gpusharing.sim.errors import SimError
from gpusharing.sim.header import c_header

SOURCES = Path(__file__).parent / "csrc"
LIBRARY = "libnvidia-ml.so.1"
TOOL = "nvidia-smi"

_COMPILE = ["cc", "-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror"]
# Bound to itself: a process that has loaded two nodes' libraries must not mix them.
_LINK_LIBRARY = ["-shared", "-fPIC", "-fvisibility=hidden", "-pthread", f"-Wl,-Bsymbolic,-soname,{LIBRARY}"]
_COMPILE_LIBRARY = [*_COMPILE, *_LINK_LIBRARY]
# The tool takes the library beside it even when LD_LIBRARY_PATH names another one, hence the old kind of rpath.
_COMPILE_TOOL = [*_COMPILE, "-Wl,--disable-new-dtags,-rpath,$ORIGIN/../lib"]


def build() -> Path:
    """The directory with the library and the tool, compiled now unless they already were."""
    compiler = _compiler_version()
    target = Path.home() / ".cache/gpusharing/sim" / _fingerprint(compiler)
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        _compile_into(target)
    return target


def _compiler_version() -> str:
    try:
        return subprocess.run([_COMPILE[0], "--version"], check=True, capture_output=True, text=True).stdout
    except FileNotFoundError as error:
        raise SimError("the simulated GPU node needs a C compiler, `cc`: apt-get install gcc libc6-dev") from error


def _fingerprint(compiler: str) -> str:
    ingredients = hashlib.sha256()
    for text in (compiler, *_COMPILE_LIBRARY, *_COMPILE_TOOL, c_header(), *_sources()):
        ingredients.update(f"{len(text)}:{text}".encode())
    return ingredients.hexdigest()[:32]


def _sources() -> Iterator[str]:
    for file in sorted(SOURCES.glob("*/*.[ch]")):
        yield file.relative_to(SOURCES).as_posix()
        yield file.read_text()


def _compile_into(target: Path) -> None:
    """Build aside and rename, so that `target` is never seen half done, whoever else builds it at the same time."""
    workplace = Path(tempfile.mkdtemp(dir=target.parent, prefix="building-"))
    try:
        _compile(workplace)
        workplace.chmod(0o755)
        try:
            workplace.rename(target)
        except OSError:
            # Somebody was faster, with the same result.
            if not target.is_dir():
                raise
    finally:
        shutil.rmtree(workplace, ignore_errors=True)


def _compile(directory: Path) -> None:
    (directory / "node_state.h").write_text(c_header())
    include = f"-I{directory}"
    library = os.fspath(directory / LIBRARY)
    _run([*_COMPILE_LIBRARY, include, "-o", library, *_c_files("nvml"), "-ldl"])
    _run([*_COMPILE_TOOL, include, "-o", os.fspath(directory / TOOL), *_c_files("nvidia-smi"), library])


def _c_files(folder: str) -> list[str]:
    return [os.fspath(file) for file in sorted((SOURCES / folder).glob("*.c"))]


def _run(command: list[str]) -> None:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise SimError(f"compiling the simulated GPU node failed:\n{' '.join(command)}\n{result.stderr}")
