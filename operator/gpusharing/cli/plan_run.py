"""How `gpusharing plan` runs."""

import argparse
import gc
from collections.abc import Iterator, Sequence

from gpusharing.cli import exits, options
from gpusharing.cli.exits import CommandError
from gpusharing.cli.manifests import read_objects
from gpusharing.cli.output import Screen, Style, as_json
from gpusharing.cli.snapshot import read_world
from gpusharing.cli.snapshot_file import read_snapshot
from gpusharing.planning import reports
from gpusharing.planning.changes import Plan
from gpusharing.planning.deciding import Edit
from gpusharing.planning.plan import REQUIRED, Assumptions, plan, without
from gpusharing.snapshots.world import World


def run(arguments: argparse.Namespace) -> int:
    # Objects live until the end: looking for garbage among them again and again would be a third of the time.
    gc.disable()
    try:
        return _run(arguments)
    finally:
        gc.enable()


def _run(arguments: argparse.Namespace) -> int:
    edit = _edit(arguments.filename, prunes=arguments.prune)
    world = _world(arguments)
    if missing := [field for field in REQUIRED if field in world.unread]:
        raise CommandError(f"{missing[0]}: {world.unread[missing[0]]}; a plan needs {', '.join(REQUIRED)}")
    found = without(plan(world, edit, Assumptions(full_menus=arguments.full_menus)), arguments.ignore)
    print(_printed(found, arguments.output))
    if not arguments.detailed_exitcode or not found.changes:
        return exits.OK
    return exits.DISTURBS if found.disturbed else exits.CHANGES


def _edit(files: Sequence[str], *, prunes: bool) -> Edit:
    objects = read_objects(files)
    policies = [one for one in objects if one["kind"] == "SharingPolicy"]
    namespaces = [one for one in objects if one["kind"] == "Namespace"]
    if not policies and not namespaces and not prunes:
        raise CommandError(f"{', '.join(files)}: no SharingPolicy; to plan the deletion of all, use --prune")
    return Edit(policies=policies, namespaces=namespaces, prunes=prunes)


def _world(arguments: argparse.Namespace) -> World:
    if arguments.snapshot is None:
        return read_world(arguments.kubeconfig, arguments.context)
    return read_snapshot(arguments.snapshot)


def _printed(found: Plan, output: str) -> str:
    match output:
        case options.JSON:
            return as_json(reports.to_json(found))
        case "markdown":
            return reports.markdown(found)
        case "github":
            return "\n".join([reports.summary(found), *reports.github(found.findings)])
        case "junit":
            return reports.junit(found)
        case _:
            return "\n".join(_table(found, Screen.of())).rstrip()


def _table(found: Plan, screen: Screen) -> Iterator[str]:
    yield screen.styled(screen.wrapped(reports.summary(found)), Style.BOLD)
    for one in reports.groups(found):
        yield ""
        count = f"{len(one.places):,} GPU{'' if len(one.places) == 1 else 's'}"
        yield screen.wrapped(f"{count}: {one.change}", indent=2, hanging=2)
        yield screen.wrapped(one.effect_in_words, indent=4, hanging=2)
        yield screen.wrapped(one.where, indent=4, hanging=2)
    sections = (
        ("Policies", [reports.object_in_words(one) for one in found.policies]),
        ("Other objects", [reports.object_in_words(one) for one in found.objects]),
        ("Order", reports.order_in_words(found.steps)),
        ("Pods that would start", [reports.workload_in_words(one) for one in found.starting]),
    )
    for title, texts in sections:
        if texts:
            yield ""
            yield screen.styled(title, Style.BOLD)
            yield from (screen.wrapped(text, indent=2, hanging=2) for text in texts)
    for finding in found.findings:
        yield ""
        yield screen.finding(finding, about=reports.about(finding))
