"""Builds programs of Go modules, once, and shows how far it is."""

import hashlib
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.cache import CACHE, one_at_a_time
from harness.go import LOG, MODULES, Go
from harness.go_module import GoModule
from harness.go_work import LISTED, Work, downloads, module_archives, seconds_left, uncompiled
from harness.progress import KEPT, PROGRESS, duration

# Where nothing was built yet: Kubernetes takes ten minutes on two processors.
_USUAL_RATE: Final = 90_000.0 * (os.cpu_count() or 1)
_RATE: Final = "bytes of Go compiled in a second"
# What is built in less time says little about the rate.
_MEASURED_AFTER: Final = 20.0


@dataclass(frozen=True)
class _Target:
    module: GoModule
    package: str
    program: Path


def programs(go: Go, modules: Sequence[GoModule]) -> Path:
    """The directory with the programs of these modules."""
    directory = CACHE / _key(go, modules) / "bin"

    def missing() -> Iterator[_Target]:
        for module in modules:
            for name, package in module.packages.items():
                if not (directory / name).exists():
                    yield _Target(module, package, directory / name)

    # What is there is used while another run builds other programs.
    if any(missing()):
        with one_at_a_time():
            directory.mkdir(parents=True, exist_ok=True)
            if targets := list(missing()):
                _build(go, targets)
    return directory


def _key(go: Go, modules: Sequence[GoModule]) -> str:
    inputs = hashlib.sha256(go.version.encode())
    for module in modules:
        inputs.update(repr((module.flags(), module.packages)).encode())
        for name in ("go.mod", "go.sum"):
            inputs.update((module.directory / name).read_bytes())
        for source in sorted(module.sources.iterdir()) if module.sources else ():
            inputs.update(source.read_bytes())
    return inputs.hexdigest()[:16]


def _build(go: Go, targets: Sequence[_Target]) -> None:
    LOG.unlink(missing_ok=True)
    names = ", ".join(target.program.name for target in targets)
    PROGRESS.say(f"Building {names}; the log is {LOG}")
    work = Work(_sizes(go, targets), programs=len(targets))
    expected_rate = KEPT.get(_RATE) or _USUAL_RATE
    started = time.monotonic()

    def left() -> str:
        return duration(seconds_left(work, elapsed=time.monotonic() - started, expected_rate=expected_rate))

    PROGRESS.say(f"{work.packages} packages are to be compiled: about {left()}")
    for target in targets:
        name = target.program.name

        def follow(lines: Sequence[str], name: str = name) -> None:
            work.note(lines)
            so_far = f"{work.packages_done} of {work.packages} packages"
            PROGRESS.show(f"Building {name}: {so_far}, about {left()} left")

        unfinished = target.program.with_name(f".{name}")
        options = ["-v", *target.module.flags(), "-o", str(unfinished)]
        go.run_logged("build", *options, target.package, module=target.module, follow=follow)
        unfinished.rename(target.program)
        work.note_linked()
        taken = duration(time.monotonic() - started)
        PROGRESS.say(f"Built {name}: {work.packages_done} of {work.packages} packages after {taken}")
    if (elapsed := time.monotonic() - started) > _MEASURED_AFTER:
        KEPT.keep(_RATE, work.done / elapsed)


def _sizes(go: Go, targets: Sequence[_Target]) -> dict[str, int]:
    """Of the packages that are to be compiled. Fetches their modules."""
    sizes = {}
    for directory in dict.fromkeys(target.module.directory for target in targets):
        those = [target for target in targets if target.module.directory == directory]
        archives = module_archives((directory / "go.sum").read_text())
        absent = sum(not (MODULES / archive).exists() for archive in archives)
        fetched: list[str] = []

        def follow(lines: Sequence[str], absent: int = absent, fetched: list[str] = fetched) -> None:
            fetched.extend(lines)
            if count := downloads(fetched):
                PROGRESS.show(f"Fetching modules: {count} of at most {absent}")

        module = those[0].module
        options = ["-deps", "-f", LISTED, *module.flags()]
        listing = go.run_logged("list", *options, *(target.package for target in those), module=module, follow=follow)
        for package, files in uncompiled(listing).items():
            sizes[package] = sum(file.stat().st_size for file in files)
    return sizes
