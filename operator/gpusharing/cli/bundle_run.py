"""How `gpusharing bundle` runs."""

import argparse
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from gpusharing import __version__
from gpusharing.api import names
from gpusharing.bundling import events, readme
from gpusharing.bundling.programs import Choice, choose
from gpusharing.bundling.texts import anonymous_log, anonymous_metrics
from gpusharing.cli import exits
from gpusharing.cli.exits import CommandError
from gpusharing.cli.reading.client import Client
from gpusharing.cli.reading.cluster import Ask, decode_list, read, read_list, served_versions
from gpusharing.cli.reading.installed import AGENTS, installed_in
from gpusharing.cli.reading.kubeconfig import access
from gpusharing.cli.reading.programs import METRICS, Texts, read_programs
from gpusharing.cli.vocabulary import vocabulary
from gpusharing.snapshots import archive, file
from gpusharing.snapshots.anonymous import anonymous
from gpusharing.snapshots.lean import lean
from gpusharing.snapshots.lines import Lines
from gpusharing.snapshots.pseudonyms import Pseudonyms
from gpusharing.snapshots.world import (
    DAEMON_SETS,
    EVENTS,
    POD_GROUPS,
    PODS,
    RESOURCES,
    TAINT_RULES,
    Json,
    Resource,
    World,
)

_PROGRAMS: Final = f"{names.PROGRAM_LABEL} in ({names.OPERATOR},{names.AGENT})"
_OPTIONAL: Final = frozenset({TAINT_RULES.field, POD_GROUPS.field})
"""Kinds that an API server may not have: that is no gap."""


@dataclass(frozen=True)
class Found:
    world: World
    choice: Choice
    texts: Texts
    unread: Sequence[str]


def run(arguments: argparse.Namespace) -> int:
    path = arguments.filename or Path(time.strftime("gpusharing-%Y%m%d-%H%M%S.tar.gz", time.gmtime()))
    found = _read(arguments)
    for line in found.unread:
        print(f"not in the bundle: {line}", file=sys.stderr)
    if not found.texts.files and not any(found.world.of(one) for one in RESOURCES):
        raise CommandError("nothing could be read: see the lines above")
    data = archive.pack(_files(found, is_anonymous=arguments.anonymous))
    try:
        _write(path, data)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}") from error
    print(f"{path}: {len(data) / 1000:,.0f} kB. {readme.agents(found.choice)}")
    return exits.OK


def _write(path: Path, data: bytes) -> None:
    """It has names of tenants: others on this machine may not read it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as output:
        output.write(data)


# ------------------------------------------------------------------------------------------------------------ reading


def _read(arguments: argparse.Namespace) -> Found:
    found = access(arguments.kubeconfig, arguments.context)
    since = arguments.since
    oldest = "" if since is None else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - since))
    with Client(found) as client:
        namespace = installed_in(client)
        asks = [_ask(one, oldest, namespace) for one in RESOURCES]
        world = replace(read(client, asks), served=served_versions(client))
        programs = read_list(client, Ask(PODS, namespace=namespace, labels=_PROGRAMS))
        choice = choose(programs.objects, world.node_sharings, arguments.nodes)
        texts = read_programs(client, choice.chosen, since=since)
    world = replace(
        world,
        events=events.wanted(world.events, events.pods_with_devices(world.pods)),
        unread={field: why for field, why in world.unread.items() if field not in _OPTIONAL},
    )
    unread = [
        *(f"{field}: {why}" for field, why in sorted(world.unread.items())),
        *([] if choice.chosen else [f"logs and metrics: {programs.unread or 'no pod of operator or agent was found'}"]),
        *(f"logs of node {node}: no agent" for node in choice.unknown),
        *texts.unread,
    ]
    return Found(world, choice, texts, unread)


def _ask(resource: Resource, oldest: str, installed: str) -> Ask:
    if resource == EVENTS:
        return Ask(EVENTS, decode=partial(_events, oldest), collect=Lines)
    ask = Ask(resource, decode=partial(_objects, resource), collect=Lines)
    if resource == DAEMON_SETS:
        return ask._replace(namespace=installed, labels=AGENTS)
    return ask


def _objects(resource: Resource, page: bytes) -> Sequence[Json]:
    return [lean(resource, item) for item in decode_list(page)]


def _events(oldest: str, page: bytes) -> Sequence[Json]:
    return [lean(EVENTS, item) for item in decode_list(page) if events.may_be_wanted(item, oldest)]


# ------------------------------------------------------------------------------------------------------------ writing


def _files(found: Found, *, is_anonymous: bool) -> Mapping[str, bytes]:
    world, texts, unread = found.world, found.texts.files, found.unread
    if is_anonymous:
        programs = [name for one in found.choice.chosen for name in (one.pod, one.node, one.namespace)]
        pseudonyms = Pseudonyms.of(world, salt=os.urandom(16), vocabulary=vocabulary(), others=programs)
        texts = {pseudonyms.name(name): _hidden(name, data, pseudonyms) for name, data in texts.items()}
        world = anonymous(world, pseudonyms)
        unread = [pseudonyms.prose(one) for one in unread]
    about = readme.About(
        version=__version__,
        minor=world.minor,
        taken_at=world.taken_at,
        choice=found.choice,
        unread=unread,
        is_anonymous=is_anonymous,
    )
    return {
        readme.NAME: readme.readme(about).encode(),
        archive.SNAPSHOT: file.dumps(world).encode(),
        **dict(sorted(texts.items())),
    }


def _hidden(name: str, data: bytes, pseudonyms: Pseudonyms) -> bytes:
    text = data.decode(errors="replace")
    hide = anonymous_metrics if name.endswith(METRICS) else anonymous_log
    return hide(text, pseudonyms).encode()
