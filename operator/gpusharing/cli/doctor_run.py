"""How `gpusharing doctor` runs."""

import argparse
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NoReturn

from gpusharing.cli import exits, options
from gpusharing.cli.diagnosis_screen import DiagnosisTable
from gpusharing.cli.exits import CommandError
from gpusharing.cli.output import Screen, as_json
from gpusharing.cli.reading.client import Client, ReadError
from gpusharing.cli.reading.examination import agent_image, read_cluster, read_installation
from gpusharing.cli.reading.kubeconfig import access
from gpusharing.cli.reading.probe import run_probe
from gpusharing.diagnosing import reports
from gpusharing.diagnosing.check import Check
from gpusharing.diagnosing.diagnosis import before_installation, of_installation
from gpusharing.diagnosing.facts import InstallationFacts
from gpusharing.diagnosing.probing import ANY_PROGRAM, PROGRAM, check_offers, check_probe, offered_modes

_AGAIN: Final = 2.0


def run(arguments: argparse.Namespace) -> int:
    if arguments.pre and arguments.probe:
        raise CommandError("--probe needs an installation: use it without --pre")
    found = access(arguments.kubeconfig, arguments.context)
    printer = _Printer(arguments)
    with Client(found) as client, _ended_by_signals():
        try:
            checks, installed = _until_well(client, arguments)
            printer.show(checks)
            if installed is not None and arguments.probe:
                for check in _probes(client, installed, arguments, arguments.namespace or found.namespace):
                    printer.show([check])
        except KeyboardInterrupt:
            return exits.INTERRUPTED
    printer.close()
    return exits.OK if reports.is_well(printer.checks, strict=arguments.strict) else exits.FAILED


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """As Ctrl-C does, so that pods of probes are removed in any case."""

    def interrupt(*_: Any) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _until_well(client: Client, arguments: argparse.Namespace) -> tuple[list[Check], InstallationFacts | None]:
    deadline = time.monotonic() + (arguments.wait or 0)
    told = ""
    while True:
        is_last = time.monotonic() + _AGAIN > deadline
        try:
            checks, installed = _examined(client, arguments)
        except CommandError as error:
            if is_last:
                raise
            unwell = [str(error)]
        else:
            unwell = [one.name for one in checks if not reports.is_well([one], strict=arguments.strict)]
            if not unwell or is_last:
                return checks, installed
        if told != (told := ", ".join(unwell)):
            print(f"waiting: {told}", file=sys.stderr, flush=True)
        time.sleep(_AGAIN)


def _examined(client: Client, arguments: argparse.Namespace) -> tuple[list[Check], InstallationFacts | None]:
    try:
        facts = read_cluster(client)
    except ReadError as error:
        raise CommandError(str(error)) from error
    if arguments.pre:
        return _kept(before_installation(facts), arguments), None
    installed = read_installation(client, facts)
    return _kept(of_installation(facts, installed), arguments), installed


def _kept(checks: Iterator[Check], arguments: argparse.Namespace) -> list[Check]:
    return [check.without(arguments.ignore) for check in checks]


def _probes(
    client: Client, installed: InstallationFacts, arguments: argparse.Namespace, namespace: str
) -> Iterator[Check]:
    yield from _kept(check_offers(installed.node_sharings), arguments)
    modes = offered_modes(installed.node_sharings.objects)
    image = arguments.image or agent_image(installed)
    if modes and not image:
        raise CommandError("the image of the agents is not known: use --image IMAGE")
    program = ANY_PROGRAM if arguments.image else PROGRAM
    for mode in modes:
        probed = run_probe(client, mode, namespace=namespace, image=image, program=program, timeout=arguments.timeout)
        yield check_probe(probed).without(arguments.ignore)


class _Printer:
    """Prints what is known, as soon as the format allows it."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.checks: list[Check] = []
        self._output = arguments.output
        self._strict = arguments.strict
        self._table = DiagnosisTable(Screen.of())

    def show(self, checks: Sequence[Check]) -> None:
        self.checks += checks
        if self._output == options.TABLE:
            for line in self._table.lines(checks):
                print(line, flush=True)
        elif self._output == "short":
            for line in reports.short(checks):
                print(line, flush=True)

    def close(self) -> None:
        match self._output:
            case options.TABLE:
                print(f"\n{reports.summary(self.checks)}")
            case options.JSON:
                print(as_json(reports.to_json(self.checks, strict=self._strict)))
            case "junit":
                print(reports.junit(self.checks))
