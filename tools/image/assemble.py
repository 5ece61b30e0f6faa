"""Of the image's build: from a system with Python and an environment of packages, only what the programs need.

Writes a directory for each layer: the interpreter with its libraries, the packages it depends on, and our own. It runs
nothing of the target's, which may be of another architecture.
"""

import argparse
import compileall
import os
import py_compile
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

VERSION: Final = f"python{sys.version_info.major}.{sys.version_info.minor}"
HOME: Final = Path("opt/gpusharing")
PACKAGES: Final = HOME / "lib" / VERSION / "site-packages"

# MPS' control program is started by it in the daemon's namespaces.
PROGRAMS: Final = ("usr/bin/nsenter",)

# Of the standard library: tests, what draws windows and terminals, what installs, and modules with libraries of their
# own that nobody asks for.
_UNUSED: Final = frozenset(
    {
        "__pycache__",
        "dist-packages",
        "site-packages",
        "sitecustomize.py",
        "EXTERNALLY-MANAGED",
        "test",
        "tests",
        "idlelib",
        "tkinter",
        "turtle.py",
        "turtledemo",
        "ensurepip",
        "lib2to3",
        "pydoc_data",
        "curses",
        "dbm",
        "sqlite3",
    }
)
_UNUSED_EXTENSIONS: Final = re.compile(
    r"_test|_xxtest|xx|_ctypes_test|_tkinter|readline|_curses|_dbm|_gdbm|_sqlite3|nis\.|ossaudiodev|_crypt|audioop|spwd"
)

_FILES: Final = {
    "etc/passwd": "root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n",
    "etc/group": "root:x:0:\nnonroot:x:65532:\n",
    "etc/nsswitch.conf": "hosts: files dns\n",
}


class AssemblyError(Exception):
    """The base is not as the image needs it."""


@dataclass
class Rootfs:
    """A part of a root's files, copied with all links that lead to them."""

    source: Path
    output: Path
    files: set[Path] = field(default_factory=set)
    """Those that are no links, relative to the root."""

    def find(self, path: Path) -> Path | None:
        """Where a path leads in the source."""
        *_, last = self._steps(path)
        return last if (self.source / last).exists() else None

    def add(self, path: Path) -> Path:
        """A file, and every link on the way to it."""
        *links, last = self._steps(path)
        for link in links:
            target = self.output / link
            if not target.is_symlink():
                target.parent.mkdir(parents=True, exist_ok=True)
                target.symlink_to((self.source / link).readlink())
        if last not in self.files:
            if not (self.source / last).is_file():
                raise AssemblyError(f"PYTHON_IMAGE has no {path}")
            (self.output / last).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(self.source / last, self.output / last)
            self.files.add(last)
        return last

    def _steps(self, path: Path) -> Iterator[Path]:
        """The links that are met, and the path without any. Links are those of the source's root, not of ours."""
        done, left = Path(), list(path.parts)
        while left:
            part = left.pop(0)
            if part in {"/", "."}:
                continue
            done = done.parent if part == ".." else done / part
            if (self.source / done).is_symlink():
                yield done
                target = (self.source / done).readlink()
                left = [*target.parts, *left]
                done = Path() if target.is_absolute() else done.parent
        yield done


@dataclass(frozen=True)
class Libraries:
    """Which shared libraries a program needs, and where a root has them."""

    rootfs: Rootfs
    machine: str

    @cached_property
    def directories(self) -> tuple[Path, ...]:
        triple = f"{self.machine}-linux-gnu"
        return tuple(Path(place) for place in (f"lib/{triple}", f"usr/lib/{triple}", "lib", "usr/lib", "usr/local/lib"))

    def add_needed_by(self, binaries: Iterable[Path], *, beside: frozenset[str] = frozenset()) -> None:
        """`beside`: libraries that come with the binaries."""
        left, seen = list(binaries), set(beside)
        while left:
            interpreter, needed = _linked(left.pop(), self.machine)
            if interpreter:
                self.rootfs.add(Path(interpreter.lstrip("/")))
            for name in needed:
                if name not in seen:
                    seen.add(name)
                    left.append(self.rootfs.source / self.rootfs.add(self._find(name)))

    def _find(self, name: str) -> Path:
        for directory in self.directories:
            if self.rootfs.find(directory / name):
                return directory / name
        raise AssemblyError(f"PYTHON_IMAGE has no {name}")


def _linked(binary: Path, machine: str) -> tuple[str | None, list[str]]:
    """The loader that a program asks for, and the libraries that it names."""
    command = [f"{machine}-linux-gnu-readelf", "--wide", "--program-headers", "--dynamic", os.fspath(binary)]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    interpreter = re.search(r"program interpreter: (\S+)\]", told)
    return interpreter and interpreter[1], re.findall(r"\(NEEDED\).*\[(.+)\]", told)


def assemble_interpreter(rootfs: Rootfs, machine: str, extensions: Path) -> Path:
    """Returns the path of the interpreter. `extensions`: the packages whose libraries need some of the system's."""
    python = next((place for place in ("usr/local/bin", "usr/bin") if rootfs.find(Path(place) / VERSION)), None)
    if python is None:
        raise AssemblyError(f"PYTHON_IMAGE has no {VERSION}, which BUILD_IMAGE has: give two of the same minor version")
    interpreter = Path(python) / VERSION
    binaries = [rootfs.source / rootfs.add(path) for path in (interpreter, *map(Path, PROGRAMS))]
    library = Path(python).parent / "lib" / VERSION
    for path in _library_files(rootfs.source / library):
        rootfs.add(path.relative_to(rootfs.source))
        if path.suffix == ".so":
            binaries.append(path)
    theirs = sorted(path for path in extensions.rglob("*.so*") if path.is_file())
    libraries = Libraries(rootfs, machine)
    libraries.add_needed_by(binaries)
    libraries.add_needed_by(theirs, beside=frozenset(path.name for path in theirs))
    _compile(rootfs.output / library, prefix=rootfs.output)
    return interpreter


