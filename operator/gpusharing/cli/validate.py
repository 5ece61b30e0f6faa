"""gpusharing validate: manifests as the API server, NVIDIA's decoder and our guards would look at them, offline."""

import argparse
from collections.abc import Iterator, Sequence
from typing import Any, Final

from gpusharing.cli import exits, options
from gpusharing.cli.manifests import read_sources
from gpusharing.cli.output import Screen, as_json
from gpusharing.findings.finding import Severity
from gpusharing.validating import reports
from gpusharing.validating.validation import Source, Validation, validate

_FORMATS: Final = (options.TABLE, options.JSON, "github", "junit", "sarif")


def register(subparsers: Any) -> None:
    parser = options.add_command(
        subparsers,
        "validate",
        summary="check manifests without a cluster",
        examples=(
            ("A folder and a file", "gpusharing validate policies/ claim.yaml"),
            ("What Helm renders", "helm template . | gpusharing validate -"),
            ("In GitHub Actions, at the lines of the pull request", "gpusharing validate -o github policies/"),
        ),
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="file, folder, or - for standard input")
    parser.add_argument("-n", "--namespace", metavar="NAME", help="namespace of objects that name none")
    parser.add_argument(
        "--kubernetes",
        type=_minor,
        default=None,
        metavar="1.N",
        help="version of Kubernetes (default: the newest known)",
    )
    parser.add_argument("--strict", action="store_true", help="warnings fail, too")
    options.add_output(parser, _FORMATS)
    options.add_ignore(parser)
    parser.set_defaults(run=exits.reporting(run))


def run(arguments: argparse.Namespace) -> int:
    sources = list(read_sources(arguments.files))
    newest = {} if arguments.kubernetes is None else {"minor": arguments.kubernetes}
    validation = validate(sources, namespace=arguments.namespace, **newest)
    found = tuple(one for one in validation.findings if one.finding.code not in arguments.ignore)
    print(_printed(Validation(found, validation.checked, validation.others), sources, arguments.output))
    fails = {Severity.ERROR, Severity.WARNING} if arguments.strict else {Severity.ERROR}
    return exits.FAILED if any(one.finding.entry.severity in fails for one in found) else exits.OK


def _minor(text: str) -> int:
    major, _, minor = text.partition(".")
    if major != "1" or not minor.isdecimal():
        raise argparse.ArgumentTypeError(f"{text} is not a version such as 1.37")
    return int(minor)


def _printed(validation: Validation, sources: Sequence[Source], output: str) -> str:
    match output:
        case options.JSON:
            return as_json(reports.to_json(validation))
        case "github":
            return "\n".join(reports.github(validation.findings))
        case "junit":
            return reports.junit([source.name for source in sources], validation.findings)
        case "sarif":
            return as_json(reports.sarif(validation.findings))
        case _:
            return "\n".join(_table(validation, Screen.of()))


def _table(validation: Validation, screen: Screen) -> Iterator[str]:
    for one in validation.findings:
        place = f"{one.file}:{one.mark.line}:{one.mark.column}"
        yield screen.finding(one.finding, about=f"{one.finding.object}: ", place=place)
        yield ""
    counts = [sum(one.finding.entry.severity is kind for one in validation.findings) for kind in Severity]
    what = ", ".join(
        f"{count} {kind.lower()}{'' if count == 1 else 's'}"
        for kind, count in zip(Severity, counts, strict=True)
        if count
    )
    others = f"; {_objects(validation.others)} of other kinds not checked" if validation.others else ""
    yield f"{_objects(validation.checked)} checked: {what or 'nothing found'}{others}"


def _objects(count: int) -> str:
    return f"{count} object{'' if count == 1 else 's'}"
