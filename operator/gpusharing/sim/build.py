"""Compiles the C part, once for each version of it. CC chooses the compiler, also a cross compiler.

Images and wheels need no compiler: their builds call `package`. What runs needs no C library newer than 2.28.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gpusharing.sim import drivers
from gpusharing.sim.drivers import Driver
from gpusharing.sim.errors import SimError
from gpusharing.sim.header import c_header

SOURCES = Path(__file__).parent / "csrc"
# Where the build of an image or a wheel has put what was compiled.
PACKAGED = Path(__file__).parent / "built"
# Tells of which sources.
_MADE_OF = "made-of"
LIBRARY = "libnvidia-ml.so.1"
TOOL = "nvidia-smi"
# CUDA's own library, by which NVIDIA's tools know the driver's directory.
CUDA = "libcuda.so"
_CUDA_FOLDERS = ("cuda/library", "cuda/client", "cuda", "mps", "library", "driver")
# The driver without NVML, for Python.
RULES = "libgpusharing-sim.so"


@dataclass(frozen=True)
class Program:
    """Of which folders of the sources it is made."""

    folders: tuple[str, ...]
    flags: tuple[str, ...] = ()


# The tool takes the library beside it even when LD_LIBRARY_PATH names another one, hence the old kind of rpath.
PROGRAMS = {
    TOOL: Program(("nvidia-smi",), ("-Wl,--disable-new-dtags,-rpath,$ORIGIN/../lib", "-Wl,--wrap=__libc_start_main")),
    # Static, because containers run them.
    "nvidia-cuda-mps-control": Program(("mps/control", "mps", "program", "driver"), ("-static",)),
    "nvidia-cuda-mps-server": Program(("mps/server", "mps", "cuda", "program", "driver"), ("-static",)),
    "cuda-process": Program(("cuda/process", "cuda/client", "cuda", "mps", "program", "driver"), ("-static",)),
}

_COMPILE = ["-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-fvisibility=hidden"]
_LINK = ["-pthread"]
# Bound to itself: a process that has loaded two nodes' libraries must not mix them.
_LINK_LIBRARY = [*_LINK, "-shared", f"-Wl,-Bsymbolic,-soname,{LIBRARY}"]
_LINK_RULES = [*_LINK, "-shared", "-Wl,-Bsymbolic"]
_LINK_CUDA = [*_LINK, "-shared", f"-Wl,-Bsymbolic,-soname,{CUDA}.1"]


def build() -> Path:
    """The directory with the libraries and programs, compiled now unless they already were."""
    if _fits(PACKAGED, SOURCES):
        return PACKAGED
    target = Path.home() / ".cache/gpusharing/sim" / _fingerprint(SOURCES, _compiler(), os.environ.get("PATH"))
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        _compile_into(target)
    return target


def package(output: Path) -> None:
    """Compile into a new directory, which is found beside this module."""
    output.mkdir(parents=True)
    _compile(output)
    (output / _MADE_OF).write_text(_ingredients(SOURCES))


def library_of(driver: Driver) -> str:
    """The file with the library of a driver, which lacks what that driver does not have yet."""
    first = next(known for known in drivers.KNOWN if known.absent_functions == driver.absent_functions)
    return f"libnvidia-ml.so.{first.branch}"


def _compiler() -> str:
    return os.environ.get("CC", "cc")


@cache
def _fits(packaged: Path, sources: Path) -> bool:
    """Whether it was made of these sources, for this machine and a C library that is no newer than this one's."""
    try:
        ctypes.CDLL(os.fspath(packaged / RULES))
        return (packaged / _MADE_OF).read_text() == _ingredients(sources)
    except OSError:
        return False


@cache
def _fingerprint(sources: Path, compiler: str, search_path: str | None) -> str:
    return _hash(compiler, _compiler_version(compiler, search_path), _ingredients(sources))


def _ingredients(sources: Path) -> str:
    return _hash(
        *_COMPILE,
        *_LINK_LIBRARY,
        *_LINK_CUDA,
        repr(PROGRAMS),
        repr(_CUDA_FOLDERS),
        repr(drivers.ADDED),
        c_header(),
        *_texts(sources),
    )


def _hash(*texts: str) -> str:
    ingredients = hashlib.sha256()
    for text in texts:
        ingredients.update(f"{len(text)}:{text}".encode())
    return ingredients.hexdigest()[:32]


def _compiler_version(compiler: str, search_path: str | None) -> str:
    found = shutil.which(compiler, path=search_path)
    if found is None:
        raise SimError(
            f"the simulated GPU node needs a C compiler, `{compiler}`: apt-get install gcc libc6-dev. The wheel for "
            "this machine and the image gpusharing-simulated-node need none"
        )
    return subprocess.run([found, "--version"], check=True, capture_output=True, text=True).stdout


def _texts(sources: Path) -> Iterator[str]:
    for file in sorted(sources.rglob("*.[ch]")):
        yield file.relative_to(sources).as_posix()
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
    with tempfile.TemporaryDirectory() as scratch:
        objects = _compile_objects(directory, Path(scratch))
        for driver in {library_of(driver): driver for driver in drivers.KNOWN}.values():
            _link_library(directory, driver, [*objects["driver"], *objects["library"], *objects["nvml"]], Path(scratch))
        _run([*_LINK_RULES, "-o", os.fspath(directory / RULES), *objects["driver"], *objects["python"]])
        cuda = [file for folder in _CUDA_FOLDERS for file in objects[folder]]
        _run([*_LINK_CUDA, "-o", os.fspath(directory / CUDA), *cuda, "-ldl", "-lm"])
        # The newest library has all that any other has.
        newest = os.fspath(directory / library_of(drivers.KNOWN[-1]))
        for name, program in PROGRAMS.items():
            parts = [file for folder in program.folders for file in objects[folder]]
            libraries = [] if "-static" in program.flags else [newest]
            _run([*_LINK, "-o", os.fspath(directory / name), *parts, *libraries, *program.flags])


def _compile_objects(include: Path, scratch: Path) -> dict[str, list[str]]:
    """The object files of each folder."""
    folders: dict[str, list[str]] = {}
    commands: list[list[str]] = []
    programs = {part for each in PROGRAMS.values() for part in each.folders}
    for folder in sorted({"driver", "library", "nvml", "python", *_CUDA_FOLDERS, *programs}):
        for source in sorted((SOURCES / folder).glob("*.c")):
            result = os.fspath(scratch / f"{len(commands)}.o")
            folders.setdefault(folder, []).append(result)
            commands.append([*_COMPILE, f"-I{SOURCES}", f"-I{include}", "-c", "-o", result, os.fspath(source)])
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(_run, commands))
    return folders


def _link_library(directory: Path, driver: Driver, objects: list[str], scratch: Path) -> None:
    version_script = scratch / "versions"
    absent = "".join(f" {function};" for function in sorted(driver.absent_functions))
    version_script.write_text(f"{{ local: {absent or 'nothing;'} }};\n")
    library = os.fspath(directory / library_of(driver))
    _run([*_LINK_LIBRARY, f"-Wl,--version-script={version_script}", "-o", library, *objects, "-ldl"])


def _run(arguments: list[str]) -> None:
    command = [_compiler(), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise SimError(f"compiling the simulated GPU node failed:\n{' '.join(command)}\n{result.stderr}")
