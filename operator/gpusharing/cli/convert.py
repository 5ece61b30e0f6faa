"""gpusharing convert: old DRA manifests, and NVIDIA's ways to share GPUs, as manifests of today."""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpusharing.cli import exits, options
from gpusharing.cli.exits import CommandError
from gpusharing.cli.files import PIPE, named, text_of
from gpusharing.cli.output import Screen
from gpusharing.converting.conversion import File, convert
from gpusharing.findings.finding import Finding, Severity


def register(subparsers: Any) -> None:
    parser = options.add_command(
        subparsers,
        "convert",
        summary="convert old DRA manifests and NVIDIA's sharing configs",
        examples=(
            ("A claim of resource.k8s.io/v1beta1", "gpusharing convert claim.yaml"),
            (
                "The GPU operator's settings; files that refer to each other go together",
                "gpusharing convert clusterpolicy.yaml time-slicing-config.yaml -o policies.yaml",
            ),
            ("All files of a folder where they are", "gpusharing convert --in-place manifests/"),
        ),
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="file, folder, or - for standard input")
    output = parser.add_mutually_exclusive_group()
    output.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="write to this file (default: standard output)"
    )
    output.add_argument("--in-place", action="store_true", help="write each file that changes where it was")
    options.add_ignore(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    names = list(named(arguments.files))
    if arguments.in_place and PIPE in names:
        raise CommandError("--in-place needs files, not standard input")
    files = [File(name, text_of(name)) for name in names]
    conversion = convert(files)
    if arguments.in_place:
        for before, after in zip(files, conversion.files, strict=True):
            if before != after:
                _write(Path(after.name), after.text)
    elif arguments.output:
        _write(arguments.output, _joined(conversion.files))
    else:
        sys.stdout.write(_joined(conversion.files))
    if list(conversion.files) == files and not conversion.remarks:
        sys.stderr.write("nothing to convert\n")
    found = [remark.finding for remark in conversion.remarks]
    found = [finding for finding in found if finding.code not in arguments.ignore]
    _report(found)
    return exits.FAILED if any(finding.entry.severity is Severity.ERROR for finding in found) else exits.OK


def _joined(files: Sequence[File]) -> str:
    """As one file."""
    joined = ""
    for file in files:
        if joined and file.text:
            joined = joined if joined.endswith("\n") else f"{joined}\n"
            joined += "" if file.text.startswith("---") else "---\n"
        joined += file.text
    return joined


def _write(path: Path, text: str) -> None:
    """A reader finds the former file or the new one."""
    path = path.resolve()
    try:
        with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as directory:
            new = Path(directory) / path.name
            new.write_text(text, encoding="utf-8", newline="")
            if path.exists():
                new.chmod(path.stat().st_mode & 0o777)
            new.replace(path)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}") from error


def _report(found: Sequence[Finding]) -> None:
    """Next to the result, not in it."""
    screen = Screen.of(sys.stderr)
    for finding in found:
        head, rest = screen.finding(finding).split("\n", 1)
        sys.stderr.write(f"{head} ({finding.object.name})\n{rest}\n")
