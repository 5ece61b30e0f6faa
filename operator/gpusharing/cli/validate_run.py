"""How `gpusharing validate` runs."""

import argparse
from collections.abc import Iterator, Sequence

from gpusharing.cli import exits, options
from gpusharing.cli.manifests import read_sources
from gpusharing.cli.output import Screen, as_json
from gpusharing.findings.finding import Severity
from gpusharing.validating import reports
from gpusharing.validating.validation import Source, Validation, validate


def run(arguments: argparse.Namespace) -> int:
    sources = list(read_sources(arguments.files))
    newest = {} if arguments.kubernetes is None else {"minor": arguments.kubernetes}
    validation = validate(sources, namespace=arguments.namespace, **newest)
    found = tuple(one for one in validation.findings if one.finding.code not in arguments.ignore)
    print(_printed(Validation(found, validation.checked, validation.others), sources, arguments.output))
    fails = {Severity.ERROR, Severity.WARNING} if arguments.strict else {Severity.ERROR}
    return exits.FAILED if any(one.finding.entry.severity in fails for one in found) else exits.OK


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
