"""gpusharing test: tries policies on a cluster in memory, and compares with what is expected of them."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from gpusharing.cli import exits, options
from gpusharing.cli.exits import CommandError
from gpusharing.cli.manifests import read_sources
from gpusharing.cli.output import Screen, Style, as_json
from gpusharing.core.text import counted
from gpusharing.sharing_tests import reports
from gpusharing.sharing_tests.reading import UnusableError, read_tests
from gpusharing.sharing_tests.running import Check, Result
from gpusharing.sharing_tests.running import run as run_test
from gpusharing.snapshots import lines
from gpusharing.snapshots.file import SnapshotError
from gpusharing.snapshots.world import World
from gpusharing.validating.validation import Source

_FORMATS: Final = (options.TABLE, options.JSON, "junit")


def register(subparsers: Any) -> None:
    parser = options.add_command(
        subparsers,
        "test",
        summary="test policies without a cluster",
        examples=(
            ("All tests of a folder", "gpusharing test policies/tests/"),
            ("In CI, with a report", "gpusharing test -o junit policies/tests/ > report.xml"),
        ),
    )
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="file or folder with SharingTests, or - for standard input"
    )
    options.add_output(parser, _FORMATS)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    try:
        results = list(_results(arguments.files))
    except (UnusableError, CommandError) as error:
        sys.stderr.write(f"gpusharing: {error}\n")
        return exits.UNREADABLE
    print(_printed(results, arguments.output))
    return exits.OK if all(one.is_as_expected for one in results) else exits.FAILED


def _results(given: Sequence[str]) -> Iterator[Result]:
    found = [loaded for source in read_sources(given) for loaded in read_tests(source)]
    if not found:
        raise CommandError(f"{', '.join(given)}: no SharingTest")
    files = Files()
    for loaded in found:
        yield run_test(loaded, files)


class Files:
    """Paths are from the folder of the test that names them."""

    def manifests(self, path: str, near: str) -> Sequence[Source]:
        try:
            return list(read_sources([str(Path(near).parent / path)]))
        except CommandError as error:
            raise UnusableError(near, None, str(error)) from None

    def snapshot(self, path: str, near: str) -> World:
        name = Path(near).parent / path
        try:
            return lines.loads(name.read_bytes())
        except OSError as error:
            raise UnusableError(near, None, f"{name}: {error.strerror or error}") from None
        except SnapshotError as error:
            raise UnusableError(str(name), None, str(error)) from None


def _printed(results: Sequence[Result], output: str) -> str:
    match output:
        case options.JSON:
            return as_json(reports.to_json(results))
        case "junit":
            return reports.junit(results)
        case _:
            return "\n".join(_table(results, Screen.of()))


def _table(results: Sequence[Result], screen: Screen) -> Iterator[str]:
    for result in results:
        mark = ("✓", Style.GREEN) if result.is_as_expected else ("✗", Style.RED)
        name = screen.styled(result.name, Style.BOLD)
        yield f"{screen.styled(*mark)} {name} {result.file} ({counted(len(result.checks), 'check')})"
        for check in result.checks:
            if check.differences:
                yield from _difference(check, result, screen)
        if not result.is_as_expected:
            for finding in result.findings:
                yield ""
                yield screen.wrapped(f"{finding.object}: {finding.code} {finding.sentence}", indent=2, hanging=2)
            yield ""
    failed = sum(not one.is_as_expected for one in results)
    total = sum(len(one.checks) for one in results)
    what = f"{failed} of {counted(len(results), 'test')} not as expected" if failed else "all as expected"
    yield f"{counted(len(results), 'test')}, {counted(total, 'check')}: {what}"


def _difference(check: Check, result: Result, screen: Screen) -> Iterator[str]:
    yield ""
    yield screen.wrapped(f"{result.file}:{check.mark.line}: {check.name}", indent=2, hanging=2)
    for one in check.differences:
        yield screen.wrapped(f"expected  {one.expected}", indent=4, hanging=10)
        yield screen.wrapped(f"found     {one.found}", indent=4, hanging=10)
        if one.pods:
            yield screen.wrapped(f"for       {reports.pods_in_words(one)}", indent=4, hanging=10)
        for finding in one.findings:
            yield screen.wrapped(f"{finding.code} {finding.sentence}", indent=6, hanging=2)
            if finding.remedy:
                yield screen.wrapped(f"→ {finding.remedy}", indent=8, hanging=2)