def _library_files(directory: Path) -> Iterator[Path]:
    for path in sorted(directory.iterdir()):
        if path.name in _UNUSED or path.name.startswith("config-"):
            continue
        if path.is_dir():
            yield from _library_files(path)
        elif path.suffix != ".so" or not _UNUSED_EXTENSIONS.match(path.name):
            yield path


def describe_system(rootfs: Rootfs) -> None:
    """Users, and for scanners the system and its packages, in the form that images without dpkg have."""
    for name, content in _FILES.items():
        path = rootfs.output / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (rootfs.output / "tmp").mkdir()
    (rootfs.output / "tmp").chmod(0o1777)
    rootfs.add(Path("etc/os-release"))
    status = rootfs.output / "var/lib/dpkg/status.d"
    status.mkdir(parents=True)
    ours = {_without_usr(path) for path in rootfs.files}
    for name, (control, files) in sorted(_debian_packages(rootfs.source).items()):
        if not ours.isdisjoint(map(_without_usr, files)):
            (status / name).write_text(f"{control}\n")
            licence = Path(f"usr/share/doc/{name}/copyright")
            if rootfs.find(licence):
                rootfs.add(licence)


def _without_usr(path: Path) -> str:
    """Packages name their files with or without it, and systems link the one to the other."""
    return str(path).removeprefix("usr/")


def _debian_packages(root: Path) -> dict[str, tuple[str, list[Path]]]:
    """Of each package what dpkg knows of it, and its files."""
    dpkg = root / "var/lib/dpkg"
    controls = (dpkg / "status").read_text().strip().split("\n\n")
    packages = {}
    for control in controls:
        fields = dict(line.split(": ", 1) for line in control.splitlines() if re.match(r"[\w-]+: ", line))
        name = fields["Package"]
        for sums in (dpkg / f"info/{name}.md5sums", dpkg / f"info/{name}:{fields['Architecture']}.md5sums"):
            if sums.exists():
                files = [Path(line.split(maxsplit=1)[1]) for line in sums.read_text().splitlines()]
                packages[name] = (control, files)
    return packages


def assemble_environment(environment: Path, output: Path, interpreter: Path) -> None:
    """The packages without whatever was installed only to be run by people."""
    home = output / HOME
    (home / "bin").mkdir(parents=True)
    for name in ("python", "python3", VERSION):
        (home / "bin" / name).symlink_to(Path("/") / interpreter)
    version = ".".join(map(str, sys.version_info[:3]))
    settings = f"home = /{interpreter.parent}\ninclude-system-site-packages = false\nversion = {version}\n"
    (home / "pyvenv.cfg").write_text(settings)
    _copy_packages(environment / "lib" / VERSION / "site-packages", output / PACKAGES)
    _compile(output / PACKAGES, prefix=output)


def assemble_application(application: Path, output: Path) -> None:
    _copy_packages(application, output / PACKAGES)
    shutil.move(output / PACKAGES / "bin", output / HOME / "bin")
    _compile(output / PACKAGES, prefix=output)


def _copy_packages(source: Path, target: Path) -> None:
    # What differs from build to build (where packages came from, when, and the list of that), and old compiled modules.
    left_out = ("__pycache__", "direct_url.json", "uv_cache.json", "RECORD", ".lock")
    shutil.copytree(source, target, ignore=shutil.ignore_patterns(*left_out))


def _compile(directory: Path, *, prefix: Path) -> None:
    """With and without docstrings, as the operator and the agent want it. Never looked at again (the image's files have
    no times), and one after the other: what comes of it depends on what was compiled before."""
    for level in (0, 2):
        compiled = compileall.compile_dir(
            directory,
            maxlevels=100,
            quiet=1,
            optimize=level,
            stripdir=str(prefix),
            prependdir="/",
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        )
        if not compiled:
            raise AssemblyError(f"a module in {directory} cannot be compiled")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parts = parser.add_subparsers(dest="part", required=True)
    environment = parts.add_parser("environment", help="what does not change with our sources")
    environment.add_argument("--machine", required=True, help="as of the compiler, such as aarch64")
    application = parts.add_parser("application", help="what does")
    for part, directories in (
        (environment, ("python-root", "environment", "output")),
        (application, ("application", "simulation", "output")),
    ):
        for name in directories:
            part.add_argument(f"--{name}", type=Path, required=True)
    options = parser.parse_args()
    # Owner and rights are those of the files, whoever builds.
    os.umask(0o022)
    if options.part == "environment":
        installed = options.environment.resolve()
        rootfs = Rootfs(options.python_root, options.output / "interpreter")
        interpreter = assemble_interpreter(rootfs, options.machine, installed / "lib")
        describe_system(rootfs)
        assemble_environment(installed, options.output / "dependencies", interpreter)
    else:
        assemble_application(options.application, options.output / "application")
        target = options.output / "simulation" / PACKAGES / "gpusharing/sim/built"
        shutil.copytree(options.simulation, target)


if __name__ == "__main__":
    try:
        main()
    except AssemblyError as error:
        sys.exit(f"error: {error}")
