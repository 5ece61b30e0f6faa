"""The image has what operator, agent and command line need, and nothing else."""

import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from image.built import SITE_PACKAGES, Image, build
from image.conftest import BuildImages

pytestmark = [pytest.mark.image, pytest.mark.timeout(1800)]

COMPRESSED_LIMIT: Final = 90_000_000
UNCHECKED_HASH: Final = 1
ELF: Final = b"\x7fELF"

SHELLS: Final = "sh bash dash ash ksh zsh busybox toybox"
COMPILERS: Final = "cc gcc g++ c++ clang tcc ld as make perl"
PACKAGE_MANAGERS: Final = "apt apt-get dpkg apk rpm dnf yum pip pip3 uv uvx easy_install"


def files(root: Path) -> Iterator[Path]:
    return (path for path in root.rglob("*") if path.is_file() and not path.is_symlink())


def elf_files(root: Path) -> Iterator[Path]:
    for path in files(root):
        with path.open("rb") as file:
            if file.read(4) == ELF:
                yield path


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("--help", "operator"),
        ("--version", "gpusharing "),
        ("operator --help", "--lease-namespace"),
        ("agent --help", "--driver-root"),
    ],
)
@pytest.mark.parametrize("optimize", ["", "2"])
def test_command_chooses_the_program(image: Image, arguments: str, says: str, optimize: str) -> None:
    [entrypoint] = image.config["config"]["Entrypoint"]
    for program in (entrypoint, "gpusharing"):
        done = image.run(program, *arguments.split(), PYTHONOPTIMIZE=optimize)
        assert (done.returncode, done.stderr) == (0, "")
        assert says in done.stdout


def test_every_module_can_be_imported(image: Image) -> None:
    """With the libraries that the image has. Of the standard library those that are there."""
    own = sorted(
        ".".join(path.relative_to(image.rootfs / SITE_PACKAGES).with_suffix("").parts).removesuffix(".__init__")
        for path in (image.rootfs / SITE_PACKAGES / "gpusharing").rglob("*.py")
        if path.name != "__main__.py"
    )
    extensions = sorted({path.name.split(".")[0] for path in image.rootfs.glob("usr*/**/lib-dynload/*.so")})
    assert len(own) > 300
    assert len(extensions) > 10
    code = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)"
    done = image.run("python", "-c", code, *own, *extensions, "re2")
    assert (done.returncode, done.stderr) == (0, "")


def test_has_no_shell_no_compiler_and_no_package_manager(image: Image) -> None:
    names = {path.name for path in image.rootfs.rglob("*") if not path.is_dir()}
    assert not names & set(f"{SHELLS} {COMPILERS} {PACKAGE_MANAGERS}".split())
    assert not {path.name for path in image.rootfs.rglob("*")} & {"pip", "ensurepip", "setuptools", "hatchling"}


def test_has_no_other_programs_than_these(image: Image) -> None:
    """Which people cannot use in a container without knowing of them."""
    programs = {path.name for path in elf_files(image.rootfs) if ".so" not in path.name}
    assert programs == {"python3.11", "nsenter", "gpusharing-wall"}
    places = ("usr/bin", "usr/local/bin", "opt/gpusharing/bin")
    on_path = {path.name for place in places for path in (image.rootfs / place).glob("*")}
    assert on_path == {"python", "python3", "python3.11", "nsenter", "gpusharing", "kubectl-gpusharing"}


def test_is_not_root_and_says_what_it_is(image: Image) -> None:
    config = image.config["config"]
    assert config["User"] == "65532:65532"
    assert "Healthcheck" not in config
    labels = {key.removeprefix("org.opencontainers.image."): value for key, value in config["Labels"].items()}
    assert set(labels) == {"title", "description", "licenses", "version", "revision"}
    assert re.fullmatch(r"[0-9a-f]{40}", labels["revision"])
    assert image.run("gpusharing", "--version").stdout == f"gpusharing {labels['version']}\n"


def test_nobody_can_change_it_or_become_root_by_it(image: Image) -> None:
    for path in image.rootfs.rglob("*"):
        status = path.lstat()
        assert (status.st_uid, status.st_gid) == (0, 0), path
        if not path.is_symlink():
            assert not status.st_mode & (stat.S_ISUID | stat.S_ISGID), path
            assert not status.st_mode & stat.S_IWOTH or path.relative_to(image.rootfs) == Path("tmp"), path


def test_every_module_is_compiled_and_not_looked_at_again(image: Image) -> None:
    """Both programs run in a file system that they cannot write, the agent without docstrings."""
    sources = [path for path in image.rootfs.rglob("*.py") if path.parent.name != "bin"]
    assert len(sources) > 2000
    for source in sources:
        for level in ("", ".opt-2"):
            compiled = source.parent / "__pycache__" / f"{source.stem}.cpython-311{level}.pyc"
            assert int.from_bytes(compiled.read_bytes()[4:8], "little") == UNCHECKED_HASH, compiled


def test_compiled_modules_are_used(image: Image) -> None:
    done = image.run("python", "-v", "-m", "gpusharing", "agent", "--help", PYTHONOPTIMIZE="2")
    assert "gpusharing/agent/__pycache__/command.cpython-311.opt-2.pyc" in done.stderr
    # As Python says it of a module that it has had to compile.
    assert not re.findall(r"^# code object from '(?!.*\.pyc').*$", done.stderr, re.MULTILINE)


def test_knows_of_its_time_zones_and_names(image: Image) -> None:
    """What programs take from a system without noticing."""
    code = (
        "import os, pwd, socket, ssl, sys, tempfile, zoneinfo; "
        "zoneinfo.ZoneInfo('Europe/Berlin'); ssl.create_default_context(); tempfile.TemporaryFile(); "
        "address = socket.getaddrinfo('127.0.0.1', 1)[0][4]; "
        "print(pwd.getpwuid(os.getuid()).pw_name, sys.getfilesystemencoding(), address)"
    )
    done = image.run("python", "-c", code)
    assert (done.stdout, done.stderr) == ("nonroot utf-8 ('127.0.0.1', 1)\n", "")


def test_is_small(image: Image) -> None:
    assert sum(layer["size"] for layer in image.manifest["layers"]) < COMPRESSED_LIMIT


def test_new_version_of_ours_changes_the_last_layer_only(image: Image) -> None:
    """Nodes keep the others."""
    interpreter, dependencies, ours = (layer["size"] for layer in image.manifest["layers"])
    assert ours < interpreter + dependencies
    assert ours < 5_000_000


@pytest.mark.slow
def test_is_built_again_with_the_same_digest(build_images: BuildImages, own_architecture: str, tmp_path: Path) -> None:
    before = {name: one.digest for name, one in build_images(own_architecture).items()}
    again = build(own_architecture, "--anew")
    assert {name: Image(archive, tmp_path).digest for name, archive in again.items()} == before
